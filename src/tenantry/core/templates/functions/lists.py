"""Lists: making, cutting, searching. None of these changes a list that it is given."""

from __future__ import annotations

from typing import Any

from tenantry.core.templates import budget, errors, values
from tenantry.core.templates.functions import registry


@registry.function("list tuple", "any...")
def _list(counted: budget.Budget, *items: Any) -> list[Any]:
    counted.make(len(items))
    return list(items)


@registry.function("append mustAppend push mustPush", "any any")
def _append(counted: budget.Budget, value: Any, item: Any) -> list[Any]:
    found = values.want_list(value, "append")
    counted.make(len(found) + 1)
    return [*found, item]


@registry.function("prepend mustPrepend", "any any")
def _prepend(counted: budget.Budget, value: Any, item: Any) -> list[Any]:
    found = values.want_list(value, "prepend")
    counted.make(len(found) + 1)
    return [item, *found]


@registry.function("first mustFirst", "any")
def _first(_: budget.Budget, value: Any) -> Any:
    found = values.want_list(value, "first")
    return found[0] if found else None


@registry.function("last mustLast", "any")
def _last(_: budget.Budget, value: Any) -> Any:
    found = values.want_list(value, "last")
    return found[-1] if found else None


@registry.function("rest mustRest", "any")
def _rest(counted: budget.Budget, value: Any) -> list[Any]:
    return _copied(counted, values.want_list(value, "rest"), 1, None)


@registry.function("initial mustInitial", "any")
def _initial(counted: budget.Budget, value: Any) -> list[Any]:
    return _copied(counted, values.want_list(value, "initial"), 0, -1)


@registry.function("reverse mustReverse", "any")
def _reverse(counted: budget.Budget, value: Any) -> list[Any]:
    return _copied(counted, values.want_list(value, "reverse"), None, None, -1)


def _copied(counted: budget.Budget, found: list[Any], *bounds: int | None) -> list[Any]:
    counted.make(len(found))
    return list(found[slice(*bounds)])


@registry.function("compact mustCompact", "any")
def _compact(counted: budget.Budget, value: Any) -> list[Any]:
    found = _copied(counted, values.want_list(value, "compact"), None)
    return [item for item in found if values.true(item)]


@registry.function("concat", "any...")
def _concat(counted: budget.Budget, *lists: Any) -> list[Any] | None:
    if not lists:
        return []
    joined: list[Any] = []
    for value in lists:
        joined += _copied(counted, values.want_list(value, "concat"), None)
    return joined


@registry.function("chunk mustChunk", "int any")
def _chunk(counted: budget.Budget, size: int, value: Any) -> list[Any]:
    found = values.want_list(value, "chunk")
    if size <= 0:
        raise errors.Failure(f"chunks of {size} items; accepted: 1 or more")
    counted.make(2 * len(found))
    return values.Lists(list(found[start : start + size]) for start in range(0, len(found), size))


@registry.function("has mustHas", "any any")
def _has(counted: budget.Budget, needle: Any, value: Any) -> bool:
    if value is None:
        return False
    found = values.want_list(value, "has")
    return any(values.deep_equal(needle, item, counted) for item in found)


@registry.function("uniq mustUniq", "any")
def _uniq(counted: budget.Budget, value: Any) -> list[Any]:
    found = values.want_list(value, "uniq")
    kept: list[Any] = []
    for item in found:
        counted.step(1 + len(kept) // 4)
        if not any(values.deep_equal(item, other, counted) for other in kept):
            kept.append(item)
    return kept


@registry.function("without mustWithout", "any any...")
def _without(counted: budget.Budget, value: Any, *unwanted: Any) -> list[Any]:
    found = _copied(counted, values.want_list(value, "without"), None)
    return [
        item
        for item in found
        if not any(values.deep_equal(item, other, counted) for other in unwanted)
    ]


@registry.function("all", "any...")
def _all(_: budget.Budget, *items: Any) -> bool:
    return all(map(values.true, items))


@registry.function("any", "any...")
def _any(_: budget.Budget, *items: Any) -> bool:
    return any(map(values.true, items))


@registry.function("until", "int")
def _until(counted: budget.Budget, count: int) -> list[int]:
    return steps(counted, 0, count, 1 if count >= 0 else -1)


@registry.function("untilStep", "int int int")
def _until_step(counted: budget.Budget, start: int, stop: int, step: int) -> list[int]:
    return steps(counted, start, stop, step)


def steps(counted: budget.Budget, start: int, stop: int, step: int) -> list[int]:
    """Count from `start` to before `stop`; a step in the wrong direction gives nothing."""
    if (stop < start) != (step < 0) or step == 0:
        return values.IntList()
    numbers_between = range(start, stop, step)
    counted.make(max(0, (abs(stop - start) + abs(step) - 1) // abs(step)))
    return values.IntList(map(values.Int, numbers_between))


@registry.function("seq", "int...")
def _seq(counted: budget.Budget, *bounds: int) -> str:
    if not 1 <= len(bounds) <= 3:
        return ""
    start, end = (1 if len(bounds) == 1 else bounds[0]), bounds[-1]
    direction = -1 if end < start else 1
    step = bounds[1] if len(bounds) == 3 else direction
    if direction < 0 < step:
        return ""
    found = steps(counted, start, end + direction, step)
    counted.make(8 * len(found))
    return " ".join(str(int(number)) for number in found)


@registry.function("coalesce", "any...")
def _coalesce(_: budget.Budget, *items: Any) -> Any:
    return next((item for item in items if values.true(item)), None)


@registry.function("default", "any any...")
def _default(_: budget.Budget, value: Any, *given: Any) -> Any:
    return given[0] if given and values.true(given[0]) else value


@registry.function("empty", "any")
def _empty(_: budget.Budget, value: Any) -> bool:
    return values.empty(value)


@registry.function("ternary", "any any bool")
def _ternary(_: budget.Budget, yes: Any, no: Any, condition: bool) -> Any:
    return yes if condition else no
