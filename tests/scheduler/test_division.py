"""Fair shares worked by hand."""

from __future__ import annotations

from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from tenantry.scheduler.engine import division, queues

GPU = 2


def queue(
    name: str,
    quota: float,
    request: float,
    *,
    limit: float = -1,
    weight: float = 1,
    priority: int = 100,
    usage: float = 0,
    created: float = 0,
) -> queues.Queue:
    made = queues.Queue(name)
    made.quota[GPU], made.request[GPU], made.limit[GPU] = quota, request, limit
    made.weight[GPU], made.priority, made.usage[GPU] = weight, priority, usage
    made.created = created
    return made


TABLE = [
    # Over quota by weight: 10 - (2 + 2) = 6, split 1:2 -> 2 and 4.
    ([("a", 2, 20, {}), ("b", 2, 20, {"weight": 2})], 10, 0, {"a": 4, "b": 6}),
    # A queue gets no more than it asks for; the rest goes on to the others.
    ([("a", 0, 1, {}), ("b", 0, 20, {})], 10, 0, {"a": 1, "b": 9}),
    # The limit counts as the request.
    ([("a", 4, 20, {"limit": 5}), ("b", 0, 20, {})], 10, 0, {"a": 5, "b": 5}),
    # Quotas are granted in full even when there is less.
    ([("a", 8, 8, {}), ("b", 8, 8, {})], 10, 0, {"a": 8, "b": 8}),
    # Unlimited quota: all that is asked for.
    ([("a", -1, 7, {}), ("b", 0, 9, {})], 10, 0, {"a": 7, "b": 3}),
    # A higher priority is served before lower ones see anything beyond quota.
    ([("a", 0, 20, {"priority": 200}), ("b", 1, 20, {})], 10, 0, {"a": 9, "b": 1}),
    # Weight 0 borrows nothing.
    ([("a", 1, 20, {"weight": 0}), ("b", 1, 3, {})], 10, 0, {"a": 1, "b": 3}),
    # 10 over 3: 3 each, one left, to the oldest.
    (
        [("a", 0, 20, {"created": 2}), ("b", 0, 20, {"created": 1}), ("c", 0, 20, {"created": 3})],
        10,
        0,
        {"a": 3, "b": 4, "c": 3},
    ),
    # History: normal shares 1/2 each, a used 1/2 already; k = 1 -> pulls 1/2 and 1.
    ([("a", 0, 20, {"usage": 0.5}), ("b", 0, 20, {})], 9, 1, {"a": 3, "b": 6}),
    # k = 0 ignores history.
    ([("a", 0, 20, {"usage": 0.5}), ("b", 0, 20, {})], 10, 0, {"a": 5, "b": 5}),
]


@pytest.mark.parametrize(("given", "total", "k", "wanted"), TABLE)
def test_by_hand(
    given: list[tuple[str, float, float, dict[str, Any]]],
    total: float,
    k: float,
    wanted: dict[str, float],
) -> None:
    siblings = [queue(name, quota, request, **more) for name, quota, request, more in given]
    division.divide(siblings, GPU, total, k=k)
    assert {made.name: made.fair[GPU] for made in siblings} == wanted


def test_fractions_of_a_gpu_in_milli_units() -> None:
    """The worked example of the specification: quotas of 0.33 under a parent of 1."""
    siblings = [queue("nlp", 330, 990), queue("vision", 330, 330), queue("recommender", 330, 0)]
    left = division.divide(siblings, GPU, 1000, k=1, unit=1000)
    assert [made.fair[GPU] for made in siblings] == [670, 330, 0]
    assert left == 0


queue_strategy = st.builds(
    queue,
    st.text("abcdef", min_size=1, max_size=3),
    st.integers(-1, 20).map(float),
    st.integers(0, 40).map(float),
    limit=st.integers(-1, 30).map(float),
    weight=st.integers(0, 5).map(float),
    priority=st.sampled_from([100, 200]),
    usage=st.floats(0, 1),
)


@hypothesis.given(
    st.lists(queue_strategy, min_size=1, max_size=6), st.integers(0, 60), st.sampled_from([0, 1, 2])
)
def test_never_more_than_there_is_beyond_quota(
    siblings: list[queues.Queue], total: int, k: float
) -> None:
    quotas = division.by_quota(siblings, GPU, total)
    granted = sum(made.fair[GPU] for made in siblings)
    left = division.divide(siblings, GPU, total, k=k)
    shared = sum(made.fair[GPU] for made in siblings)
    assert left >= 0
    assert shared <= max(total, granted)
    assert shared + left == pytest.approx(max(total, granted))
    assert quotas == total - granted
    for made in siblings:
        assert made.fair[GPU] < division.requestable(made, GPU) + 1
