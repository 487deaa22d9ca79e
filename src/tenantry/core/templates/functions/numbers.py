"""Numbers: sprig's arithmetic, which converts what it is given and wraps at 64 bits."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from tenantry.core.templates import budget, errors, printing, values
from tenantry.core.templates.functions import registry

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_WHOLE = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|[1-9][0-9]*|0)")
_GROUPS = re.compile(r"[+-]?(?:0[xXbBoO]?_?)?[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_HEX_FLOAT = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]{1,9}"
)
_SPECIAL = re.compile(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE)
_ZEROES = re.compile(r"\.0*$")
#: Digits that division keeps behind the point.
_DIVISION = 10**16


def whole(value: Any) -> int:
    """Convert to an int64 as sprig does: what is no number is 0."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        # Outside of the range the processor gives the lowest number.
        return int(value) if math.isfinite(value) and -(2.0**63) <= value < 2.0**63 else _LOWEST
    return _parsed(value) if isinstance(value, str) else 0


def _parsed(text: str) -> int:
    text = _ZEROES.sub("", text) if len(text) < 100 else ""
    if "_" in text:
        if _GROUPS.fullmatch(text) is None:
            return 0
        text = text.replace("_", "")
    if _WHOLE.fullmatch(text) is None:
        return 0
    sign, digits = (-1 if text[0] == "-" else 1), text.lstrip("+-")
    old_octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
    number = sign * int(digits, 8 if old_octal else 0)
    return number if _LOWEST <= number <= _HIGHEST else 0


def real(value: Any) -> float:
    """Convert to a float64 as sprig does: what is no number is 0."""
    if isinstance(value, (int, float)):
        return float(value)
    if not isinstance(value, str) or len(value) > 400:
        return 0.0
    text = value
    if "_" in text:
        # Only numbers with a prefix may be grouped.
        return 0.0
    if _HEX_FLOAT.fullmatch(text):
        try:
            return float.fromhex(text)
        except OverflowError:
            return 0.0
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if math.isfinite(number) else 0.0
    return float(text) if _SPECIAL.fullmatch(text) else 0.0


@registry.function("int", "any")
def _int(_: budget.Budget, value: Any) -> int:
    return values.Int(whole(value))


@registry.function("int64", "any")
def _int64(_: budget.Budget, value: Any) -> int:
    return whole(value)


@registry.function("float64", "any")
def _float64(_: budget.Budget, value: Any) -> float:
    return real(value)


@registry.function("atoi", "string")
def _atoi(_: budget.Budget, text: str) -> int:
    if len(text) > 1000 or re.fullmatch(r"[+-]?[0-9]+", text) is None:
        return values.Int(0)
    return values.Int(min(max(int(text), _LOWEST), _HIGHEST))


@registry.function("toDecimal", "any")
def _to_decimal(counted: budget.Budget, value: Any) -> int:
    text = printing.verb(value, counted)
    if len(text) > 1000 or re.fullmatch(r"[+-]?[0-7]+", text) is None:
        return 0
    return min(max(int(text, 8), _LOWEST), _HIGHEST)


@registry.function("add1", "any")
def _add1(_: budget.Budget, value: Any) -> int:
    return values.wrap(whole(value) + 1)


@registry.function("add", "any...")
def _add(_: budget.Budget, *items: Any) -> int:
    return values.wrap(sum(map(whole, items)))


@registry.function("sub", "any any")
def _sub(_: budget.Budget, left: Any, right: Any) -> int:
    return values.wrap(whole(left) - whole(right))


@registry.function("mul", "any any...")
def _mul(_: budget.Budget, first: Any, *items: Any) -> int:
    product = whole(first)
    for item in items:
        product = values.wrap(product * whole(item))
    return product


@registry.function("div", "any any")
def _div(_: budget.Budget, left: Any, right: Any) -> int:
    dividend, divisor = whole(left), whole(right)
    if divisor == 0:
        raise errors.Failure("division by zero")
    quotient = abs(dividend) // abs(divisor)
    return values.wrap(quotient if (dividend < 0) == (divisor < 0) else -quotient)


@registry.function("mod", "any any")
def _mod(_: budget.Budget, left: Any, right: Any) -> int:
    dividend, divisor = whole(left), whole(right)
    if divisor == 0:
        raise errors.Failure("division by zero")
    rest = abs(dividend) % abs(divisor)
    return -rest if dividend < 0 else rest


@registry.function("max biggest", "any any...")
def _max(_: budget.Budget, *items: Any) -> int:
    return max(map(whole, items))


@registry.function("min", "any any...")
def _min(_: budget.Budget, *items: Any) -> int:
    return min(map(whole, items))


@registry.function("maxf", "any any...")
def _maxf(_: budget.Budget, *items: Any) -> float:
    return _extreme(items, max)


@registry.function("minf", "any any...")
def _minf(_: budget.Budget, *items: Any) -> float:
    return _extreme(items, min)


def _extreme(items: tuple[Any, ...], choose: Callable[[list[float]], float]) -> float:
    found = [real(item) for item in items]
    return float("nan") if any(map(math.isnan, found)) else choose(found)


@registry.function("floor", "any")
def _floor(_: budget.Budget, value: Any) -> float:
    number = real(value)
    return math.copysign(float(math.floor(number)), number) if math.isfinite(number) else number


@registry.function("ceil", "any")
def _ceil(_: budget.Budget, value: Any) -> float:
    number = real(value)
    return math.copysign(float(math.ceil(number)), number) if math.isfinite(number) else number


@registry.function("round", "any int float...")
def _round(_: budget.Budget, value: Any, places: int, *rounding: float) -> float:
    number, limit = real(value), rounding[0] if rounding else 0.5
    power = 10.0**places if -400 < places < 400 and places < 309 else math.inf
    if places <= -324:
        power = 0.0
    shifted = power * number
    if not math.isfinite(shifted):
        return shifted / power if power and not math.isinf(power) else math.nan
    fraction, _whole = math.modf(shifted)
    rounded = math.ceil(shifted) if fraction >= limit else math.floor(shifted)
    return float(rounded) / power if power else math.nan


def _exact(value: Any) -> Fraction:
    number = real(value)
    if not math.isfinite(number):
        raise errors.Failure("cannot calculate with what is no finite number")
    # The shortest decimal that means this float, not the float's own binary fraction.
    return Fraction(repr(number))


def _calculated(
    counted: budget.Budget,
    first: Any,
    items: tuple[Any, ...],
    operation: Callable[[Fraction, Fraction], Fraction],
) -> float:
    result = _exact(first)
    for item in items:
        counted.step(20)
        result = operation(result, _exact(item))
    try:
        return float(result)
    except OverflowError:
        return math.inf if result > 0 else -math.inf


def _divided(left: Fraction, right: Fraction) -> Fraction:
    if right == 0:
        raise errors.Failure("division by zero")
    scaled = left / right * _DIVISION
    quotient, rest = divmod(abs(scaled.numerator), scaled.denominator)
    quotient += 2 * rest >= scaled.denominator
    return Fraction(quotient if scaled >= 0 else -quotient, _DIVISION)


@registry.function("add1f", "any")
def _add1f(counted: budget.Budget, value: Any) -> float:
    return _calculated(counted, value, (1.0,), lambda left, right: left + right)


@registry.function("addf", "any...")
def _addf(counted: budget.Budget, *items: Any) -> float:
    return _calculated(counted, 0.0, items, lambda left, right: left + right)


@registry.function("subf", "any any...")
def _subf(counted: budget.Budget, first: Any, *items: Any) -> float:
    return _calculated(counted, first, items, lambda left, right: left - right)


@registry.function("mulf", "any any...")
def _mulf(counted: budget.Budget, first: Any, *items: Any) -> float:
    return _calculated(counted, first, items, lambda left, right: left * right)


@registry.function("divf", "any any...")
def _divf(counted: budget.Budget, first: Any, *items: Any) -> float:
    return _calculated(counted, first, items, _divided)
