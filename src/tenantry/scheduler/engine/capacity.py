"""Check a job against the limits and quotas on its queue's path to the root."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tenantry.scheduler.engine import queues as trees

OVER_LIMIT = "OverLimit"
OVER_QUOTA = "NonPreemptibleOverQuota"


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """The first bound that a request does not keep."""

    reason: str
    queue: trees.Queue
    resource: int
    requested: trees.Amount
    bound: trees.Amount
    allocated: trees.Amount


def within_limit(queue: trees.Queue, request: Sequence[trees.Amount]) -> Refusal | None:
    """Return the first limit, leaf upwards, that the request would pass."""
    for level in queue.path():
        for r, amount in enumerate(request):
            bound = level.limit[r]
            if amount and bound != trees.UNLIMITED and bound < level.allocated[r] + amount:
                return Refusal(OVER_LIMIT, level, r, amount, bound, level.allocated[r])
    return None


def within_quota(queue: trees.Queue, request: Sequence[trees.Amount]) -> Refusal | None:
    """Return the first quota that a non-preemptible request would pass."""
    for level in queue.path():
        for r, amount in enumerate(request):
            bound = level.quota[r]
            if amount and bound != trees.UNLIMITED and bound < level.allocated_fixed[r] + amount:
                return Refusal(OVER_QUOTA, level, r, amount, bound, level.allocated_fixed[r])
    return None


def check(
    queue: trees.Queue, request: Sequence[trees.Amount], *, preemptible: bool
) -> Refusal | None:
    """Return why the request may not run: limits of the whole path first, then quotas."""
    refusal = within_limit(queue, request)
    if refusal is None and not preemptible:
        refusal = within_quota(queue, request)
    return refusal
