"""Go's constants: quoted texts and numbers, as they are written inside actions."""

from __future__ import annotations

import re

from tenantry.core.templates import lexer, nodes, values

_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\'\"])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.?))",
    re.DOTALL,
)
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_DECIMAL = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEX_FLOAT = re.compile(r"0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+")
_GROUPED = re.compile(r"(?:0[xXbBoO]_?)?[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*(?:[.eEpP].*)?")


def unquote(token: lexer.Token) -> str:
    """Give the text of a quoted or raw string."""
    if token.kind == "raw":
        return token.text[1:-1]
    return _unescaped(token, allowed='"')


def character(token: lexer.Token) -> int:
    """Give the number of a character constant."""
    text = _unescaped(token, allowed="'")
    if len(text) != 1:
        raise lexer.Refusal(token.at, f"not one character: {token.text}")
    code = ord(text)
    # What was written as \xff is the number 255, not half a character.
    return code - 0xDC00 if 0xDC80 <= code <= 0xDCFF else code


def _unescaped(token: lexer.Token, allowed: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        simple, byte, short, long, octal, unknown = match.groups()
        if simple in {"'", '"'} and simple != allowed:
            unknown = simple
        if unknown is not None:
            raise lexer.Refusal(token.at, f"unknown escape \\{unknown} in {token.text}")
        if simple:
            return _SIMPLE.get(simple, simple)
        if byte or octal:
            code = int(byte, 16) if byte else int(octal, 8)
            if code > 0xFF:
                raise lexer.Refusal(token.at, f"no such byte: \\{octal} in {token.text}")
            return chr(code) if code < 0x80 else chr(0xDC00 + code)
        code = int(short or long, 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise lexer.Refusal(token.at, f"no such character in {token.text}")
        return chr(code)

    return _ESCAPE.sub(replaced, token.text[1:-1])


def number(token: lexer.Token) -> nodes.Literal:
    """Read a number with everything that it can stand for.

    Go: a constant with a point or an exponent is a float by itself, every other one is an int; but
    where an int is wanted 3.0 will do, and where a float is wanted 3 will.
    """
    text = token.text
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-")
    if "_" in digits and _GROUPED.fullmatch(digits) is None:
        raise lexer.Refusal(token.at, f"not a number: {text!r}")
    digits = digits.replace("_", "")
    whole = _whole(digits)
    real: float | None = None
    if whole is None:
        if len(digits) > 1 and digits[0] == "0" and digits.isdigit():
            raise lexer.Refusal(token.at, f"not an octal number: {text!r}")
        if _HEX_FLOAT.fullmatch(digits):
            real = _hex_float(token, digits)
        elif _DECIMAL.fullmatch(digits):
            real = float(digits)
        else:
            raise lexer.Refusal(token.at, f"not a number: {text!r}")
        if real == float("inf"):
            raise lexer.Refusal(token.at, f"too large for a number: {text!r}")
        real *= sign
        if real == int(real) and -(1 << 63) <= real < 1 << 63:
            return nodes.Literal(token.at, real, int(real), real)
        return nodes.Literal(token.at, real, None, real)
    whole *= sign
    if not -(1 << 63) <= whole < 1 << 63:
        raise lexer.Refusal(token.at, f"does not fit into an int: {text!r}")
    return nodes.Literal(token.at, values.Int(whole), whole, float(whole))


def _whole(digits: str) -> int | None:
    try:
        # Go reads 017 as octal, as C did.
        old = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
        return int(digits, 8 if old else 0)
    except ValueError:
        return None


def _hex_float(token: lexer.Token, digits: str) -> float:
    try:
        return float.fromhex(digits)
    except OverflowError:
        raise lexer.Refusal(token.at, f"too large for a number: {digits!r}") from None
