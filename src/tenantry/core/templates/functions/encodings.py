"""JSON, base64, base32 and digests."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import zlib
from collections.abc import Iterator
from typing import Any

from tenantry.core.templates import budget, errors, floats, values
from tenantry.core.templates.functions import registry

_ESCAPE = re.compile('[\\x00-\\x1f"\\\\\u2028\u2029\ud800-\udfff]')
_ESCAPE_HTML = re.compile('[\\x00-\\x1f"\\\\<>&\u2028\u2029\ud800-\udfff]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]")
_NOT_BASE32 = re.compile(r"[^A-Z2-7]")
_BASE32 = re.compile(
    r"(?:[A-Z2-7]{8})*(?:[A-Z2-7]{2}={6}|[A-Z2-7]{4}={4}|[A-Z2-7]{5}={3}|[A-Z2-7]{7}=)?"
)


def encoded(value: Any, counted: budget.Budget, *, html: bool = True) -> str:
    """Write JSON as Go does: sorted keys, no spaces, and HTML's characters escaped on request."""
    return "".join(_written(value, counted, html=html))


def _written(value: Any, counted: budget.Budget, *, html: bool) -> Iterator[str]:
    match value:
        case None | values.Missing() | values.NilMap():
            text = "null"
        case bool():
            text = "true" if value else "false"
        case str():
            text = _quoted(value, html=html)
        case int():
            text = str(int(value))
        case float():
            text = floats.json_number(value)
        case values.Opaque():
            text = _quoted(value.json(), html=html)
        case list():
            counted.enter()
            yield "["
            for index, item in enumerate(value):
                if index:
                    yield ","
                yield from _written(item, counted, html=html)
            counted.leave()
            text = "]"
        case dict():
            counted.enter()
            yield "{"
            for index, key in enumerate(sorted(value, key=values.utf8)):
                yield ("," if index else "") + _quoted(key, html=html) + ":"
                yield from _written(value[key], counted, html=html)
            counted.leave()
            text = "}"
        case _:
            raise errors.Failure(f"a value of type {values.type_name(value)} has no JSON")
    counted.make(len(text) + 1)
    yield text


def _quoted(text: str, *, html: bool) -> str:
    escape = _ESCAPE_HTML if html else _ESCAPE
    return f'"{escape.sub(_escaped, values.clean(text))}"'


def _escaped(match: re.Match[str]) -> str:
    char = match.group()
    return _SHORT.get(char) or f"\\u{ord(char):04x}"


def indented(text: str, counted: budget.Budget) -> str:
    """Lay JSON out over lines, two spaces a level; empty lists and maps stay on theirs."""
    out: list[str] = []
    depth, position = 0, 0
    for match in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[{](?:\s*[\]}])?|[\]},:]', text):
        piece = match.group()
        out.append(text[position : match.start()])
        position = match.end()
        if piece in {"[", "{"}:
            depth += 1
            out.append(f"{piece}\n{'  ' * depth}")
        elif piece in {"]", "}"}:
            depth -= 1
            out.append(f"\n{'  ' * depth}{piece}")
        elif piece == ",":
            out.append(f",\n{'  ' * depth}")
        else:
            out.append(": " if piece == ":" else piece)
        counted.make(len(out[-1]))
    return "".join([*out, text[position:]])


@registry.function("toJson", "any")
def _to_json(counted: budget.Budget, value: Any) -> str:
    try:
        return encoded(value, counted)
    except ValueError:
        return ""


@registry.function("mustToJson", "any")
def _must_to_json(counted: budget.Budget, value: Any) -> str:
    return encoded(value, counted)


@registry.function("toRawJson mustToRawJson", "any")
def _to_raw_json(counted: budget.Budget, value: Any) -> str:
    return encoded(value, counted, html=False)


@registry.function("toPrettyJson", "any")
def _to_pretty_json(counted: budget.Budget, value: Any) -> str:
    try:
        return indented(encoded(value, counted), counted)
    except ValueError:
        return ""


@registry.function("mustToPrettyJson", "any")
def _must_to_pretty_json(counted: budget.Budget, value: Any) -> str:
    return indented(encoded(value, counted), counted)


def decoded(text: str, counted: budget.Budget) -> Any:
    """Read JSON as Go does: every number is a float64. Raises ValueError."""
    # What is read may take far more memory than its text: a list of a list of a list.
    counted.make(4 * len(text))
    if text.count("[") + text.count("{") > 0 and _depth(text) > budget.DEPTH:
        raise ValueError(f"nested more than {budget.DEPTH} levels deep")
    return json.loads(
        values.clean(text), parse_int=_finite, parse_float=_finite, parse_constant=_refused
    )


def _depth(text: str) -> int:
    deepest = depth = 0
    for match in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', text):
        piece = match.group()
        depth += (piece in {"[", "{"}) - (piece in {"]", "}"})
        deepest = max(deepest, depth)
    return deepest


def _finite(text: str) -> float:
    number = float(text)
    if abs(number) == float("inf"):
        raise ValueError(f"number out of range: {text[:20]}")
    return number


def _refused(name: str) -> float:
    raise ValueError(f"invalid value: {name}")


@registry.function("fromJson", "string")
def _from_json(counted: budget.Budget, text: str) -> Any:
    try:
        return decoded(text, counted)
    except ValueError:
        return None


@registry.function("mustFromJson", "string")
def _must_from_json(counted: budget.Budget, text: str) -> Any:
    return decoded(text, counted)


@registry.function("fromJsonArray", "string")
def _from_json_array(counted: budget.Budget, text: str) -> list[Any]:
    try:
        found = decoded(text, counted)
    except ValueError as problem:
        return [str(problem)]
    if found is None or isinstance(found, list):
        return found or []
    return ["not a JSON list"]


@registry.function("b64enc", "string")
def _b64enc(counted: budget.Budget, text: str) -> str:
    counted.make(2 * len(text))
    return base64.b64encode(values.utf8(text)).decode()


@registry.function("b64dec", "string")
def _b64dec(counted: budget.Budget, text: str) -> str:
    """Decode; what is wrong comes as the result, as sprig has it."""
    counted.make(len(text))
    packed = text.replace("\r", "").replace("\n", "")
    if _BASE64.fullmatch(packed):
        return values.from_utf8(binascii.a2b_base64(packed))
    return f"illegal base64 data at input byte {_wrong(packed, _NOT_BASE64, 4)}"


@registry.function("b32enc", "string")
def _b32enc(counted: budget.Budget, text: str) -> str:
    counted.make(2 * len(text))
    return base64.b32encode(values.utf8(text)).decode()


@registry.function("b32dec", "string")
def _b32dec(counted: budget.Budget, text: str) -> str:
    counted.make(len(text))
    packed = text.replace("\r", "").replace("\n", "")
    if _BASE32.fullmatch(packed):
        return values.from_utf8(base64.b32decode(packed))
    return f"illegal base32 data at input byte {_wrong(packed, _NOT_BASE32, 8)}"


def _wrong(packed: str, outside: re.Pattern[str], group: int) -> int:
    """Say where: at the first character that is none of the alphabet, else where the last began."""
    match = outside.search(packed)
    return match.start() if match else len(packed) // group * group


@registry.function("sha1sum", "string")
def _sha1sum(counted: budget.Budget, text: str) -> str:
    counted.read(len(text))
    return hashlib.sha1(values.utf8(text), usedforsecurity=False).hexdigest()


@registry.function("sha256sum", "string")
def _sha256sum(counted: budget.Budget, text: str) -> str:
    counted.read(len(text))
    return hashlib.sha256(values.utf8(text)).hexdigest()


@registry.function("sha512sum", "string")
def _sha512sum(counted: budget.Budget, text: str) -> str:
    counted.read(len(text))
    return hashlib.sha512(values.utf8(text)).hexdigest()


@registry.function("adler32sum", "string")
def _adler32sum(counted: budget.Budget, text: str) -> str:
    counted.read(len(text))
    return str(zlib.adler32(values.utf8(text)))


@registry.function("deterministicUUID", "string...")
def _deterministic_uuid(counted: budget.Budget, *parts: str) -> str:
    """Make a UUID of the parts, the same every time: Capsule's, so that names stay after a switch."""
    counted.read(sum(map(len, parts)))
    joined = "\x1f".join(part.strip() for part in parts)
    digest = bytearray(hashlib.sha256(values.utf8(joined)).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    digits = digest.hex().upper()
    return "-".join(
        digits[start:end] for start, end in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
    )
