"""Kubernetes' JSONPath: what kubectl's ``-o jsonpath=`` prints and quota sources count.

Compiled once, evaluated often, bounded in steps and output. Order of maps, which is random in
kubectl, is that of sorted keys here.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterator
from typing import Any

from tenantry.core import errors
from tenantry.core import jsonpath_syntax as syntax
from tenantry.core.templates import budget, printing, values
from tenantry.core.templates import errors as template_errors
from tenantry.core.templates.functions import encodings

LIMITS = budget.Limits(steps=500_000, made=16 << 20, output=16 << 20)

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class JSONPathError(errors.TenantryError):
    """Raised when a path finds no answer in a value, or takes more than its budget."""


@dataclasses.dataclass(frozen=True, slots=True)
class Path:
    """One path, such as ``.spec.containers[*].name``."""

    source: str
    _steps: tuple[syntax.Step, ...]

    def find(self, value: Any, *, allow_missing: bool = False) -> list[Any]:
        """Return what the path leads to in a decoded JSON value.

        :raises JSONPathError: when a step does not fit, or a field is missing and must not be
        """
        with _Reported(self.source):
            return _Walk(allow_missing=allow_missing).steps(self._steps, [value])


@dataclasses.dataclass(frozen=True, slots=True)
class Template:
    """Text with paths in braces."""

    source: str
    _parts: tuple[syntax.Part, ...]

    def render(self, value: Any, *, allow_missing: bool = True) -> str:
        """Fill the template as kubectl does, which prints nothing for a missing field.

        :raises JSONPathError: as for a path
        """
        with _Reported(self.source):
            walk = _Walk(allow_missing=allow_missing)
            walk.parts(self._parts, value)
            return values.clean("".join(walk.counted.parts))


def path(source: str, field: str) -> Path:
    """Compile one path, with or without the braces around it.

    :raises InvalidValueError: with the column and what is accepted
    """
    bare = source.strip()
    if bare.startswith("{") and bare.endswith("}"):
        bare = bare[1:-1]
    return Path(source, syntax.Reader(bare, field).path())


def template(source: str, field: str = "jsonpath") -> Template:
    """Compile a template.

    :raises InvalidValueError: with the column and what is accepted
    """
    return Template(source, syntax.Reader(source, field).template())


class _Reported:
    """Turn what the walk raises into this module's error."""

    def __init__(self, source: str) -> None:
        self._source = source

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if isinstance(problem, RecursionError):
            problem = template_errors.Failure("is nested too deeply")
        if isinstance(problem, (template_errors.Failure, ValueError)):
            raise JSONPathError(f"{errors.shown(self._source)}: {problem}") from None


class _Walk:
    """One evaluation."""

    def __init__(self, *, allow_missing: bool) -> None:
        self.counted = budget.Budget(LIMITS)
        self._allow_missing = allow_missing

    def parts(self, parts: tuple[syntax.Part, ...], value: Any) -> None:
        for part in parts:
            self.counted.step()
            match part:
                case str():
                    self.counted.write(part)
                case syntax.Action(steps):
                    texts = map(self._text, self.steps(steps, [value]))
                    self.counted.write(" ".join(texts))
                case syntax.Range(steps, body):
                    for item in self.steps(steps, [value]):
                        self.parts(body, item)

    def steps(self, steps: tuple[syntax.Step, ...], found: list[Any]) -> list[Any]:
        for step in steps:
            self.counted.make(len(found))
            found = self._step(step, found)
        return found

    def _step(self, step: syntax.Step, found: list[Any]) -> list[Any]:
        match step:
            case syntax.Text(constant):
                return [constant]
            case syntax.Field(name):
                return self._field(name, found)
            case syntax.Wildcard():
                return [item for value in found for item in self._items(value)]
            case syntax.Recursive():
                return [item for value in found for item in self._all(value)]
            case syntax.Slice():
                return [item for value in found for item in self._slice(step, value)]
            case syntax.Union(chains):
                return [item for chain in chains for item in self.steps(chain, found)]
            case syntax.Filter():
                return [item for value in found for item in self._filter(step, value)]

    def _field(self, name: str, found: list[Any]) -> list[Any]:
        held = [value[name] for value in found if isinstance(value, dict) and name in value]
        if found and not held and not self._allow_missing:
            raise template_errors.Failure(f"{name} is not found")
        return held

    def _items(self, value: Any) -> Iterator[Any]:
        if isinstance(value, dict):
            for key in sorted(value):
                self.counted.step()
                yield value[key]
        elif isinstance(value, list):
            self.counted.step(len(value))
            yield from value
        elif isinstance(value, str):
            # Go's texts are bytes.
            self.counted.step(len(value))
            yield from values.utf8(value)

    def _all(self, value: Any) -> Iterator[Any]:
        self.counted.step()
        # What has nothing in it cannot lead anywhere.
        if isinstance(value, (dict, list, str)) and value:
            yield value
        if isinstance(value, (dict, list)):
            self.counted.enter()
            for item in self._items(value):
                yield from self._all(item)
            self.counted.leave()

    def _slice(self, step: syntax.Slice, value: Any) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            raise template_errors.Failure(f"{values.type_name(value)} is not array or slice")
        length = len(value)
        start = step.start or 0
        start += length if start < 0 else 0
        if step.single:
            if not 0 <= start < length:
                raise _outside(start, length)
            return [value[start]]
        end = length if step.end is None else step.end
        end += length if end < 0 else 0
        if start != end:
            if not 0 <= start < length:
                raise _outside(start, length)
            if not 0 <= end <= length:
                raise _outside(end - 1, length)
            if start > end:
                raise template_errors.Failure(
                    f"starting index {start} is greater than ending index {end}"
                )
        if step.step is not None and step.step <= 0:
            raise template_errors.Failure("step must be > 0")
        self.counted.make(max(0, end - start))
        return value[start : end : step.step or 1]

    def _filter(self, step: syntax.Filter, value: Any) -> list[Any]:
        if not isinstance(value, list):
            text = printing.verb(value, self.counted)
            raise template_errors.Failure(f"{text} is not array or slice and cannot be filtered")
        return [item for item in value if self._holds(step, item)]

    def _holds(self, step: syntax.Filter, item: Any) -> bool:
        self.counted.step()
        if not step.operator:
            try:
                return bool(self.steps(step.left, [item]))
            except template_errors.Exhausted:
                raise
            except template_errors.Failure:
                # A path that leads nowhere is an answer here.
                return False
        left, right = (self.steps(side, [item]) for side in (step.left, step.right))
        if len(left) > 1 or len(right) > 1:
            raise template_errors.Failure("can only compare one element at a time")
        if not left or not right:
            return False
        kinds = values.basic_kind(left[0]), values.basic_kind(right[0])
        if not all(kinds):
            raise template_errors.Failure("invalid type for comparison")
        if kinds[0] != kinds[1]:
            raise template_errors.Failure(
                "incompatible types for comparison: "
                f"{values.type_name(left[0])} and {values.type_name(right[0])}"
            )
        if kinds[0] == "bool" and step.operator not in {"==", "!="}:
            raise template_errors.Failure("invalid type for comparison: bool has no order")
        return _COMPARE[step.operator](left[0], right[0])

    def _text(self, value: Any) -> str:
        if isinstance(value, (list, dict)):
            return encodings.encoded(value, self.counted)
        return "null" if value is None else printing.verb(value, self.counted)


def _outside(index: int, length: int) -> template_errors.Failure:
    return template_errors.Failure(f"array index out of bounds: index {index}, length {length}")
