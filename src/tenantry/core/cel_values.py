"""What Kubernetes adds to CEL's types, as marked maps, and the table entry of a function."""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

from tenantry.core import errors, quantity
from tenantry.core.templates import errors as template_errors
from tenantry.core.templates.functions import versions

#: The key that holds the mark; no field of Kubernetes is called so.
MARK = "~"
#: Most characters or items that a function gives.
MOST = 1 << 20
#: What the functions of one evaluation may read and give, in characters and items.
ALLOWANCE = 2_000_000

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
Interface: TypeAlias = ipaddress.IPv4Interface | ipaddress.IPv6Interface


@dataclasses.dataclass(frozen=True, slots=True)
class Function:
    """One overload, by the names of CEL's types."""

    name: str
    parameters: tuple[str, ...]
    result: str
    member: bool
    call: Callable[..., Any]


def functions(*table: tuple[str, str, str, Callable[..., Any]]) -> tuple[Function, ...]:
    """Build entries from rows of name, parameters, result; a name with a dot first is a member."""
    return tuple(
        Function(name.removeprefix("."), tuple(parameters.split()), result, name[0] == ".", call)
        for name, parameters, result, call in table
    )


def marked(mark: str, **content: Any) -> dict[str, Any]:
    return {MARK: mark, **content}


def mark_of(value: Any) -> str:
    return str(value.get(MARK, "")) if isinstance(value, dict) else ""


def want(value: Any, mark: str) -> dict[str, Any]:
    if mark_of(value) != mark:
        raise ValueError(f"expected a value of {mark}()")
    found: dict[str, Any] = value
    return found


def of_quantity(value: quantity.Quantity) -> dict[str, Any]:
    """Equal amounts are equal maps, however they were written."""
    return marked("quantity", nanos=str(value.nanos))


def amount(value: Any) -> quantity.Quantity:
    if isinstance(value, int) and not isinstance(value, bool):
        return quantity.Quantity(value * 10**6)
    return quantity.Quantity(int(want(value, "quantity")["nanos"]))


def of_version(text: str, *, lenient: bool = False) -> dict[str, Any]:
    """Three numbers are wanted; `lenient` adds those that are missing and takes a v away."""
    try:
        version = versions.Version(text)
    except template_errors.Failure as problem:
        raise ValueError(str(problem)) from None
    core = text.partition("-")[0].partition("+")[0]
    parts = core.removeprefix("v").split(".")
    zeroes = any(len(part) > 1 and part[0] == "0" for part in parts)
    if not lenient and (core.startswith("v") or len(parts) != 3 or zeroes):
        raise errors.InvalidValueError("semver", text, "MAJOR.MINOR.PATCH")
    return marked("semver", text=str(version))


def version(value: Any) -> versions.Version:
    text = value if isinstance(value, str) else want(value, "semver")["text"]
    return versions.Version(of_version(text)["text"])


def parse_address(text: str) -> Address:
    """Read an IP address, without zones and without IPv4 written as IPv6, as Kubernetes does."""
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address) and (address.scope_id or address.ipv4_mapped):
        raise ValueError("an address has no zone and is not IPv4 written as IPv6")
    return address


def parse_cidr(text: str) -> Interface:
    if re.search(r"/(0|[1-9][0-9]{0,2})\Z", text) is None:
        raise ValueError("a CIDR is an address, a slash and a length")
    parse_address(text.rpartition("/")[0])
    return ipaddress.ip_interface(text)


def address(value: Any) -> Address:
    return parse_address(value if isinstance(value, str) else want(value, "ip")["text"])


def interface(value: Any) -> Interface:
    return parse_cidr(value if isinstance(value, str) else want(value, "cidr")["text"])


def short(items: Any) -> Any:
    """Refuse what is longer than a value may be."""
    if len(items) > MOST:
        raise ValueError(f"a value of more than {MOST} characters or items")
    return items


class _Meter(threading.local):
    """What is left of the allowance; an evaluation stays on its thread."""

    left = ALLOWANCE


_METER = _Meter()


def begin() -> None:
    """Begin an evaluation."""
    _METER.left = ALLOWANCE


def spend(amount: int) -> None:
    _METER.left -= amount
    if _METER.left < 0:
        raise ValueError(f"functions read and give more than {ALLOWANCE} characters and items")


def metered(call: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function pay for its arguments and its result."""

    def paying(*arguments: Any) -> Any:
        spend(4 + sum(len(each) for each in arguments if isinstance(each, (str, list, dict))))
        result = call(*arguments)
        if isinstance(result, (str, list)):
            spend(len(result))
        return result

    return paying


def holds(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    """Make the function that tells whether a text can be parsed."""

    def test(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, errors.TenantryError):
            return False
        return True

    return test
