"""Kubernetes quantities as exact numbers.

Grammar and canonical form follow the Kubernetes API conventions for `resource.Quantity`: a signed
decimal with a binary suffix (Ki..Ei), a decimal suffix (n, u, m, "", k..E) or an exponent. Values
are kept exact; as the conventions say, digits finer than one nano round away from zero and what
is written beyond 2^63-1 counts as that.
"""

from __future__ import annotations

import functools
import re
from decimal import Decimal
from fractions import Fraction

from tenantry.core import errors

BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}

_BY_EXPONENT = {exponent: suffix for suffix, exponent in DECIMAL.items()}
_GRAMMAR = re.compile(
    r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(?:([eE][+-]?[0-9]{1,3})|([KMGTPE]i|[numkMGTPE]?))"
)
_LONGEST = 64
NANO = 10**9
_MOST = (2**63 - 1) * NANO


@functools.total_ordering
class Quantity:
    """An exact amount, in whole nano units, that remembers in which format it was written.

    Arithmetic keeps the format of the left operand unless that is zero, as the API server does.
    """

    __slots__ = ("form", "nanos")

    def __init__(self, nanos: int, form: str = "decimal") -> None:
        self.nanos = nanos
        self.form = form

    @property
    def value(self) -> int:
        """Return whole units, rounded away from zero (what `Quantity.Value()` gives)."""
        return _away_from_zero(Fraction(self.nanos, NANO))

    @property
    def milli(self) -> int:
        """Return thousandths, rounded away from zero (what `Quantity.MilliValue()` gives)."""
        return _away_from_zero(Fraction(self.nanos * 1000, NANO))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nanos == other.nanos

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos + other.nanos, self.form if self else other.form)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nanos - other.nanos, self.form if self else other.form)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nanos, self.form)

    def __str__(self) -> str:
        return _canonical(self.nanos, self.form)

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"


def parse(text: str | float, field: str = "quantity") -> Quantity:
    """Parse a quantity as it stands in a manifest (string or number).

    :raises InvalidValueError: when it is not a quantity
    """
    written = str(text)
    match = _GRAMMAR.fullmatch(written) if len(written) <= _LONGEST else None
    if isinstance(text, bool) or match is None:
        raise errors.InvalidValueError(
            field, text, "must be a quantity such as 2, 500m, 1.5Gi or 12e6"
        )
    sign, digits, exponent, suffix = match.groups()
    number = Fraction(Decimal(digits))
    if exponent:
        form, scale = "exponent", Fraction(10) ** int(exponent[1:])
    elif suffix in BINARY:
        form, scale = "binary", Fraction(BINARY[suffix])
    else:
        form, scale = "decimal", Fraction(10) ** DECIMAL[suffix]
    nanos = min(_away_from_zero(number * scale * NANO), _MOST)
    return Quantity(-nanos if sign == "-" else nanos, form)


def _away_from_zero(number: Fraction) -> int:
    magnitude = -((-abs(number.numerator)) // number.denominator)
    return magnitude if number >= 0 else -magnitude


def _canonical(nanos: int, form: str) -> str:
    """Print with the largest suffix that leaves an integer (API conventions, "canonical form")."""
    if nanos == 0:
        return "0"
    if form == "binary" and abs(nanos) >= 1024 * NANO and nanos % NANO == 0:
        units, suffix = nanos // NANO, ""
        for name, size in BINARY.items():
            if (nanos // NANO) % size:
                break
            units, suffix = nanos // NANO // size, name
        return f"{units}{suffix}"
    units, power = nanos, -9
    while units % 1000 == 0 and power < 18:
        units, power = units // 1000, power + 3
    if form == "exponent":
        return f"{units}e{power}" if power else str(units)
    return f"{units}{_BY_EXPONENT[power]}"
