"""YAML as Helm's and Capsule's templates read and write it."""

from __future__ import annotations

import functools
import itertools
import re
from typing import Any

import yaml

from tenantry.core.templates import budget, errors, floats, values
from tenantry.core.templates.functions import registry

_NULL = re.compile(r"~|null|Null|NULL|")
_BOOL = re.compile(
    r"y|Y|yes|Yes|YES|on|On|ON|n|N|no|No|NO|off|Off|OFF|true|True|TRUE|false|False|FALSE"
)
_TRUE = frozenset(["y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"])
_INT = re.compile(r"[-+]?(?:0b_*[01][01_]*|0x_*[0-9a-fA-F][0-9a-fA-F_]*|0o?_*[0-7_]*|[1-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_SIXTIES = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]*)?"
    r"(?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::?[0-9]{2})?))?)?"
)
_STRING = "tag:yaml.org,2002:str"
_UNTAGGED = "untagged"
_NUMBER = "tag:yaml.org,2002:float"


class _Loader(yaml.SafeLoader):
    """Reads into JSON's types alone; numbers become what Go's JSON makes of them."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        """Tell a scalar without a tag from one that says it is a text; asked for the former only."""
        tag: str = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        return _UNTAGGED if tag == _STRING else tag


class _Dumper(yaml.SafeDumper):
    """Writes JSON's types as Go's YAML does."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - overrides
        return True


def _resolved(text: str) -> Any:
    """Give what a plain scalar stands for; a text if for itself."""
    if _NULL.fullmatch(text):
        return None
    if _BOOL.fullmatch(text):
        return text in _TRUE
    if _INFINITE.fullmatch(text):
        raise ValueError(f"unsupported value: {text}")
    if _INT.fullmatch(text) and not text.endswith("_"):
        sign, digits = (-1 if text[0] == "-" else 1), text.lstrip("+-").replace("_", "")
        octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
        return float(sign * int(digits, 8 if octal else 0))
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if abs(number) != float("inf") else text
    return text


def _scalar(_: _Loader, node: yaml.ScalarNode) -> Any:
    if node.style is not None:
        return node.value
    return _resolved(node.value)


def _typed(_: _Loader, node: yaml.ScalarNode) -> str:
    return str(node.value)


def _binary(loader: _Loader, node: yaml.ScalarNode) -> str:
    return values.from_utf8(loader.construct_yaml_binary(node))


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[str, Any]:
    loader.flatten_mapping(node)
    made: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if isinstance(key, bool):
            key = "true" if key else "false"
        elif isinstance(key, float):
            key = floats.plain(key)
        elif not isinstance(key, str):
            raise yaml.YAMLError(f"unsupported key: {values.type_name(key)}")
        made[key] = loader.construct_object(value_node, deep=True)
    return made


def _sequence(loader: _Loader, node: yaml.SequenceNode) -> list[Any]:
    return [loader.construct_object(item, deep=True) for item in node.value]


# Every scalar without a tag is looked at by `_scalar`; only the key of a merge has one of its own.
_Loader.yaml_implicit_resolvers = {"<": [("tag:yaml.org,2002:merge", re.compile("<<"))]}
_Loader.add_constructor(_UNTAGGED, _scalar)
_Loader.add_constructor(_STRING, _typed)
_Loader.add_constructor("tag:yaml.org,2002:merge", _typed)
_Loader.add_constructor("tag:yaml.org,2002:binary", _binary)
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:seq", _sequence)
for _name in ("int", "float", "bool", "null"):
    _Loader.add_constructor(
        f"tag:yaml.org,2002:{_name}", lambda _, node: _resolved(str(node.value))
    )
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _typed)


def _represented(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(_STRING, text, style=_style(text))


def _style(text: str) -> str | None:
    if "\n" in text:
        return "|"
    try:
        stands_for_itself = _resolved(text) is text
    except ValueError:
        stands_for_itself = False
    if not stands_for_itself or _SIXTIES.fullmatch(text) or _DATE.fullmatch(text) or text == "<<":
        return '"'
    return None


def _number(dumper: yaml.SafeDumper, number: float) -> yaml.ScalarNode:
    # A whole number has gone through JSON, which knows no difference.
    text = floats.general(number)
    if number == int(number) and abs(number) < 1e21:
        text = str(int(number))
    return dumper.represent_scalar(_NUMBER, text)


_Dumper.add_representer(str, _represented)
_Dumper.add_representer(float, _number)
_Dumper.add_representer(int, lambda dumper, number: dumper.represent_scalar(_NUMBER, str(number)))
# What a number looks like is decided above, not by the rules for plain scalars.
_Dumper.yaml_implicit_resolvers = {
    key: [pair for pair in pairs if pair[0] not in {_NUMBER, "tag:yaml.org,2002:int"}]
    for key, pairs in yaml.SafeDumper.yaml_implicit_resolvers.items()
}
for _first in "-+0123456789.":
    _Dumper.yaml_implicit_resolvers.setdefault(_first, []).append(
        (_NUMBER, re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e[-+][0-9]+)?\Z"))
    )


def loaded(text: str, counted: budget.Budget) -> Any:
    """Read one document; raises ValueError."""
    # The reader is slow: some forty characters take it as long as a step.
    counted.step(len(text) // 4)
    counted.make(4 * len(text))
    if len(text) - len(text.lstrip("[{ \n")) > budget.DEPTH or re.search(r"(?:[\[{-] ?){50}", text):
        raise ValueError("nested too deeply")
    try:
        return yaml.load(values.clean(text), _Loader)  # noqa: S506 - safe: JSON's types alone
    except yaml.YAMLError as problem:
        raise ValueError(str(problem).replace("\n", " ")) from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def dumped(value: Any, counted: budget.Budget) -> str:
    """Write one document, keys in the order that Go's YAML has."""
    plain = _plain(value, counted)
    text = yaml.dump(
        plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=float("inf"),
        default_flow_style=False,
    )  # fmt: skip
    return text.removesuffix("\n...\n").removesuffix("\n")


def _plain(value: Any, counted: budget.Budget) -> Any:
    """Copy into types that the writer knows; pays for the text that will come of it."""
    counted.step(4)
    match value:
        case values.Missing() | values.NilMap() | None:
            return None
        case bool():
            return value
        case str():
            counted.make(2 * len(value))
            return values.clean(value)
        case int():
            return int(value)
        case float():
            floats.json_number(value)
            return value
        case values.Opaque():
            return value.json()
        case list() | dict():
            counted.enter()
            fresh: Any
            if isinstance(value, dict):
                keys = sorted(value, key=functools.cmp_to_key(_natural))
                fresh = {values.clean(key): _plain(value[key], counted) for key in keys}
            else:
                fresh = [_plain(item, counted) for item in value]
            counted.make((budget.DEPTH - counted.depth) * len(value) * 2)
            counted.leave()
            return fresh
        case _:
            raise errors.Failure(f"a value of type {values.type_name(value)} has no YAML")


def _natural(left: str, right: str) -> int:
    """Order keys as people do: numbers within them by value, and letters after all else."""
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a == b:
            continue
        if a.isalpha() and b.isalpha():
            return -1 if a < b else 1
        if a.isalpha() or b.isalpha():
            return -1 if b.isalpha() else 1
        # A zero within a number counts as a digit, one before a number does not.
        digits = left[:index][len(left[:index].rstrip("0123456789")) :]
        before = "1" if "0" in {a, b} and digits.strip("0") else ""
        first, second = _run(left, index, before), _run(right, index, before)
        if first != second:
            return -1 if first < second else 1
        return -1 if a < b else 1
    return (len(left) > len(right)) - (len(left) < len(right))


def _run(text: str, start: int, before: str) -> tuple[int, int]:
    digits = "".join(itertools.takewhile(str.isdecimal, text[start : start + 18]))
    return int(before + digits or "0"), len(digits)


@registry.function("toYaml", "any")
def _to_yaml(counted: budget.Budget, value: Any) -> str:
    try:
        return dumped(value, counted)
    except ValueError:
        return ""


@registry.function("fromYaml", "string")
def _from_yaml(counted: budget.Budget, text: str) -> dict[str, Any]:
    """Read a map; what is wrong comes as the key ``Error``, as Helm has it."""
    try:
        found = loaded(text, counted)
    except ValueError as problem:
        return {"Error": str(problem)}
    if found is None or isinstance(found, dict):
        return found or {}
    return {"Error": f"not a map: {values.type_name(found)}"}


@registry.function("fromYamlArray", "string")
def _from_yaml_array(counted: budget.Budget, text: str) -> list[Any]:
    """Read a list; what is wrong comes as its only item."""
    try:
        found = loaded(text, counted)
    except ValueError as problem:
        return [str(problem)]
    if found is None or isinstance(found, list):
        return found or []
    return [f"not a list: {values.type_name(found)}"]
