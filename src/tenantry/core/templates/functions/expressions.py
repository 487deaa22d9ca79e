"""Regular expressions by RE2, which is what Go has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tenantry.core import errors as core_errors
from tenantry.core import regex
from tenantry.core.templates import budget, errors, values
from tenantry.core.templates.functions import registry

#: Characters times instructions that cost a step.
_PER_STEP = 256
_REFERENCE = re.compile(r"\$(?:(\$)|\{(\w+)\}|(\w+))")


def _compiled(expression: str) -> Any:
    try:
        return regex.compile(expression, "regular expression")
    except core_errors.InvalidValueError as problem:
        raise errors.Failure(str(problem)) from None


def _matches(counted: budget.Budget, expression: str, text: str, most: int = -1) -> Iterator[Any]:
    """Yield matches; an empty one right behind another does not count, as in Go."""
    compiled = _compiled(expression)
    counted.step(1 + regex.work(compiled, len(text)) // _PER_STEP)
    before, count = -1, 0
    for match in compiled.finditer(text):
        # Each match is a search of its own that may look at all the rest.
        rest = regex.work(compiled, len(text) - match.start())
        counted.step(2 + rest // (16 * _PER_STEP))
        if match.start() == match.end() == before:
            continue
        if 0 <= most <= count:
            return
        before, count = match.end(), count + 1
        yield match


@registry.function("regexMatch", "string string")
def _regex_match(counted: budget.Budget, expression: str, text: str) -> bool:
    try:
        return _must_regex_match(counted, expression, text)
    except errors.Exhausted:
        raise
    except errors.Failure:
        # sprig's: an expression that is none matches nothing.
        return False


@registry.function("mustRegexMatch", "string string")
def _must_regex_match(counted: budget.Budget, expression: str, text: str) -> bool:
    compiled = _compiled(expression)
    text = values.clean(text)
    counted.step(1 + regex.work(compiled, len(text)) // _PER_STEP)
    return compiled.search(text) is not None


@registry.function("regexFind mustRegexFind", "string string")
def _regex_find(counted: budget.Budget, expression: str, text: str) -> str:
    for match in _matches(counted, expression, values.clean(text), 1):
        return str(match.group())
    return ""


@registry.function("regexFindAll mustRegexFindAll", "string string int")
def _regex_find_all(counted: budget.Budget, expression: str, text: str, most: int) -> list[str]:
    counted.make(len(text))
    return values.StringList(
        match.group() for match in _matches(counted, expression, values.clean(text), most)
    )


@registry.function("regexReplaceAll mustRegexReplaceAll", "string string string")
def _regex_replace_all(counted: budget.Budget, expression: str, text: str, new: str) -> str:
    def expanded(match: Any) -> str:
        def group(reference: re.Match[str]) -> str:
            dollar, braced, bare = reference.groups()
            return "$" if dollar else _group(match, braced or bare)

        counted.read(len(new))
        return _REFERENCE.sub(group, new)

    return _replaced(counted, expression, values.clean(text), expanded)


def _group(match: Any, name: str) -> str:
    """Give a group by number or name; one that there is not is empty."""
    try:
        return str(match.group(int(name) if name.isdecimal() else name) or "")
    except (IndexError, KeyError):
        return ""


@registry.function("regexReplaceAllLiteral mustRegexReplaceAllLiteral", "string string string")
def _regex_replace_all_literal(counted: budget.Budget, expression: str, text: str, new: str) -> str:
    return _replaced(counted, expression, values.clean(text), lambda _: new)


def _replaced(counted: budget.Budget, expression: str, text: str, new: Any) -> str:
    out: list[str] = []
    position = 0
    for match in _matches(counted, expression, text):
        out += [text[position : match.start()], new(match)]
        counted.make(len(out[-1]) + len(out[-2]))
        position = match.end()
    counted.make(len(text) - position)
    return "".join([*out, text[position:]])


@registry.function("regexSplit mustRegexSplit", "string string int")
def _regex_split(counted: budget.Budget, expression: str, text: str, most: int) -> list[str]:
    text = values.clean(text)
    _compiled(expression)
    if most == 0:
        return values.StringList()
    counted.make(len(text))
    if expression and not text:
        return values.StringList([""])
    out: list[str] = []
    start = last = 0
    for match in _matches(counted, expression, text):
        if most > 0 and len(out) == most - 1:
            break
        last = match.start()
        # A match before the first character splits nothing off.
        if match.end() != 0:
            out.append(text[start:last])
        start = match.end()
    if last != len(text):
        out.append(text[start:])
    return values.StringList(out)
