"""Quantities as the Kubernetes API conventions define them.

The tables come from the conventions ("Quantities": canonical form, suffixes, rounding) and from
the published behaviour of `resource.Quantity`, not from what this module happens to give.
"""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry.core import errors, quantity

NANO = quantity.NANO
MOST = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("0", 0),
        ("00", 0),
        ("-0", 0),
        ("5", 5 * NANO),
        ("+5", 5 * NANO),
        ("-5", -5 * NANO),
        ("007", 7 * NANO),
        (".5", NANO // 2),
        ("1.", NANO),
        ("1.G", 10**9 * NANO),
        ("2.25", 2_250_000_000),
        # Decimal suffixes: n u m (none) k M G T P E; K is not one of them.
        ("1n", 1),
        ("1u", 1000),
        ("1m", 1_000_000),
        ("1k", 10**3 * NANO),
        ("1M", 10**6 * NANO),
        ("1G", 10**9 * NANO),
        ("1T", 10**12 * NANO),
        ("1P", 10**15 * NANO),
        ("1E", 10**18 * NANO),
        # Binary suffixes.
        ("1Ki", 2**10 * NANO),
        ("1Mi", 2**20 * NANO),
        ("1Gi", 2**30 * NANO),
        ("1Ti", 2**40 * NANO),
        ("1Pi", 2**50 * NANO),
        ("1Ei", 2**60 * NANO),
        ("1.5Gi", 1536 * 2**20 * NANO),
        # Exponents, in either case and with a sign; "E" alone is exa.
        ("12e6", 12_000_000 * NANO),
        ("12E6", 12_000_000 * NANO),
        ("12e+6", 12_000_000 * NANO),
        ("12e-6", 12_000),
        ("1e0", NANO),
        (7, 7 * NANO),
        (0.1, NANO // 10),
        (1e21, MOST * NANO),
    ],
)
def test_reads_every_form(text: str | float, nanos: int) -> None:
    assert quantity.parse(text).nanos == nanos


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "1 ", " 1", "1\n", "1.2.3", "--1", "+-1", "1-", ".", "+", "Gi", "m", "1K", "1ki",
        "1KI", "1kB", "1Gib", "1mi", "1e", "1e1.5", "1ee1", "1e1Ki", "0x10", "1_000", "1,5", "inf",
        "nan", "NaN", "Infinity", "٣", "1" * 65, "1e1000000000", True, False, float("nan"),
        float("inf"),
    ],
)  # fmt: skip
def test_refuses_everything_else(text: str | float) -> None:
    with pytest.raises(errors.InvalidValueError) as refused:
        quantity.parse(text, "spec.hard[cpu]")
    assert refused.value.field == "spec.hard[cpu]"
    assert "must be a quantity such as" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        # The conventions' own examples.
        ("1.5", "1500m"),
        ("1.5Gi", "1536Mi"),
        # The largest suffix without a fraction, in the format it was written in.
        ("1024Mi", "1Gi"),
        ("307200Ki", "300Mi"),
        ("6Ki", "6Ki"),
        ("1025024Mi", "1001Gi"),
        ("1024Gi", "1Ti"),
        ("1000M", "1G"),
        ("0.001T", "1G"),
        ("1000u", "1m"),
        ("1.08", "1080m"),
        ("1080000000n", "1080m"),
        ("300M", "300M"),
        ("1234567M", "1234567M"),
        ("3000", "3k"),
        ("1000000", "1M"),
        ("1001", "1001"),
        (".001e12", "1e9"),
        ("0.001e0", "1e-3"),
        ("300e6", "300e6"),
        ("1e4", "10e3"),
        ("5e0", "5"),
        ("12E6", "12e6"),
        # Zero has no suffix, a sign is shown only when negative.
        ("0Gi", "0"),
        ("0e5", "0"),
        ("-0", "0"),
        ("+1", "1"),
        ("-1.5", "-1500m"),
        ("-1024Ki", "-1Mi"),
        # Binary below 1024, or with a fraction of a byte, is shown in decimal.
        ("0.5Ki", "512"),
        ("1023.5Ki", "1048064"),
        ("0.5", "500m"),
        ("1.0001Ki", "1024102400u"),
        ("1025", "1025"),
    ],
)
def test_canonical_form(text: str, canonical: str) -> None:
    assert str(quantity.parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0.0000000001", "1n"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("1.0000000001", "1000000001n"),
        ("-1.0000000001", "-1000000001n"),
        ("0.000000000001Ki", "2n"),
        ("1e-10", "1e-9"),
        ("1000e-12", "1e-9"),
    ],
)
def test_finer_than_nano_rounds_away_from_zero(text: str, canonical: str) -> None:
    assert str(quantity.parse(text)) == canonical


@pytest.mark.parametrize("text", ["9223372036854775808", "8Ei", "16Ei", "1e100", "1e999", "10E"])
def test_nothing_is_larger_than_the_largest_number(text: str) -> None:
    assert quantity.parse(text).value == MOST
    assert quantity.parse(f"-{text}").value == -MOST


def test_the_largest_number_itself_is_exact() -> None:
    assert str(quantity.parse("9223372036854775807")) == "9223372036854775807"
    assert quantity.parse("9223372036854775806").value == MOST - 1


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [
        ("0", 0, 0),
        ("1n", 1, 1),
        ("1m", 1, 1),
        ("999m", 1, 999),
        ("1001m", 2, 1001),
        ("1100u", 1, 2),
        ("1.5Gi", 1610612736, 1610612736000),
        ("-1m", -1, -1),
        ("-1500m", -2, -1500),
    ],
)
def test_whole_units_and_thousandths_round_away_from_zero(
    text: str, value: int, milli: int
) -> None:
    assert (quantity.parse(text).value, quantity.parse(text).milli) == (value, milli)


def test_arithmetic_keeps_the_format_of_the_left_operand_unless_that_is_zero() -> None:
    q = quantity.parse
    assert str(q("1Gi") + q("1Gi")) == "2Gi"
    assert str(q("1Gi") + q("1k")) == "1073742824"
    assert str(q("1000") + q("24Ki")) == "25576"
    assert str(q("0") + q("1Gi")) == "1Gi"
    assert str(q("0Gi") + q("5000")) == "5k"
    assert str(q("0") - q("1Gi")) == "-1Gi"
    assert str(q("2Gi") - q("1Gi")) == "1Gi"
    assert str(q("500m") - q("1")) == "-500m"
    assert str(-q("1Gi")) == "-1Gi"


def test_comparison_is_by_amount_alone() -> None:
    q = quantity.parse
    assert q("1Gi") == q("1024Mi") == q("1073741824")
    assert hash(q("1Gi")) == hash(q("1073741824"))
    assert q("1G") < q("1Gi")
    assert q("1Gi") >= q("1024Mi")
    assert q("1") != "1"
    assert not q("0")
    assert q("1n")
    assert repr(q("1024Mi")) == "Quantity('1Gi')"


NUMBERS = st.from_regex(r"[+-]?([0-9]{1,12}(\.[0-9]{0,12})?|\.[0-9]{1,12})", fullmatch=True)
SUFFIXES = st.sampled_from(
    [*quantity.BINARY, *quantity.DECIMAL, "e0", "e3", "E+3", "e-3", "e1", "e-2", "e9"]
)
WRITTEN = st.builds(lambda number, suffix: number + suffix, NUMBERS, SUFFIXES)


@given(WRITTEN)
def test_the_canonical_form_is_stable_and_loses_nothing(text: str) -> None:
    parsed = quantity.parse(text)
    again = quantity.parse(str(parsed))
    assert again == parsed
    assert str(again) == str(parsed)
    assert "." not in str(parsed)


@given(WRITTEN)
def test_rounding_moves_less_than_one_nano_and_away_from_zero(text: str) -> None:
    parsed = quantity.parse(text)
    exact = _exact(text)
    if abs(exact) < MOST:
        moved = parsed.nanos - exact * NANO
        assert abs(moved) < 1
        assert moved == 0 or (moved > 0) == (exact > 0)


def _exact(text: str) -> Fraction:
    """Read a quantity by another way than the code: longest known suffix first."""
    scales = {
        **{suffix: Fraction(2) ** (10 * (i + 1)) for i, suffix in enumerate(quantity.BINARY)},
        "n": Fraction(1, 10**9),
        "u": Fraction(1, 10**6),
        "m": Fraction(1, 1000),
        **{s: Fraction(1000) ** (i + 1) for i, s in enumerate(["k", "M", "G", "T", "P", "E"])},
    }
    for suffix, scale in scales.items():
        if text.endswith(suffix):
            return Fraction(text.removesuffix(suffix).removesuffix(".")) * scale
    mantissa, _, exponent = text.lower().partition("e")
    return Fraction(mantissa.removesuffix(".")) * Fraction(10) ** int(exponent or 0)


@given(WRITTEN, WRITTEN)
def test_addition_and_order_agree_with_the_numbers(left: str, right: str) -> None:
    a, b = quantity.parse(left), quantity.parse(right)
    assert (a + b).nanos == a.nanos + b.nanos
    assert (a + b) - b == a
    assert (a < b) == (a.nanos < b.nanos)
    assert (-a).nanos == -a.nanos


@given(st.text(alphabet="0123456789.eE+-KMGTPinumk ", max_size=12))
def test_reads_or_refuses_but_never_crashes(text: str) -> None:
    try:
        quantity.parse(text)
    except errors.InvalidValueError:
        return
