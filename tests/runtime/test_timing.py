from __future__ import annotations

import pytest

from tenantry.runtime import backoff, timing, versions


def test_scales_every_interval() -> None:
    scaled = timing.Timing().scaled(0.1)
    assert scaled.lease == pytest.approx(1.5)
    assert scaled.certificate_poll == pytest.approx(1.0)
    assert scaled.inactivity == 70.0, "bookmarks come when the server sends them"


@pytest.mark.parametrize("wrong", [{"write": 6.0}, {"lease_retry": 11.0}, {"renew_deadline": 20.0}])
def test_refuses_intervals_with_which_two_could_lead(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="Timing"):
        timing.Timing(**wrong)


def test_backoff_doubles_is_bounded_and_spreads() -> None:
    plain = backoff.Backoff(first=1, longest=10, healthy=100, rng=lambda: 0.0)
    assert [plain.next() for _ in range(5)] == [1, 2, 4, 8, 10]
    assert plain.next(up=100) == 1
    plain.next()
    plain.reset()
    assert plain.next() == 1
    spread = backoff.Backoff(first=1, longest=10, healthy=100, jitter=0.5, rng=lambda: 1.0)
    assert spread.next() == 1.5


@pytest.mark.parametrize(
    ("major", "minor", "expected"),
    [("1", "35", True), ("1", "35+", True), ("1", "34", False), ("2", "0", True), ("", "", False)],
)
def test_which_servers_promise_ordered_versions(major: str, minor: str, expected: bool) -> None:
    assert versions.comparable(major, minor) is expected


def test_at_least() -> None:
    assert versions.at_least("10", "9", ordered=True)
    assert not versions.at_least("9", "10", ordered=True)
    assert not versions.at_least("10", "9", ordered=False)
    assert versions.at_least("x", "x", ordered=False)
    assert not versions.at_least("x", "9", ordered=True)
    assert not versions.at_least("", "", ordered=True)
