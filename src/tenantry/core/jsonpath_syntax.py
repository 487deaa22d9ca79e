"""The grammar of Kubernetes' JSONPath templates, as a tree.

Text outside braces stands for itself. An action in braces is a chain of steps, each taking what the
one before it found: ``.field``, ``.*``, ``..``, ``[0]``, ``[-2:]``, ``[0,2]``, ``['a.b','c']``,
``[?(@.x==1)]``, quoted text and constants. ``{range ...}`` repeats what stands before ``{end}``.
"""

from __future__ import annotations

import dataclasses
import json
import re
from typing import TypeAlias

from tenantry.core import errors

#: Longest accepted template, and filters within filters.
LONGEST = 8192
DEPTH = 16
OPERATORS = ("==", "!=", "<", "<=", ">", ">=")

_FIELD_END = frozenset(" \t\r\n.,[]$@{}")
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?")
_BOUNDS = re.compile(r"(-?[0-9]{0,9})(?::(-?[0-9]{0,9}))?(?::(-?[0-9]{0,9}))?")
_KEY = re.compile(r"'((?:[^'\\]|\\.)*)'")
_COMPARISON = re.compile(r"([^!<>=]+)([!<>=]+)(.+)", re.DOTALL)
_WORD = re.compile(r"[^\W\d]\w*")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@dataclasses.dataclass(frozen=True, slots=True)
class Text:
    """A text or constant, whatever the value."""

    value: str | int | float | bool


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Wildcard:
    """All items."""


@dataclasses.dataclass(frozen=True, slots=True)
class Recursive:
    """The value and everything in it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Slice:
    """Items from start to before end; `single` when only one was asked for."""

    start: int | None
    end: int | None
    step: int | None
    single: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Union:
    """What each of several chains finds, one after the other."""

    chains: tuple[tuple[Step, ...], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Filter:
    """Items for which a comparison holds; without operator: for which something is found."""

    left: tuple[Step, ...]
    operator: str
    right: tuple[Step, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Action:
    steps: tuple[Step, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Range:
    steps: tuple[Step, ...]
    body: tuple[Part, ...]


Step: TypeAlias = "Text | Field | Wildcard | Recursive | Slice | Union | Filter"
Part: TypeAlias = "str | Action | Range"


class Reader:
    """One reading of one template; `field` names it in errors."""

    def __init__(self, source: str, field: str) -> None:
        self._source = source
        self._field = field

    def template(self) -> tuple[Part, ...]:
        if len(self._source) > LONGEST:
            raise self._broken(0, f"must be at most {LONGEST} characters long")
        stack: list[tuple[tuple[Step, ...], list[Part]]] = [((), [])]
        position = 0
        while position < len(self._source):
            start = self._source.find("{", position)
            text = self._source[position : start if start >= 0 else None]
            if text:
                stack[-1][1].append(text)
            if start < 0:
                break
            position = self._action_end(start)
            inside = self._source[start + 1 : position - 1]
            word = _WORD.match(inside.strip())
            if word and word.group() == "end" and inside.strip() == "end":
                steps, body = stack.pop()
                if not stack:
                    raise self._broken(start, "there is no {range} before this {end}")
                stack[-1][1].append(Range(steps, tuple(body)))
            elif word and word.group() == "range":
                shift = inside.index("range") + 5
                stack.append((self._chain(inside[shift:], start + 1 + shift), []))
                if len(stack) > DEPTH:
                    raise self._broken(start, f"ranges may be nested {DEPTH - 1} levels deep")
            else:
                stack[-1][1].append(Action(self._chain(inside, start + 1)))
        if len(stack) > 1:
            raise self._broken(len(self._source), "an {end} is missing for a {range}")
        return tuple(stack[0][1])

    def path(self) -> tuple[Step, ...]:
        """Read one chain that stands without braces."""
        if len(self._source) > LONGEST:
            raise self._broken(0, f"must be at most {LONGEST} characters long")
        return self._chain(self._source, 0)

    def _broken(self, at: int, reason: str) -> errors.InvalidValueError:
        return errors.InvalidValueError(self._field, self._source, f"column {at + 1}: {reason}")

    def _action_end(self, start: int) -> int:
        quote = ""
        position = start + 1
        while position < len(self._source):
            char = self._source[position]
            if char == "\\":
                position += 1
            elif quote:
                quote = "" if char == quote else quote
            elif char in "'\"":
                quote = char
            elif char == "}":
                return position + 1
            position += 1
        reason = f"the closing {quote} is missing" if quote else "the closing } is missing"
        raise self._broken(start, reason)

    def _chain(self, text: str, at: int, depth: int = 0) -> tuple[Step, ...]:
        """Read steps; `at` is where `text` begins in the source, for errors."""
        if depth > DEPTH:
            raise self._broken(at, f"nested more than {DEPTH} levels deep")
        steps: list[Step] = []
        position = 0
        while position < len(text):
            char, here = text[position], at + position
            if char in " \t@$":
                # Both stand for the value at hand, which is where every chain begins.
                position += 1
            elif text.startswith("[?(", position):
                end = self._filter_end(text, position, here)
                steps.append(self._filter(text[position + 3 : end], here + 3, depth))
                position = end + 2
            elif char == "[":
                end = self._bracket_end(text, position, here)
                steps.append(self._brackets(text[position + 1 : end], here + 1, depth))
                position = end + 1
            elif text.startswith("..", position):
                steps.append(Recursive())
                position += 2
                following = text[position : position + 1]
                if following.isalnum() or following == "_":
                    name, position = self._name(text, position)
                    steps.append(Field(name))
            elif char == ".":
                name, position = self._name(text, position + 1)
                steps.append(Wildcard() if name == "*" else Field(name))
            elif char in "'\"":
                end = self._quote_end(text, position, here)
                steps.append(Text(self._unquoted(text[position:end], here)))
                position = end
            elif number := _NUMBER.match(text, position):
                written = number.group()
                steps.append(Text(float(written) if "." in written else int(written[:19])))
                position = number.end()
            elif word := _WORD.match(text, position):
                if word.group() not in {"true", "false"}:
                    raise self._broken(
                        here,
                        f"unrecognized identifier {word.group()}; accepted: a path that begins "
                        'with ., [ or .., a "text", a number, true, false, range or end',
                    )
                steps.append(Text(word.group() == "true"))
                position = word.end()
            else:
                raise self._broken(here, f"unrecognized character {char!r}")
        return tuple(steps)

    def _name(self, text: str, start: int) -> tuple[str, int]:
        position = start
        while position < len(text) and text[position] not in _FIELD_END:
            position += 2 if text[position] == "\\" else 1
        return _ESCAPED.sub(r"\1", text[start:position]), min(position, len(text))

    def _quote_end(self, text: str, start: int, at: int) -> int:
        position = start + 1
        while position < len(text):
            if text[position] == "\\":
                position += 1
            elif text[position] == text[start]:
                return position + 1
            position += 1
        raise self._broken(at, f"the closing {text[start]} is missing")

    def _unquoted(self, code: str, at: int) -> str:
        inner = code[1:-1]
        if code[0] == "'":
            inner = inner.replace("\\'", "'").replace('"', '\\"')
        try:
            text: str = json.loads(f'"{inner}"', strict=False)
        except ValueError:
            raise self._broken(
                at, f"unknown escape in {code}; accepted are those of JSON"
            ) from None
        return text

    def _bracket_end(self, text: str, start: int, at: int) -> int:
        position = start + 1
        while position < len(text):
            if text[position] in "'\"":
                position = self._quote_end(text, position, at) - 1
            elif text[position] == "]":
                return position
            position += 1
        raise self._broken(at, "the closing ] is missing")

    def _filter_end(self, text: str, start: int, at: int) -> int:
        """Find the parenthesis that closes a filter; a bracket must follow."""
        depth, position = 0, start + 2
        while position < len(text):
            char = text[position]
            if char in "'\"":
                position = self._quote_end(text, position, at) - 1
            depth += (char == "(") - (char == ")")
            if depth == 0:
                if not text.startswith(")]", position):
                    raise self._broken(at, "a filter must end in )]")
                return position
            position += 1
        raise self._broken(at, "the closing )] of a filter is missing")

    def _filter(self, text: str, at: int, depth: int) -> Filter:
        match = _COMPARISON.fullmatch(text)
        if match is None:
            return Filter(self._chain(text, at, depth + 1), "", ())
        operator = match[2]
        if operator not in OPERATORS:
            raise self._broken(
                at, f"unrecognized filter operator {operator}; accepted: {' '.join(OPERATORS)}"
            )
        left = self._chain(match[1], at, depth + 1)
        return Filter(left, operator, self._chain(match[3], at + match.start(3), depth + 1))

    def _brackets(self, text: str, at: int, depth: int) -> Step:
        if text == "*":
            # Unlike .* it is for lists alone.
            return Slice(None, None, None, single=False)
        parts = _split(text)
        if len(parts) == 1:
            return self._part(text, at, depth)
        return Union(tuple((self._part(part.strip(), at, depth),) for part in parts))

    def _part(self, text: str, at: int, depth: int) -> Step:
        key = _KEY.fullmatch(text)
        if key:
            # A dot in a key leads deeper, unless it is escaped: that is how kubectl reads it.
            return Union((self._chain(f".{key[1]}", at + 1, depth + 1),))
        bounds = _BOUNDS.fullmatch(text)
        if bounds is None or "-" in bounds.groups():
            raise self._broken(
                at,
                f"invalid array index {text}; accepted: 0, -1, 0:2, ::2, 0,2, *, 'key' or ?(filter)",
            )
        start, end, step = (int(part) if part else None for part in bounds.groups())
        return Slice(start, end, step, single=":" not in text)


def _split(text: str) -> list[str]:
    """Split at commas outside of quotes."""
    parts, start, quoted = [], 0, False
    for position, char in enumerate(text):
        if char == "'" and text[position - 1 : position] != "\\":
            quoted = not quoted
        elif char == "," and not quoted:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]
