"""Durations in Go's notation."""

from __future__ import annotations

import math

import pytest

from tenantry.core import durations

SECOND = 10**9


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("1h30m", 5400 * SECOND),
        ("-2.5s", -5 * SECOND // 2),
        ("300ms", 300 * 10**6),
        (".5s", SECOND // 2),
        ("1.s", SECOND),
        ("1us", 1000),
        ("1µs2ns", 1002),
        ("1m0.5s", 121 * SECOND // 2),
        ("0.1ns", 0),
        ("+1s", SECOND),
    ],
)
def test_worth(text: str, nanoseconds: int) -> None:
    assert durations.nanoseconds(text) == nanoseconds
    assert durations.seconds(text) == pytest.approx(nanoseconds / SECOND, abs=1e-9)


def test_no_number_is_too_long() -> None:
    assert durations.seconds("9" * 5000 + "h") == math.inf
