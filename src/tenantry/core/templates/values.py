"""Go's view of JSON values: types, kinds, truth, equality, bytes of a string.

A decoded JSON value is itself: None, bool, int (Go's int64), float, str, list, dict. What Go tells
apart and Python does not has a subclass here. Text that Go cuts inside a character is kept with
lone surrogates (`surrogateescape`), which `clean` replaces at the end.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tenantry.core.templates import budget as budgets
from tenantry.core.templates import errors

_SURROGATE = re.compile("[\ud800-\udfff]")
_WORD = 1 << 64
_HALF = 1 << 63


class Missing:
    """What a key that is not there gives: printed as ``<no value>``, false, equal to nothing."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<no value>"


MISSING = Missing()


class Int(int):
    """Go's int: literals and lengths; numbers in data are int64."""

    __slots__ = ()


class Uint8(int):
    """A byte, as indexing a string gives."""

    __slots__ = ()


class Uint64(int):
    """The parts of a semantic version."""

    __slots__ = ()


class StringList(list[Any]):
    """Go's []string."""

    __slots__ = ()


class IntList(list[Any]):
    """Go's []int."""

    __slots__ = ()


class Lists(list[Any]):
    """Go's [][]interface {}."""

    __slots__ = ()


class StringMap(dict[str, Any]):
    """Go's map[string]string."""

    __slots__ = ()


class NilMap(dict[str, Any]):
    """Go's nil map, as a missing value becomes where a map is wanted: empty, and stays it."""

    __slots__ = ()


class Opaque:
    """A value with methods: a time, a version. `attributes` are what a template may ask of it."""

    type_name = "struct"
    attributes: dict[str, Any]

    def __str__(self) -> str:
        raise NotImplementedError

    def json(self) -> str:
        """Return the text that stands for it in JSON and YAML."""
        raise NotImplementedError


_UNSIGNED = (Uint8, Uint64)


def wrap(number: int) -> int:
    """Cut a number to 64 bits, as Go's arithmetic does."""
    return (number + _HALF) % _WORD - _HALF


def type_name(value: Any) -> str:
    """Return what Go's %T prints."""
    match value:
        case Missing() | None:
            return "<nil>"
        case bool():
            return "bool"
        case str():
            return "string"
        case Int():
            return "int"
        case Uint8():
            return "uint8"
        case Uint64():
            return "uint64"
        case int():
            return "int64"
        case float():
            return "float64"
        case StringList():
            return "[]string"
        case IntList():
            return "[]int"
        case Lists():
            return "[][]interface {}"
        case list() | tuple():
            return "[]interface {}"
        case StringMap():
            return "map[string]string"
        case dict():
            return "map[string]interface {}"
        case Opaque():
            return value.type_name
        case _:
            return type(value).__name__


def kind(value: Any) -> str:
    """Return what Go's reflect calls the kind."""
    match value:
        case Missing() | None:
            return "invalid"
        case list() | tuple():
            return "slice"
        case dict():
            return "map"
        case Opaque():
            return "ptr" if value.type_name.startswith("*") else "struct"
        case _:
            return type_name(value)


def basic_kind(value: Any) -> str:
    """Return the family in which eq and lt compare, or an empty text."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, _UNSIGNED):
        return "uint"
    if isinstance(value, int):
        return "int"
    return "float" if isinstance(value, float) else ""


def true(value: Any) -> bool:
    """Tell whether `if` takes the branch."""
    if value is MISSING or value is None:
        return False
    # A number that is not a number is not zero either; Python agrees with Go on all the rest.
    return True if isinstance(value, Opaque) else bool(value)


def empty(value: Any) -> bool:
    """Tell whether `default` would replace the value: the same as not true."""
    return not true(value)


def deep_equal(left: Any, right: Any, budget: budgets.Budget) -> bool:
    """Compare as Go's reflect.DeepEqual: of the same type and, down to the leaves, equal."""
    budget.step()
    if left is MISSING or left is None or right is MISSING or right is None:
        return left in (MISSING, None) and right in (MISSING, None)
    if type_name(left) != type_name(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and _each(
            lambda index: deep_equal(left[index], right[index], budget), range(len(left)), budget
        )
    if isinstance(left, dict):
        return left.keys() == right.keys() and _each(
            lambda key: deep_equal(left[key], right[key], budget), left, budget
        )
    if isinstance(left, str):
        budget.read(len(left))
    return bool(left == right)


def _each(test: Callable[[Any], bool], items: Any, budget: budgets.Budget) -> bool:
    budget.enter()
    outcome = all(test(item) for item in items)
    budget.leave()
    return outcome


def copy(value: Any, budget: budgets.Budget) -> Any:
    """Copy lists and maps down to the leaves, keeping their types."""
    if not isinstance(value, (list, dict)):
        return value
    budget.make(len(value))
    budget.enter()
    fresh: Any
    if isinstance(value, dict):
        fresh = type(value)((key, copy(item, budget)) for key, item in value.items())
    else:
        fresh = type(value)(copy(item, budget) for item in value)
    budget.leave()
    return fresh


def utf8(text: str) -> bytes:
    """Return the bytes that Go sees."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text).encode()


def from_utf8(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def clean(text: str) -> str:
    """Give text in valid UTF-8: halves that meet make a character, what stays broken is U+FFFD."""
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return _SURROGATE.sub("\ufffd", from_utf8(utf8(text)))


def size(text: str) -> int:
    """Return the length that Go's len gives: in bytes."""
    return len(text) if text.isascii() else len(utf8(text))


def cut(text: str, start: int, end: int) -> str:
    """Return bytes `start` to `end` of a text; both must lie within it."""
    return text[start:end] if text.isascii() else from_utf8(utf8(text)[start:end])


def want_list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise errors.Failure(f"{name}: expected a list, found {type_name(value)}")
    return value
