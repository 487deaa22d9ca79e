"""Kubernetes' library for CEL: lists, sets, quantities, versions, addresses, URLs, expressions."""

from __future__ import annotations

import ipaddress
import itertools
import re
import urllib.parse
from collections.abc import Callable
from typing import Any

from tenantry.core import cel_values as cv
from tenantry.core import quantity, regex
from tenantry.core.templates.functions import versions

_URL = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:|/)(?:[^\s\x00-\x1f\x7f%]|%[0-9A-Fa-f]{2})*")


# Lists and sets.


def _is_sorted(items: list[Any]) -> bool:
    return all(not _less(after, before) for before, after in itertools.pairwise(items))


def _less(left: Any, right: Any) -> bool:
    if type(left) is not type(right) or isinstance(left, (dict, list)):
        raise ValueError("items that cannot be compared with each other")
    return bool(left < right)


def _extreme(items: list[Any], *, least: bool) -> Any:
    if not items:
        raise ValueError("min and max need a list that is not empty")
    chosen = items[0]
    for item in items[1:]:
        if _less(item, chosen) if least else _less(chosen, item):
            chosen = item
    return chosen


def _sum(items: list[Any]) -> Any:
    if any(isinstance(item, bool) or not isinstance(item, (int, float)) for item in items):
        raise ValueError("sum needs a list of numbers")
    total = sum(items)
    if isinstance(total, int) and not -(2**63) <= total < 2**63:
        raise ValueError("integer overflow")
    return total


def _index_of(items: list[Any], item: Any) -> int:
    return next((index for index, each in enumerate(items) if _same(each, item)), -1)


def _last_index_of(items: list[Any], item: Any) -> int:
    reverse = range(len(items) - 1, -1, -1)
    return next((index for index in reverse if _same(items[index], item)), -1)


def _same(left: Any, right: Any) -> bool:
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def _contains_all(items: list[Any], wanted: list[Any]) -> bool:
    if len(items) * len(wanted) > cv.MOST:
        raise ValueError("sets too large to compare")
    return all(any(_same(each, item) for each in items) for item in wanted)


def _equivalent(left: list[Any], right: list[Any]) -> bool:
    return _contains_all(left, right) and _contains_all(right, left)


def _intersects(left: list[Any], right: list[Any]) -> bool:
    return any(_contains_all(left, [item]) for item in right)


def _distinct(items: list[Any]) -> list[Any]:
    kept: list[Any] = []
    for item in items:
        if not _contains_all(kept, [item]):
            kept.append(item)
    return kept


def _flatten(items: list[Any]) -> list[Any]:
    flat = [deeper for item in items for deeper in (item if isinstance(item, list) else [item])]
    return list(cv.short(flat))


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if not 0 <= start <= end <= len(items):
        raise ValueError(f"slice({start}, {end}) of a list with {len(items)} items")
    return items[start:end]


def _sort(items: list[Any]) -> list[Any]:
    for before, after in itertools.pairwise(items):
        _less(before, after)
    return sorted(items)


# Quantities and versions, which share names of functions.


def _compare(left: Any, right: Any) -> int:
    if "semver" in {cv.mark_of(left), cv.mark_of(right)} or isinstance(left, str):
        return versions.order(cv.version(left), cv.version(right))
    first, second = cv.amount(left), cv.amount(right)
    return (first > second) - (first < second)


def _operand(value: Any) -> quantity.Quantity:
    """A bare number beside a quantity counts whole units."""
    if isinstance(value, int) and not isinstance(value, bool):
        return quantity.Quantity(value * quantity.NANO)
    return cv.amount(value)


def _as_integer(value: Any) -> int:
    found = cv.amount(value)
    if found.nanos % quantity.NANO or not -(2**63) <= found.nanos // quantity.NANO < 2**63:
        raise ValueError("cannot convert value to integer")
    return found.nanos // quantity.NANO


def _lenient(text: str, normalize: bool) -> dict[str, Any]:
    return cv.of_version(text, lenient=normalize)


def _parse_quantity(text: str) -> dict[str, Any]:
    return cv.of_quantity(quantity.parse(text, "quantity"))


# Addresses.


def _ip(value: Any) -> dict[str, Any]:
    if cv.mark_of(value) == "cidr":
        return cv.marked("ip", text=str(cv.interface(value).ip))
    return cv.marked("ip", text=str(cv.parse_address(value)))


def _cidr(text: str) -> dict[str, Any]:
    return cv.marked("cidr", text=str(cv.parse_cidr(text)))


def _contains_ip(value: Any, other: Any) -> bool:
    return cv.address(other) in cv.interface(value).network


def _contains_cidr(value: Any, other: Any) -> bool:
    inner, outer = cv.interface(other).network, cv.interface(value).network
    return (
        inner.version == outer.version
        and inner.network_address in outer
        and (inner.prefixlen >= outer.prefixlen)
    )


def _global_unicast(value: Any) -> bool:
    found = cv.address(value)
    limited = isinstance(found, ipaddress.IPv4Address) and int(found) == 0xFFFFFFFF
    return not (
        limited
        or found.is_unspecified
        or found.is_loopback
        or found.is_multicast
        or found.is_link_local
    )


def _link_local_multicast(value: Any) -> bool:
    found = cv.address(value)
    if isinstance(found, ipaddress.IPv4Address):
        return found in ipaddress.IPv4Network("224.0.0.0/24")
    return found.packed[0] == 0xFF and found.packed[1] & 0x0F == 0x02


def _link_local_unicast(value: Any) -> bool:
    return cv.address(value).is_link_local


def _text_of(value: Any) -> str:
    if cv.mark_of(value) in {"ip", "cidr"}:
        return str(value["text"])
    raise ValueError("string() takes no map")


# URLs and regular expressions.


def _url(text: str) -> dict[str, Any]:
    if _URL.fullmatch(text) is None:
        raise ValueError("URL parse error: an absolute URL or path is wanted")
    parts = urllib.parse.urlsplit(text)
    # Looking at the port is what checks it.
    return cv.marked("url", text=text, port="" if parts.port is None else str(parts.port))


def _parts(value: Any) -> urllib.parse.SplitResult:
    return urllib.parse.urlsplit(str(cv.want(value, "url")["text"]))


def _host(value: Any) -> str:
    return _parts(value).netloc.rpartition("@")[2]


def _hostname(value: Any) -> str:
    host = _host(value)
    if host.startswith("["):
        return host[1 : host.find("]")]
    return host.partition(":")[0]


def _query(value: Any) -> dict[str, list[str]]:
    return urllib.parse.parse_qs(_parts(value).query, keep_blank_values=True)


def _find(text: str, pattern: str) -> str:
    match = _searched(text, pattern).search(text)
    return str(match.group()) if match else ""


def _find_all(text: str, pattern: str) -> list[str]:
    return _find_some(text, pattern, -1)


def _find_some(text: str, pattern: str, most: int) -> list[str]:
    found: list[str] = []
    before = -1
    for match in _searched(text, pattern).finditer(text):
        if match.start() == match.end() == before:
            continue
        if 0 <= most <= len(found):
            break
        before = match.end()
        cv.spend((len(text) - before) // 64)
        found.append(str(match.group()))
    return found


def _matches(text: str, pattern: str) -> bool:
    program = regex.compile(pattern, "regular expression")
    cv.spend(regex.work(program, len(text)) // 100)
    return program.search(text) is not None


def _searched(text: str, pattern: str) -> Any:
    program = regex.compile(pattern, "regular expression")
    cv.spend(regex.work(program, len(text)) // 100)
    # Every match may look at all of the rest once more.
    if len(text) > 1 << 14 or regex.work(program, len(text)) > regex.MOST_WORK // 16:
        raise ValueError("a text too long for this regular expression")
    return program


def _compared(holds: Callable[[int], bool]) -> Callable[[Any, Any], bool]:
    return lambda left, right: holds(_compare(left, right))


FUNCTIONS = cv.functions(
    (".isSorted", "list", "bool", _is_sorted),
    (".min", "list", "any", lambda items: _extreme(items, least=True)),
    (".max", "list", "any", lambda items: _extreme(items, least=False)),
    (".sum", "list", "any", _sum),
    (".indexOf", "list any", "int", _index_of),
    (".lastIndexOf", "list any", "int", _last_index_of),
    (".distinct", "list", "list", _distinct),
    (".flatten", "list", "list", _flatten),
    (".reverse", "list", "list", lambda items: items[::-1]),
    (".slice", "list int int", "list", _slice),
    (".sort", "list", "list", _sort),
    ("lists.range", "int", "list", lambda count: list(range(len(cv.short(range(max(count, 0))))))),
    ("sets.contains", "list list", "bool", _contains_all),
    ("sets.equivalent", "list list", "bool", _equivalent),
    ("sets.intersects", "list list", "bool", _intersects),
    ("quantity", "string", "any", _parse_quantity),
    ("isQuantity", "string", "bool", cv.holds(_parse_quantity)),
    (".add", "any any", "any", lambda a, b: cv.of_quantity(cv.amount(a) + _operand(b))),
    (".sub", "any any", "any", lambda a, b: cv.of_quantity(cv.amount(a) - _operand(b))),
    (".isInteger", "any", "bool", cv.holds(_as_integer)),
    (".asInteger", "any", "int", _as_integer),
    (".asApproximateFloat", "any", "double", lambda a: cv.amount(a).nanos / quantity.NANO),
    ("semver", "string", "any", cv.of_version),
    ("semver", "string bool", "any", _lenient),
    ("isSemver", "string", "bool", cv.holds(cv.of_version)),
    ("isSemver", "string bool", "bool", lambda t, n: cv.holds(lambda text: _lenient(text, n))(t)),
    (".major", "any", "int", lambda value: cv.version(value).numbers[0]),
    (".minor", "any", "int", lambda value: cv.version(value).numbers[1]),
    (".patch", "any", "int", lambda value: cv.version(value).numbers[2]),
    (".compareTo", "any any", "int", _compare),
    (".isGreaterThan", "any any", "bool", _compared(lambda order: order > 0)),
    (".isLessThan", "any any", "bool", _compared(lambda order: order < 0)),
    ("ip", "string", "any", _ip),
    (".ip", "any", "any", _ip),
    ("isIP", "string", "bool", cv.holds(cv.parse_address)),
    ("ip.isCanonical", "string", "bool", lambda text: str(cv.parse_address(text)) == text),
    (".family", "any", "int", lambda value: cv.address(value).version),
    (".isUnspecified", "any", "bool", lambda value: cv.address(value).is_unspecified),
    (".isLoopback", "any", "bool", lambda value: cv.address(value).is_loopback),
    (".isLinkLocalMulticast", "any", "bool", _link_local_multicast),
    (".isLinkLocalUnicast", "any", "bool", _link_local_unicast),
    (".isGlobalUnicast", "any", "bool", _global_unicast),
    ("cidr", "string", "any", _cidr),
    ("isCIDR", "string", "bool", cv.holds(cv.parse_cidr)),
    (".containsIP", "any any", "bool", _contains_ip),
    (".containsCIDR", "any any", "bool", _contains_cidr),
    (".prefixLength", "any", "int", lambda value: cv.interface(value).network.prefixlen),
    (".masked", "any", "any", lambda value: _cidr(str(cv.interface(value).network))),
    ("string", "map", "string", _text_of),
    ("url", "string", "any", _url),
    ("isURL", "string", "bool", cv.holds(_url)),
    (".getScheme", "any", "string", lambda value: _parts(value).scheme),
    (".getHost", "any", "string", _host),
    (".getHostname", "any", "string", _hostname),
    (".getPort", "any", "string", lambda value: cv.want(value, "url")["port"]),
    (".getEscapedPath", "any", "string", lambda value: _parts(value).path),
    (".getQuery", "any", "map", _query),
    # The standard library's `matches` knows no bound; `cel` puts these in its place.
    (".matchRE", "string string", "bool", _matches),
    ("matchRE", "string string", "bool", _matches),
    (".find", "string string", "string", _find),
    (".findAll", "string string", "list", _find_all),
    (".findAll", "string string int", "list", _find_some),
)
