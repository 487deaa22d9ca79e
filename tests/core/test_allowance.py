from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tenantry.core import allowance


def test_a_burst_then_one_per_refill() -> None:
    made = allowance.Allowance(3, 2.0, 100.0)
    assert [made.take(100.0) for _ in range(4)] == [True, True, True, False]
    assert made.wait(100.0) == 2.0
    assert made.wait(101.5) == 0.5
    assert not made.take(101.5)
    assert made.take(102.0)
    assert not made.take(102.0)
    assert [made.take(1000.0) for _ in range(4)] == [True, True, True, False]


@given(st.floats(0, 1e6), st.floats(0.01, 100))
def test_who_waits_as_long_as_was_said_gets_one(now: float, refill: float) -> None:
    made = allowance.Allowance(1, refill, now)
    assert made.take(now)
    assert not made.take(now)
    assert made.take(now + made.wait(now))


def test_a_clock_set_back_gives_nothing() -> None:
    made = allowance.Allowance(1, 1.0, 100.0)
    assert made.take(100.0)
    assert not made.take(50.0)
    assert made.take(51.0)


@given(st.lists(st.floats(0, 5), max_size=50), st.integers(1, 5), st.floats(0.1, 3))
def test_never_more_than_burst_and_time_allow(
    pauses: list[float], burst: int, refill: float
) -> None:
    made, now, taken = allowance.Allowance(burst, refill, 0.0), 0.0, 0
    for pause in pauses:
        now += pause
        free = made.wait(now) == 0
        assert made.take(now) is free
        taken += free
        assert taken <= burst + now / refill + 1e-6
