"""Divide an amount of one resource among sibling queues.

First quota, then the rest by weight and history within each priority, whole units only; what is
left of a unit goes by the largest remainder. The whole-unit rule makes shares of GPUs integral.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tenantry.scheduler.engine import queues as trees

Amount = trees.Amount


def divide(
    siblings: Sequence[trees.Queue], r: int, total: Amount, *, k: float, unit: int = 1
) -> Amount:
    """Set the fair share of resource `r` of each queue; return what nobody took.

    :param k: strength of history; 0 ignores it
    :param unit: the amount that is not split by weight
    """
    remaining = by_quota(siblings, r, total)
    return by_weight(siblings, r, remaining, k=k, unit=unit) if remaining > 0 else 0


def by_quota(siblings: Sequence[trees.Queue], r: int, total: Amount) -> Amount:
    """Grant each queue its quota as far as it asks for it, however little there is."""
    remaining = total
    for queue in siblings:
        quota = total if queue.quota[r] == trees.UNLIMITED else queue.quota[r]
        queue.fair[r] = min(quota, requestable(queue, r))
        remaining -= queue.fair[r]
    return remaining


def by_weight(
    siblings: Sequence[trees.Queue], r: int, remaining: Amount, *, k: float, unit: int = 1
) -> Amount:
    """Share out what quota left over, higher priorities first."""
    tiers: dict[int, list[trees.Queue]] = {}
    for queue in siblings:
        tiers.setdefault(queue.priority, []).append(queue)
    ordered = [tiers[priority] for priority in sorted(tiers, reverse=True)]
    remainders: list[dict[int, tuple[float, trees.Queue]]] = []
    for tier in ordered:
        left: dict[int, tuple[float, trees.Queue]] = {}
        remaining = _by_weight_in_tier(tier, r, remaining, left, k=k, unit=unit)
        remainders.append(left)
    for left in remainders:
        if remaining <= 0:
            break
        for _, queue in sorted(left.values(), key=_by_remainder):
            if remaining <= 0:
                break
            grant = min(unit, remaining)
            queue.fair[r] += grant
            remaining -= grant
    return remaining


def requestable(queue: trees.Queue, r: int) -> Amount:
    """Return what a queue asks for, no more than its limit."""
    limit = queue.limit[r]
    return queue.request[r] if limit == trees.UNLIMITED else min(limit, queue.request[r])


def _by_remainder(entry: tuple[float, trees.Queue]) -> tuple[float, float, str]:
    remainder, queue = entry
    return -remainder, queue.created, queue.uid


def _by_weight_in_tier(
    tier: Sequence[trees.Queue],
    r: int,
    remaining: Amount,
    remainders: dict[int, tuple[float, trees.Queue]],
    *,
    k: float,
    unit: int,
) -> Amount:
    again = True
    while again and remaining > 0:
        again = False
        weights = sum(q.weight[r] for q in tier if requestable(q, r) > q.fair[r])
        if weights == 0:
            break
        hungry = [q for q in tier if _unsatisfied(q, r)]
        pulls = [_pull(q.weight[r] / weights, q.usage[r], k) for q in hungry]
        whole = sum(pulls)
        if whole == 0:
            break
        amount = remaining
        for queue, pull in zip(hungry, pulls, strict=True):
            if queue.weight[r] <= 0:
                continue
            offer = amount * (pull / whole)
            want = requestable(queue, r) - queue.fair[r]
            if want <= offer:
                if want < offer:
                    again = True
                grant = want
                remainders.pop(id(queue), None)
            else:
                grant = math.floor(offer / unit) * unit
                if offer > grant:
                    remainders[id(queue)] = (offer - grant, queue)
            queue.fair[r] += grant
            remaining -= grant
    return remaining


def _unsatisfied(queue: trees.Queue, r: int) -> bool:
    limit, fair = queue.limit[r], queue.fair[r]
    return queue.request[r] > fair and not (limit != trees.UNLIMITED and limit <= fair)


def _pull(normal: float, usage: float, k: float) -> float:
    return max(0.0, normal + k * (normal - usage))
