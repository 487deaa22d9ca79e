"""Text: cutting, trimming, changing, joining."""

from __future__ import annotations

import re
from typing import Any

from tenantry.core.templates import budget, errors, floats, printing, values
from tenantry.core.templates.functions import registry

#: White space as Unicode defines it, which is not what Python's strip takes.
SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"


def shown(value: Any, counted: budget.Budget) -> str:
    """Give a text as it is and everything else as %v prints it."""
    return value if isinstance(value, str) else printing.verb(value, counted)


def texts(value: Any, counted: budget.Budget) -> list[str]:
    """Give the items of a list as texts, without nulls; anything else is a list of itself."""
    if isinstance(value, list):
        counted.make(len(value))
        return [shown(item, counted) for item in value if item is not None]
    return [] if value is None else [shown(value, counted)]


def upper_char(char: str) -> str:
    changed = char.upper()
    return changed if len(changed) == 1 else char


def lower_char(char: str) -> str:
    changed = char.lower()
    return changed if len(changed) == 1 else changed[0]


@registry.function("upper", "string")
def upper(counted: budget.Budget, text: str) -> str:
    counted.make(len(text))
    return text.upper() if text.isascii() else "".join(map(upper_char, text))


@registry.function("lower", "string")
def lower(counted: budget.Budget, text: str) -> str:
    counted.make(len(text))
    return text.lower() if text.isascii() else "".join(map(lower_char, text))


@registry.function("trim", "string")
def _trim(counted: budget.Budget, text: str) -> str:
    counted.make(len(text))
    return text.strip(SPACE)


@registry.function("trimAll trimall", "string string")
def _trim_all(counted: budget.Budget, characters: str, text: str) -> str:
    counted.make(len(text) + len(characters))
    return text.strip(characters) if characters else text


@registry.function("trimSuffix", "string string")
def _trim_suffix(counted: budget.Budget, suffix: str, text: str) -> str:
    counted.make(len(text))
    return text.removesuffix(suffix)


@registry.function("trimPrefix", "string string")
def _trim_prefix(counted: budget.Budget, prefix: str, text: str) -> str:
    counted.make(len(text))
    return text.removeprefix(prefix)


@registry.function("nospace", "string")
def _nospace(counted: budget.Budget, text: str) -> str:
    counted.make(len(text))
    return "".join(char for char in text if char not in SPACE)


@registry.function("contains", "string string")
def _contains(counted: budget.Budget, part: str, text: str) -> bool:
    counted.read(len(text))
    return part in text


@registry.function("hasPrefix", "string string")
def _has_prefix(counted: budget.Budget, part: str, text: str) -> bool:
    counted.read(len(part))
    return text.startswith(part)


@registry.function("hasSuffix", "string string")
def _has_suffix(counted: budget.Budget, part: str, text: str) -> bool:
    counted.read(len(part))
    return text.endswith(part)


@registry.function("repeat", "int string")
def _repeat(counted: budget.Budget, count: int, text: str) -> str:
    if count < 0:
        raise errors.Failure(f"a text cannot be repeated {int(count)} times")
    counted.make(count * len(text))
    return text * count


@registry.function("replace", "string string string")
def _replace(counted: budget.Budget, old: str, new: str, text: str) -> str:
    counted.read(len(text))
    counted.make(len(text) + text.count(old) * len(new))
    return text.replace(old, new)


@registry.function("substr", "int int string")
def _substr(counted: budget.Budget, start: int, end: int, text: str) -> str:
    length = values.size(text)
    counted.make(len(text))
    if start < 0:
        return values.cut(text, 0, _within(end, 0, length))
    if end < 0 or end > length:
        return values.cut(text, _within(start, 0, length), length)
    return values.cut(text, _within(start, 0, end), end)


def _within(place: int, lowest: int, highest: int) -> int:
    if not lowest <= place <= highest:
        raise errors.Failure(f"out of range: {int(place)}; accepted: {lowest} to {highest}")
    return place


@registry.function("trunc", "int string")
def _trunc(counted: budget.Budget, count: int, text: str) -> str:
    length = values.size(text)
    counted.make(len(text))
    if count < 0 and length + count > 0:
        return values.cut(text, length + count, length)
    if 0 <= count < length:
        return values.cut(text, 0, count)
    return text


@registry.function("abbrev", "int string")
def _abbrev(counted: budget.Budget, width: int, text: str) -> str:
    counted.make(len(text))
    return text if width < 4 else _shortened(text, 0, width)


@registry.function("abbrevboth", "int int string")
def _abbrev_both(counted: budget.Budget, left: int, right: int, text: str) -> str:
    counted.make(len(text))
    return text if right < 4 or (left > 0 and right < 7) else _shortened(text, left, right)


def _shortened(text: str, offset: int, width: int) -> str:
    """Keep `width` bytes, those from `offset` on; dots stand for what is left out."""
    length, room = values.size(text), width - 3
    if length <= width:
        return text
    offset = min(offset, length)
    if length - offset < room:
        offset = length - room
    if offset <= 4:
        return values.cut(text, 0, room) + "..."
    if offset + room < length:
        return "..." + _shortened(values.cut(text, offset, length), 0, room)
    return "..." + values.cut(text, length - room, length)


@registry.function("indent", "int string")
def _indent(counted: budget.Budget, spaces: int, text: str) -> str:
    if spaces < 0:
        raise errors.Failure(f"cannot indent by {int(spaces)}")
    counted.make(len(text) + spaces * (text.count("\n") + 1))
    pad = " " * spaces
    return pad + text.replace("\n", "\n" + pad)


@registry.function("nindent", "int string")
def _nindent(counted: budget.Budget, spaces: int, text: str) -> str:
    return "\n" + _indent(counted, spaces, text)


@registry.function("quote", "any...")
def _quote(counted: budget.Budget, *items: Any) -> str:
    found = [shown(item, counted) for item in items if item is not None]
    counted.make(sum(map(len, found)) * 2)
    return " ".join(map(floats.quote, found))


@registry.function("squote", "any...")
def _squote(counted: budget.Budget, *items: Any) -> str:
    found = [printing.verb(item, counted) for item in items if item is not None]
    counted.make(sum(map(len, found)))
    return " ".join(f"'{item}'" for item in found)


@registry.function("cat", "any...")
def _cat(counted: budget.Budget, *items: Any) -> str:
    found = [printing.verb(item, counted) for item in items if item is not None]
    counted.make(sum(map(len, found)))
    return " ".join(found)


@registry.function("toString", "any")
def _to_string(counted: budget.Budget, value: Any) -> str:
    return shown(value, counted)


@registry.function("toStrings", "any")
def _to_strings(counted: budget.Budget, value: Any) -> list[str]:
    return values.StringList(texts(value, counted))


@registry.function("join", "string any")
def _join(counted: budget.Budget, separator: str, value: Any) -> str:
    found = texts(value, counted)
    counted.make(sum(map(len, found)) + len(separator) * len(found))
    return separator.join(found)


@registry.function("sortAlpha", "any")
def _sort_alpha(counted: budget.Budget, value: Any) -> list[str]:
    found = texts(value, counted) if isinstance(value, list) else [shown(value, counted)]
    counted.make(sum(map(len, found)))
    return values.StringList(sorted(found, key=values.utf8))


def pieces(counted: budget.Budget, separator: str, text: str, most: int = -1) -> list[str]:
    """Split as Go does: an empty separator gives characters."""
    if most == 0:
        return []
    counted.make(len(text) * (1 if separator else 2))
    if separator:
        found = text.split(separator, most - 1 if most > 0 else -1)
    else:
        found = list(text) if most < 0 else [*text[: most - 1], *filter(None, [text[most - 1 :]])]
    counted.make(len(found))
    return found


@registry.function("splitList", "string string")
def _split_list(counted: budget.Budget, separator: str, text: str) -> list[str]:
    return values.StringList(pieces(counted, separator, text))


@registry.function("split", "string string")
def _split(counted: budget.Budget, separator: str, text: str) -> dict[str, str]:
    return _numbered(pieces(counted, separator, text))


@registry.function("splitn", "string int string")
def _splitn(counted: budget.Budget, separator: str, most: int, text: str) -> dict[str, str]:
    return _numbered(pieces(counted, separator, text, most))


def _numbered(found: list[str]) -> dict[str, str]:
    return values.StringMap((f"_{index}", piece) for index, piece in enumerate(found))


@registry.function("plural", "string string int")
def _plural(_: budget.Budget, one: str, many: str, count: int) -> str:
    return one if count == 1 else many


@registry.function("hello")
def _hello(_: budget.Budget) -> str:
    return "Hello!"


@registry.function("fail", "string")
def _fail(_: budget.Budget, message: str) -> str:
    raise errors.Failure(message)


@registry.function("regexQuoteMeta", "string")
def _regex_quote_meta(counted: budget.Budget, text: str) -> str:
    counted.make(2 * len(text))
    return re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", text)
