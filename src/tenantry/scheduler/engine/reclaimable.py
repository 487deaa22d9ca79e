"""Decide whether a queue may take resources back, from whom, and whether a victim set is legal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tenantry.scheduler.engine import queues as trees

Vector = trees.Vector
INFINITE = float("inf")


def can_reclaim(queue: trees.Queue, request: Sequence[trees.Amount], *, preemptible: bool) -> bool:
    """Tell whether a job may start looking for victims: its queue stays within its fair share."""
    if any(trees.over(queue.allocated[r] + request[r], queue.fair[r]) for r in trees.FAIR):
        return False
    return preemptible or not trees.exceeds_any(
        trees.plus(queue.allocated_fixed, request), queue.quota
    )


def may_be_victim(
    reclaimer: trees.Queue, request: Sequence[trees.Amount], victim: trees.Queue
) -> bool:
    """Tell whether workloads of `victim` are candidates at all."""
    ours, theirs = trees.levelled(reclaimer, victim)
    if trees.exceeds_any(trees.plus(ours.allocated, request), ours.quota):
        return trees.exceeds_any(theirs.allocated, theirs.share)
    bounded = [r for r in trees.FAIR if request[r] > 0 and theirs.quota[r] != trees.UNLIMITED]
    above = [theirs.allocated[r] > theirs.quota[r] for r in bounded]
    below = [theirs.allocated[r] < theirs.quota[r] for r in bounded]
    return any(above) or not any(below)


def legal(
    reclaimer: trees.Queue,
    request: Sequence[trees.Amount],
    victims: Iterable[tuple[trees.Queue, Sequence[Vector]]],
    *,
    preemptible: bool,
    multiplier: float = 1.0,
) -> bool:
    """Tell whether taking these victims, chunk after chunk, keeps everybody's due."""
    left: dict[int, Vector] = {}
    queue_of: dict[int, trees.Queue] = {}
    involved = {r for r in trees.FAIR if request[r] > 0}
    for victim_queue, chunks in victims:
        ours, theirs = trees.levelled(reclaimer, victim_queue)
        key = id(theirs)
        guaranteed = not trees.exceeds_any(trees.plus(ours.allocated, request), ours.quota)
        for chunk in chunks:
            remainder = left.get(key, theirs.allocated)
            if not trees.exceeds_any(remainder, theirs.share) and not (
                guaranteed and trees.exceeds_any(remainder, theirs.quota)
            ):
                return False
            involved.update(r for r in trees.FAIR if chunk[r] > 0)
            for level in victim_queue.path():
                held = left.get(id(level))
                if held is None:
                    held = left[id(level)] = list(level.allocated)
                    queue_of[id(level)] = level
                for r, amount in enumerate(chunk):
                    held[r] -= amount
    return _balanced(
        reclaimer,
        request,
        left,
        queue_of,
        involved,
        preemptible=preemptible,
        multiplier=multiplier,
    )


def _balanced(
    reclaimer: trees.Queue,
    request: Sequence[trees.Amount],
    left: Mapping[int, Vector],
    queue_of: Mapping[int, trees.Queue],
    involved: Iterable[int],
    *,
    preemptible: bool,
    multiplier: float,
) -> bool:
    resources = sorted(involved)
    for level in reclaimer.path():
        held = trees.plus(left.get(id(level), level.allocated), request)
        for key, remainder in left.items():
            sibling = queue_of[key]
            if sibling is level or sibling.parent is not level.parent:
                continue
            for r in resources:
                if not _saturation_kept(
                    (held[r], level.fair[r]), (remainder[r], sibling.fair[r]), multiplier
                ):
                    return False
        if not preemptible and trees.exceeds_any(
            trees.plus(level.allocated_fixed, request), level.quota
        ):
            return False
    return True


def _saturation_kept(
    ours: tuple[trees.Amount, trees.Amount],
    theirs: tuple[trees.Amount, trees.Amount],
    multiplier: float,
) -> bool:
    if ours[1] == trees.UNLIMITED and theirs[1] == trees.UNLIMITED:
        return True
    ratio = _ratio(*ours)
    return not (ratio > 1 and theirs[1] > 0 and ratio * multiplier >= _ratio(*theirs))


def _ratio(amount: trees.Amount, fair: trees.Amount) -> float:
    if fair == trees.UNLIMITED:
        return 0.0
    if fair == 0:
        return INFINITE if amount > 0 else 0.0
    return amount / fair
