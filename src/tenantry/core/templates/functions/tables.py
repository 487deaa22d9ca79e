"""TOML as Helm's and Capsule's templates read and write it; what is read becomes JSON's types."""

from __future__ import annotations

import datetime as dt
import tomllib
from typing import Any

import tomli_w

from tenantry.core.templates import budget, values
from tenantry.core.templates.functions import registry

#: Parts of keys, by the library's way of looking at each prefix of each, for the price of one step.
_PARTS = 20
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


def loaded(text: str, counted: budget.Budget) -> dict[str, Any]:
    """Read one document; raises ValueError."""
    counted.step(len(text) // 4)
    counted.make(4 * len(text))
    # A key costs the square of its parts, and so does each line below a header of that many.
    lines = text.split("\n")
    parts = max(line.count(".") for line in lines)
    counted.step(parts * (parts + len(lines)) // _PARTS)
    try:
        return {key: _json(value, 1) for key, value in tomllib.loads(values.clean(text)).items()}
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _json(value: Any, depth: int) -> Any:
    if depth > budget.DEPTH:
        raise ValueError("nested too deeply")
    match value:
        case dict():
            return {key: _json(item, depth + 1) for key, item in value.items()}
        case list():
            return [_json(item, depth + 1) for item in value]
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat().replace("+00:00", "Z")
        case int() if not isinstance(value, bool) and not _LOWEST <= value <= _HIGHEST:
            raise ValueError("a number is out of the range of int64")
    return value


def dumped(value: Any, counted: budget.Budget) -> str:
    """Write one document, keys sorted and null left out; raises ValueError."""
    if not isinstance(value, dict):
        raise ValueError(f"not a map: {values.type_name(value)}")  # noqa: TRY004 - told, never raised
    return tomli_w.dumps(_plain(value, counted, 0) or {})


def _plain(value: Any, counted: budget.Budget, path: int) -> Any:
    """Copy into types that the writer knows; pays for the text that will come of it.

    :param path: how long the header of a table at this place is
    """
    counted.step(4)
    match value:
        case values.Missing() | values.NilMap() | None:
            return None
        case bool():
            return value
        case int():
            return int(value)
        case float():
            return value
        case str():
            # A character may have to be written as six.
            counted.make(6 * len(value))
            return values.clean(value)
        case values.Opaque():
            return value.json()
        case dict():
            counted.enter()
            fresh = {}
            for key in sorted(value):
                longer = path + 6 * len(key) + 3
                counted.make(longer)
                item = _plain(value[key], counted, longer)
                if item is not None:
                    fresh[values.clean(key)] = item
            counted.leave()
            return fresh
        case list():
            counted.enter()
            counted.make((budget.DEPTH - counted.depth) * len(value) * 4)
            items = [_plain(item, counted, path) for item in value]
            counted.leave()
            if None in items:
                raise ValueError("a list with null in it has no TOML")
            return items
        case _:
            raise ValueError(f"a value of type {values.type_name(value)} has no TOML")


@registry.function("toToml", "any")
def _to_toml(counted: budget.Budget, value: Any) -> str:
    """Write a map; what is wrong comes instead of it, as Helm has it."""
    try:
        return dumped(value, counted)
    except ValueError as problem:
        return str(problem)


@registry.function("fromToml", "string")
def _from_toml(counted: budget.Budget, text: str) -> dict[str, Any]:
    """Read a map; what is wrong comes as the key ``Error``, as Helm has it."""
    try:
        return loaded(text, counted)
    except ValueError as problem:
        return {"Error": str(problem)}
