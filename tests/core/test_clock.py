"""Times as RFC 3339 and `metav1.Time`, `metav1.MicroTime` write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry.core import clock


@pytest.mark.parametrize(
    ("seconds", "whole", "micro"),
    [
        (0, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z"),
        (1e9, "2001-09-09T01:46:40Z", "2001-09-09T01:46:40.000000Z"),
        (1_709_164_800.25, "2024-02-29T00:00:00Z", "2024-02-29T00:00:00.250000Z"),
    ],
)
def test_writing(seconds: float, whole: str, micro: str) -> None:
    assert clock.rfc3339(seconds) == whole
    assert clock.rfc3339_micro(seconds) == micro


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T19:30:00-04:30", 0),
        ("2024-02-29T00:00:00.25Z", 1_709_164_800.25),
        ("2024-02-29T00:00:00.250000Z", 1_709_164_800.25),
        ("2024-02-29T00:00:00.250000999Z", 1_709_164_800.25),
    ],
)
def test_reading(text: str, seconds: float) -> None:
    assert clock.parse_rfc3339(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "now", "2024-01-01", "2024-01-01T00:00:00", "20240101T000000Z", "2024-W01-1T00:00:00Z",
     "2024-01-01 00:00:00Z", "2024-01-01T00:00Z", "2024-13-01T00:00:00Z", "2023-02-29T00:00:00Z",
     "2024-01-01T25:00:00Z", "2024-01-01T00:00:00Z\n", "2024-01-01T00:00:00+0100"],
)  # fmt: skip
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        clock.parse_rfc3339(text)


@given(st.integers(0, 4_102_444_800))
def test_whole_seconds_survive(seconds: int) -> None:
    assert clock.parse_rfc3339(clock.rfc3339(seconds)) == seconds
    assert clock.parse_rfc3339(clock.rfc3339_micro(seconds)) == seconds
