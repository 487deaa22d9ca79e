r"""kubectl's JSONPath templates, the part of them that people use in scripts.

Text outside braces is kept; `{...}` holds a path (`.items[*].metadata.name`, `['a.b']`, `[-1]`,
`[0:2]`, `..name`, `[?(@.status=="x")]`), a quoted text (`{"\n"}`), or `range PATH` ... `end`.
A missing field gives nothing, as with kubectl.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from tenantry.core import errors

_STEP = re.compile(
    r"""\.\.(?P<deep>[\w-]+)
      | \.(?P<field>(?:[^.\[\]{}\s\\]|\\.)+)
      | \.?\[(?P<quote>['"])(?P<key>(?:(?!(?P=quote)).)*)(?P=quote)\]
      | \[\?\((?P<filter>.*?)\)\]
      | \[(?P<inside>[^\]]*)\]
      | (?P<self>[@$]|\.$)""",
    re.VERBOSE,
)
_FILTER = re.compile(r"\s*@(?P<path>[^=!<>]*?)\s*(?:(?P<op>==|!=|<=|>=|<|>)\s*(?P<value>.+?)\s*)?$")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}


@dataclass(frozen=True)
class _Path:
    path: str


@dataclass(frozen=True)
class _Range:
    path: str
    body: tuple[_Node, ...]


_Node: TypeAlias = "str | _Path | _Range"


def render(template: str, value: Any) -> str:
    """Fill a template from a decoded JSON value; raises InvalidValueError for a broken one."""
    if "{" not in template:
        template = f"{{{template if template.startswith(('.', '[', '$')) else '.' + template}}}"
    parts = _split(template)
    nodes = _parse(parts, template=template, inside=False)
    return _render(nodes, value)


def _split(template: str) -> Iterator[tuple[bool, str]]:
    position = 0
    while position < len(template):
        start = template.find("{", position)
        if start < 0:
            yield False, template[position:]
            return
        if start > position:
            yield False, template[position:start]
        end = _closing(template, start)
        yield True, template[start + 1 : end].strip()
        position = end + 1


def _closing(template: str, start: int) -> int:
    quote = ""
    for index in range(start + 1, len(template)):
        char = template[index]
        if quote:
            if char == quote and template[index - 1] != "\\":
                quote = ""
        elif char in "'\"":
            quote = char
        elif char == "}":
            return index
    raise _broken(template, "every { closed by a }")


def _parse(parts: Iterator[tuple[bool, str]], *, template: str, inside: bool) -> tuple[_Node, ...]:
    nodes: list[_Node] = []
    for is_code, code in parts:
        if not is_code:
            nodes.append(code)
        elif code == "end":
            if not inside:
                raise _broken(template, "a {range} before every {end}")
            return tuple(nodes)
        elif code.startswith("range"):
            body = _parse(parts, template=template, inside=True)
            nodes.append(_Range(code.removeprefix("range").strip(), body))
        elif code[:1] in {'"', "'"}:
            nodes.append(_unquote(code))
        else:
            nodes.append(_Path(code))
    if inside:
        raise _broken(template, "an {end} for every {range}")
    return tuple(nodes)


def _render(nodes: Iterable[_Node], value: Any) -> str:
    out: list[str] = []
    for node in nodes:
        match node:
            case str():
                out.append(node)
            case _Path(path):
                out.append(" ".join(_text(found) for found in find(path, value)))
            case _Range(path, body):
                out.extend(_render(body, item) for item in find(path, value))
    return "".join(out)


def find(path: str, value: Any) -> list[Any]:
    """Return what a path selects."""
    found = [value]
    position = 0
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            raise _broken(path, f"a path such as .metadata.name; stopped at {path[position:]!r}")
        found = [hit for item in found for hit in _step(step, item)]
        position = step.end()
    return found


def _step(step: re.Match[str], item: Any) -> list[Any]:
    if step["self"]:
        return [item]
    if step["deep"]:
        return list(_descend(item, step["deep"]))
    if step["field"] is not None:
        name = re.sub(r"\\(.)", r"\1", step["field"])
        return _values(item) if name == "*" else _field(item, name)
    if step["key"] is not None:
        return _field(item, step["key"])
    if step["filter"] is not None:
        return [hit for hit in _values(item) if _holds(step["filter"], hit)]
    return _inside(step["inside"].strip(), item)


def _inside(text: str, item: Any) -> list[Any]:
    if text == "*":
        return _values(item)
    if not isinstance(item, list):
        return []
    try:
        if ":" in text:
            bounds = [int(part) if part.strip() else None for part in text.split(":")]
            return item[slice(*bounds)]
        return [
            item[index] for index in map(int, text.split(",")) if -len(item) <= index < len(item)
        ]
    except (ValueError, TypeError):
        raise _broken(text, "an index, a slice, * or a quoted key in brackets") from None


def _holds(text: str, item: Any) -> bool:
    match = _FILTER.match(text)
    if match is None:
        raise _broken(text, "a filter such as ?(@.status=='True')")
    found = find(match["path"], item)
    if match["op"] is None:
        return bool(found)
    wanted = match["value"]
    try:
        expected = _unquote(wanted) if wanted[0] in "'\"" else json.loads(wanted)
    except ValueError:
        raise _broken(text, "a quoted text, a number, true or false to compare with") from None
    try:
        return any(_COMPARE[match["op"]](hit, expected) for hit in found)
    except TypeError:
        return False


def _field(item: Any, name: str) -> list[Any]:
    return [item[name]] if isinstance(item, dict) and name in item else []


def _values(item: Any) -> list[Any]:
    if isinstance(item, dict):
        return list(item.values())
    return list(item) if isinstance(item, list) else []


def _descend(item: Any, name: str) -> Iterator[Any]:
    yield from _field(item, name)
    for child in _values(item):
        yield from _descend(child, name)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _unquote(code: str) -> str:
    try:
        inner = code[1:-1].replace('"', '\\"') if code[0] == "'" else code[1:-1]
        text: str = json.loads(f'"{inner}"')
    except ValueError:
        raise _broken(code, "a quoted text with JSON's escapes") from None
    return text


def _broken(found: str, accepted: str) -> errors.InvalidValueError:
    return errors.InvalidValueError("jsonpath", found, accepted)
