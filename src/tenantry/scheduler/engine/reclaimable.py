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
    """Tell whether taking these victims, chunk after chunk, keeps everybody's due.

    A queue must be over its due before each of its chunks. What is left of it only shrinks, so the
    last chunk of each levelled queue decides.
    """
    taken: dict[int, tuple[trees.Queue, Vector]] = {}
    #: By levelled queue.
    last: dict[int, tuple[trees.Queue, trees.Queue, Sequence[trees.Amount]]] = {}
    for victim_queue, chunks in victims:
        if not chunks:
            continue
        ours, theirs = trees.levelled(reclaimer, victim_queue)
        known = taken.get(id(victim_queue))
        total = [sum(amounts) for amounts in zip(*chunks, strict=True)]
        if known is not None:
            total = trees.plus(known[1], total)
        taken[id(victim_queue)] = victim_queue, total
        last[id(theirs)] = ours, theirs, chunks[-1]
    left: dict[int, Vector] = {}
    queue_of: dict[int, trees.Queue] = {}
    involved = {r for r in trees.FAIR if request[r] > 0}
    for victim_queue, total in taken.values():
        involved.update(r for r in trees.FAIR if total[r] > 0)
        for level in victim_queue.path():
            held = left.get(id(level), level.allocated)
            left[id(level)] = [a - b for a, b in zip(held, total, strict=True)]
            queue_of[id(level)] = level
    for ours, theirs, chunk in last.values():
        remainder = trees.plus(left[id(theirs)], chunk)
        guaranteed = not trees.exceeds_any(trees.plus(ours.allocated, request), ours.quota)
        if not trees.exceeds_any(remainder, theirs.share) and not (
            guaranteed and trees.exceeds_any(remainder, theirs.quota)
        ):
            return False
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
