"""Floats and quoted texts as Go's strconv writes them."""

from __future__ import annotations

import math

_SIMPLE = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\",
}  # fmt: skip


def general(number: float, highest: int = 6) -> str:
    """Write the shortest digits that give this number back; an exponent from `highest` on."""
    if not math.isfinite(number):
        return special(number)
    sign, digits, exponent = _shortest(number)
    if exponent < -4 or exponent >= highest:
        rest = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{rest}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    return sign + _plain(digits, exponent)


def plain(number: float) -> str:
    """Write the shortest digits without an exponent."""
    if not math.isfinite(number):
        return special(number)
    sign, digits, exponent = _shortest(number)
    return sign + _plain(digits, exponent)


def scientific(number: float) -> str:
    """Write the shortest digits with an exponent."""
    return general(number, -(10**6)) if math.isfinite(number) else special(number)


def json_number(number: float) -> str:
    """Write a number as Go's encoding/json does; raises ValueError when JSON has none for it."""
    if not math.isfinite(number):
        raise ValueError(f"unsupported value: {special(number)}")
    if number and not 1e-6 <= abs(number) < 1e21:
        mantissa, _, exponent = scientific(number).partition("e")
        return f"{mantissa}e{exponent[0]}{exponent[1:].lstrip('0')}"
    return plain(number)


def special(number: float) -> str:
    """Write what is no finite number."""
    if math.isnan(number):
        return "NaN"
    return "+Inf" if number > 0 else "-Inf"


def _shortest(number: float) -> tuple[str, str, int]:
    """Split into sign, digits and the exponent of the first of them."""
    # repr gives the shortest digits too; only their layout differs.
    mantissa, _, exponent = repr(abs(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + fraction
    point = len(whole) + int(exponent or 0)
    stripped = digits.lstrip("0")
    point -= len(digits) - len(stripped)
    stripped = stripped.rstrip("0") or "0"
    sign = "-" if math.copysign(1, number) < 0 else ""
    return sign, stripped, point - 1 if number else 0


def _plain(digits: str, exponent: int) -> str:
    if exponent < 0:
        return f"0.{'0' * (-exponent - 1)}{digits}"
    if exponent + 1 >= len(digits):
        return digits + "0" * (exponent + 1 - len(digits))
    return f"{digits[: exponent + 1]}.{digits[exponent + 1 :]}"


def quote(text: str, *, mark: str = '"', ascii_only: bool = False) -> str:
    """Quote as Go's %q does."""
    out = [mark]
    for char in text:
        code = ord(char)
        if char == mark:
            out.append(f"\\{mark}")
        elif char in _SIMPLE:
            out.append(_SIMPLE[char])
        elif 0x20 <= code < 0x7F or (code > 0x7F and not ascii_only and char.isprintable()):
            out.append(char)
        elif 0xDC80 <= code <= 0xDCFF:
            # A byte that is no character by itself.
            out.append(f"\\x{code - 0xDC00:02x}")
        elif code < 0x80:
            out.append(f"\\x{code:02x}")
        else:
            out.append(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    out.append(mark)
    return "".join(out)
