"""Check that what was read from a file has the types that the engine's values promise.

An API server makes sure of types; a file does not. Checks are compiled once from the annotations.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import types
import typing
from collections.abc import Callable
from typing import Any, TypeVar

from tenantry.core import errors

Value = TypeVar("Value")
Test = Callable[[Any], bool]


def checked(value: Value) -> Value:
    """Return a value of a data class if all of its fields have the types they should have.

    :raises InvalidValueError: naming the field
    """
    kind: type[Any] = type(value)
    for field, test in _fields(kind):
        found = getattr(value, field)
        if not test(found):
            raise errors.InvalidValueError(
                f"{kind.__name__.lower()}.{field}", found, "a value of another type"
            )
    return value


def _fields(kind: type[Any]) -> list[tuple[str, Test]]:
    found = _COMPILED.get(kind)
    if found is None:
        found = _COMPILED[kind] = _compiled(kind)
    return found


_COMPILED: dict[type[Any], list[tuple[str, Test]]] = {}


def _compiled(kind: type[Any]) -> list[tuple[str, Test]]:
    hints = typing.get_type_hints(kind)
    names = (
        [field.name for field in dataclasses.fields(kind)]
        if dataclasses.is_dataclass(kind)
        else list(hints)
    )
    return [(name, _test(hints[name])) for name in names]


@functools.cache
def _test(hint: Any) -> Test:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return _anything
    if origin in (typing.Union, types.UnionType):
        tests = [_test(argument) for argument in arguments]
        return lambda value: any(test(value) for test in tests)
    if origin is tuple:
        return _tuple(arguments)
    if origin is collections.abc.Mapping:
        keys, values = (_test(argument) for argument in arguments)
        return lambda value: (
            isinstance(value, collections.abc.Mapping)
            and all(keys(key) and values(inner) for key, inner in value.items())
        )
    if hint is float:
        return lambda value: isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return lambda value: isinstance(value, int) and not isinstance(value, bool)
    if dataclasses.is_dataclass(hint) or hasattr(hint, "_fields"):
        return lambda value: (
            isinstance(value, hint)
            and all(test(getattr(value, field)) for field, test in _fields(hint))
        )
    return lambda value: isinstance(value, hint)


def _anything(value: Any) -> bool:
    del value
    return True


def _tuple(arguments: tuple[Any, ...]) -> Test:
    if arguments[-1] is ...:
        every = _test(arguments[0])
        return lambda value: isinstance(value, tuple) and all(every(item) for item in value)
    tests = [_test(argument) for argument in arguments]
    return lambda value: (
        isinstance(value, tuple)
        and len(value) == len(tests)
        and all(test(item) for test, item in zip(tests, value, strict=True))
    )
