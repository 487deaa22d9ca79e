"""CEL's functions of text, bounded: the library's own let a text grow without end."""

from __future__ import annotations

from typing import Any

from tenantry.core import cel_values as cv
from tenantry.core.templates import floats

_UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise ValueError(f"index out of range: {index}")
    return text[index : index + 1]


def _index_from(text: str, part: str, start: int) -> int:
    if not part:
        return start
    if start < 0:
        raise ValueError(f"index out of range: {start}")
    return text.find(part, start)


def _last_index_to(text: str, part: str, end: int) -> int:
    if not part:
        return end
    if end < 0:
        raise ValueError(f"index out of range: {end}")
    # From the end or behind it nothing is found, whatever stands there.
    return text.rfind(part, 0, end + len(part)) if end < len(text) else -1


def _replace(text: str, old: str, new: str) -> str:
    return _replace_some(text, old, new, -1)


def _replace_some(text: str, old: str, new: str, most: int) -> str:
    count = text.count(old) if most < 0 else min(text.count(old), most)
    cv.short(range(len(text) + count * len(new)))
    return text.replace(old, new, count)


def _split(text: str, separator: str) -> list[str]:
    return text.split(separator) if separator else list(text)


def _split_some(text: str, separator: str, most: int) -> list[str]:
    if most <= 0:
        return [] if most == 0 else _split(text, separator)
    if separator:
        return text.split(separator, most - 1)
    return [*text[: most - 1], text[most - 1 :]] if len(text) > most else list(text)


def _substring(text: str, start: int) -> str:
    return _substring_to(text, start, len(text))


def _substring_to(text: str, start: int, end: int) -> str:
    if not 0 <= start <= end <= len(text):
        raise ValueError(f"invalid substring range: {start} to {end}")
    return text[start:end]


def _join(items: list[Any], separator: str = "") -> str:
    if not all(isinstance(item, str) for item in items):
        raise ValueError("join needs a list of texts")
    cv.short(range(sum(map(len, items)) + len(separator) * len(items)))
    return separator.join(items)


def _format(layout: str, arguments: list[Any]) -> str:
    out: list[str] = []
    position = used = 0
    while (start := layout.find("%", position)) >= 0:
        out.append(layout[position:start])
        verb, position = layout[start + 1 : start + 2], start + 2
        precision = ""
        while verb and (verb == "." or verb.isdecimal()):
            precision += verb
            verb, position = layout[position : position + 1], position + 1
        if verb == "%":
            out.append("%")
            continue
        if used >= len(arguments):
            raise ValueError("format: more verbs than arguments")
        digits = int(precision[1:] or 0) if precision else 6
        out.append(_verb(verb, arguments[used], min(digits, 1000)))
        used += 1
        cv.short(range(sum(map(len, out))))
    return "".join([*out, layout[position:]])


def _verb(verb: str, value: Any, digits: int) -> str:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    match verb:
        case "s":
            return value if isinstance(value, str) else _shown(value)
        case "d" if is_number and isinstance(value, int):
            return str(value)
        case "f" if is_number:
            return format(value, f".{digits}f")
        case "b" if isinstance(value, (bool, int)):
            return f"{int(value):b}"
        case "o" if is_number and isinstance(value, int):
            return f"{value:o}"
        case "x" | "X" if is_number and isinstance(value, int):
            return f"{value:{verb}}"
        case "x" | "X" if isinstance(value, str):
            text = value.encode().hex()
            return text.upper() if verb == "X" else text
    raise ValueError(f"format: %{verb} of this value; accepted: %s %d %f %b %o %x %X %%")


def _shown(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return floats.general(value, 21)
        case str():
            return floats.quote(value)
        case list():
            return f"[{', '.join(map(_shown, value))}]"
        case dict():
            pairs = (f"{_shown(key)}:{_shown(value[key])}" for key in sorted(value, key=str))
            return f"{{{', '.join(pairs)}}}"
    return str(value)


FUNCTIONS = cv.functions(
    (".charAt", "string int", "string", _char_at),
    (".indexOf", "string string", "int", lambda text, part: text.find(part)),
    (".indexOf", "string string int", "int", _index_from),
    (".lastIndexOf", "string string", "int", lambda text, part: text.rfind(part)),
    (".lastIndexOf", "string string int", "int", _last_index_to),
    (".lowerAscii", "string", "string", lambda text: text.translate(_LOWER)),
    (".upperAscii", "string", "string", lambda text: text.translate(_UPPER)),
    (".replace", "string string string", "string", _replace),
    (".replace", "string string string int", "string", _replace_some),
    (".split", "string string", "list", _split),
    (".split", "string string int", "list", _split_some),
    (".substring", "string int", "string", _substring),
    (".substring", "string int int", "string", _substring_to),
    (".trim", "string", "string", lambda text: text.strip(_SPACE)),
    (".join", "list", "string", _join),
    (".join", "list string", "string", _join),
    (".format", "string list", "string", _format),
    ("strings.quote", "string", "string", lambda text: cv.short(floats.quote(text))),
)
