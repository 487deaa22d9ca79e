"""Names, parameter types and implementations of functions, and how arguments become what they take.

Go checks an argument against the type of the parameter and converts nothing: an int64 of the data
is no int, which is why people write ``repeat (int .n)``. Literals take the type that is wanted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

from tenantry.core.templates import errors, nodes, values

Implementation = Callable[..., Any]
T = TypeVar("T", bound=Implementation)


@dataclasses.dataclass(frozen=True, slots=True)
class Function:
    """One function; it is called with the budget and the converted arguments."""

    name: str
    parameters: tuple[str, ...]
    #: Type of any number of further arguments, or an empty text.
    rest: str
    call: Implementation
    #: Whether it changes a map that it is given.
    mutates: bool

    def parameter(self, index: int) -> str:
        return self.parameters[index] if index < len(self.parameters) else self.rest

    @property
    def usage(self) -> str:
        """Show how it is called, such as ``trunc int string``."""
        rest = (f"{self.rest}...",) if self.rest else ()
        types = (
            "any" + each[5:] if each[:5] == "value" else each for each in self.parameters + rest
        )
        return " ".join((self.name, *types))


FUNCTIONS: dict[str, Function] = {}


def function(names: str, parameters: str = "", *, mutates: bool = False) -> Callable[[T], T]:
    """Register an implementation under one or more names.

    :param parameters: types separated by spaces; the last may end in ``...``
    """
    *fixed, last = parameters.split() or [""]
    rest = last.removesuffix("...") if last.endswith("...") else ""
    if last and not rest:
        fixed.append(last)

    def register(call: T) -> T:
        for name in names.split():
            FUNCTIONS[name] = Function(name, tuple(fixed), rest, call, mutates)
        return call

    return register


def _wrong(wanted: str, value: Any) -> errors.Failure:
    if value is values.MISSING:
        return errors.Failure(f"expected {wanted}, found no value")
    hint = ""
    if wanted in {"int", "float64"} and isinstance(value, (int, float, str)):
        hint = f"; convert it with ({wanted} ...)"
    if wanted == "string" and isinstance(value, (int, float)):
        hint = "; convert it with (toString ...)"
    return errors.Failure(f"expected {wanted}, found {values.type_name(value)}{hint}")


def _any(value: Any) -> Any:
    return None if value is values.MISSING else value


def _as_is(value: Any) -> Any:
    return values.MISSING if value is None else value


def _string(value: Any) -> Any:
    if isinstance(value, str):
        return value
    raise _wrong("string", value)


def _int(value: Any) -> Any:
    if isinstance(value, values.Int):
        return value
    raise _wrong("int", value)


def _float(value: Any) -> Any:
    if isinstance(value, float):
        return value
    raise _wrong("float64", value)


def _bool(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    raise _wrong("bool", value)


def _map(value: Any) -> Any:
    if isinstance(value, dict) and not isinstance(value, values.StringMap):
        return value
    if value is values.MISSING:
        return values.NilMap()
    raise _wrong("map[string]interface {}", value)


def _strings(value: Any) -> Any:
    if isinstance(value, values.StringMap):
        return value
    if value is values.MISSING:
        return values.StringMap()
    raise _wrong("map[string]string", value)


CONVERT: dict[str, Callable[[Any], Any]] = {
    "any": _any,
    "value": _as_is,
    "string": _string,
    "int": _int,
    "float": _float,
    "bool": _bool,
    "map": _map,
    "strings": _strings,
}


def literal(node: nodes.Literal, wanted: str) -> Any:
    """Give a constant the type of a parameter; raises Failure when it has not got it."""
    if node.real is not None:
        if wanted == "int" and node.whole is not None:
            return values.Int(node.whole)
        if wanted == "float":
            return node.real
    elif node.value is None and wanted == "map":
        return values.NilMap()
    return CONVERT[wanted](node.value)
