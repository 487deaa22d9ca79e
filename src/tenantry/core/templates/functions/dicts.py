"""Maps. Some of these change the map that they are given, as sprig's do; never that of the caller."""

from __future__ import annotations

from typing import Any

from tenantry.core.templates import budget, errors, values
from tenantry.core.templates.functions import registry, strings


@registry.function("dict", "any...")
def _dict(counted: budget.Budget, *items: Any) -> dict[str, Any]:
    counted.make(len(items))
    made: dict[str, Any] = {}
    for index in range(0, len(items), 2):
        key = strings.shown(items[index], counted)
        made[key] = items[index + 1] if index + 1 < len(items) else ""
    return made


@registry.function("get", "map string")
def _get(_: budget.Budget, value: dict[str, Any], key: str) -> Any:
    return value.get(key, "")


@registry.function("set", "map string any", mutates=True)
def _set(counted: budget.Budget, value: dict[str, Any], key: str, item: Any) -> dict[str, Any]:
    if isinstance(value, values.NilMap):
        raise errors.Failure("there is no map to set the key in")
    counted.make(1)
    value[key] = item
    return value


@registry.function("unset", "map string", mutates=True)
def _unset(_: budget.Budget, value: dict[str, Any], key: str) -> dict[str, Any]:
    value.pop(key, None)
    return value


@registry.function("hasKey", "map string")
def _has_key(_: budget.Budget, value: dict[str, Any], key: str) -> bool:
    return key in value


@registry.function("pluck", "string map...")
def _pluck(counted: budget.Budget, key: str, *maps: dict[str, Any]) -> list[Any]:
    counted.make(len(maps))
    return [each[key] for each in maps if key in each]


@registry.function("keys", "map...")
def _keys(counted: budget.Budget, *maps: dict[str, Any]) -> list[str]:
    # Go gives them in any order; a sorted one is as good, and the same every time.
    counted.make(sum(map(len, maps)))
    return values.StringList(key for each in maps for key in sorted(each))


@registry.function("values", "map")
def _values(counted: budget.Budget, value: dict[str, Any]) -> list[Any]:
    counted.make(len(value))
    return [value[key] for key in sorted(value)]


@registry.function("pick", "map string...")
def _pick(counted: budget.Budget, value: dict[str, Any], *keys: str) -> dict[str, Any]:
    counted.make(len(keys))
    return {key: value[key] for key in keys if key in value}


@registry.function("omit", "map string...")
def _omit(counted: budget.Budget, value: dict[str, Any], *keys: str) -> dict[str, Any]:
    counted.make(len(value) + len(keys))
    unwanted = set(keys)
    return {key: item for key, item in value.items() if key not in unwanted}


@registry.function("merge mustMerge", "map map...", mutates=True)
def _merge(counted: budget.Budget, target: dict[str, Any], *sources: dict[str, Any]) -> Any:
    return _merged(counted, target, sources, overwrite=False)


@registry.function("mergeOverwrite mustMergeOverwrite", "map map...", mutates=True)
def _merge_overwrite(
    counted: budget.Budget, target: dict[str, Any], *sources: dict[str, Any]
) -> Any:
    return _merged(counted, target, sources, overwrite=True)


def _merged(
    counted: budget.Budget,
    target: dict[str, Any],
    sources: tuple[dict[str, Any], ...],
    *,
    overwrite: bool,
) -> dict[str, Any]:
    # What is no map yet becomes one here.
    made = {} if isinstance(target, values.NilMap) else target
    for source in sources:
        _merge_into(counted, made, source, overwrite=overwrite)
    return made


def _merge_into(
    counted: budget.Budget, target: dict[str, Any], source: dict[str, Any], *, overwrite: bool
) -> None:
    if target is source:
        return
    counted.make(len(source))
    counted.enter()
    for key, item in list(source.items()):
        present = target.get(key)
        if item is None and not overwrite:
            continue
        if isinstance(item, dict) and isinstance(present, dict):
            _merge_into(counted, present, item, overwrite=overwrite)
        elif key not in target or overwrite or not values.true(present):
            target[key] = item
    counted.leave()


@registry.function("dig", "any any any any...")
def _dig(_: budget.Budget, *arguments: Any) -> Any:
    *keys, default, value = arguments
    for key in keys:
        if not isinstance(key, str):
            raise errors.Failure(f"a key must be a string, found {values.type_name(key)}")
    for key in keys:
        if not isinstance(value, dict) or isinstance(value, values.StringMap):
            raise errors.Failure(
                f"expected a map with key {key!r}, found {values.type_name(value)}"
            )
        if key not in value:
            return default
        value = value[key]
    return value


@registry.function("deepCopy mustDeepCopy", "any")
def _deep_copy(counted: budget.Budget, value: Any) -> Any:
    return values.copy(value, counted)


@registry.function("deepEqual", "any any")
def _deep_equal(counted: budget.Budget, left: Any, right: Any) -> bool:
    return values.deep_equal(left, right, counted)


@registry.function("typeOf", "any")
def _type_of(_: budget.Budget, value: Any) -> str:
    return values.type_name(value)


@registry.function("typeIs", "string any")
def _type_is(_: budget.Budget, name: str, value: Any) -> bool:
    return name == values.type_name(value)


@registry.function("typeIsLike", "string any")
def _type_is_like(_: budget.Budget, name: str, value: Any) -> bool:
    return values.type_name(value) in {name, f"*{name}"}


@registry.function("kindOf", "any")
def _kind_of(_: budget.Budget, value: Any) -> str:
    return values.kind(value)


@registry.function("kindIs", "string any")
def _kind_is(_: budget.Budget, name: str, value: Any) -> bool:
    return name == values.kind(value)
