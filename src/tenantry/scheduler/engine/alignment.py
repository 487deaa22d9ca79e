"""Fit requests into NUMA zones as the kubelet's topology manager would.

`single-numa-node`: the lowest zone that holds everything. `restricted`: every resource must need
the same number of zones; then the first set of that many zones with enough room. `best-effort`:
greedily the zone that covers most of what is missing; never a refusal.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

Amounts = Mapping[str, int]
Placement = list[tuple[int, dict[str, int]]]
SINGLE, RESTRICTED, BEST_EFFORT = "single-numa-node", "restricted", "best-effort"


def fit(
    policy: str, total: Sequence[Amounts], room: Sequence[Amounts], request: Amounts
) -> Placement | None:
    """Return what is taken from which zone; None when the policy refuses the node."""
    known = {name for zone in total for name in zone}
    wanted = {name: amount for name, amount in request.items() if amount and name in known}
    if not wanted:
        return []
    if policy == SINGLE:
        for zone, free in enumerate(room):
            if all(free.get(name, 0) >= amount for name, amount in wanted.items()):
                return [(zone, wanted)]
        return None
    if policy == RESTRICTED:
        return _restricted(total, room, wanted)
    if policy == BEST_EFFORT:
        return _draw(_greedy(room, wanted), room, wanted)
    return _draw(range(len(room)), room, wanted)


def width(policy: str, zones: int, placement: Placement) -> int:
    """Return how many zones the task spans, for scoring."""
    if policy in (SINGLE, RESTRICTED, BEST_EFFORT):
        return max(len({zone for zone, _ in placement}), 1)
    return max(zones, 1)


def _restricted(
    total: Sequence[Amounts], room: Sequence[Amounts], wanted: Amounts
) -> Placement | None:
    widths = set()
    for name, amount in wanted.items():
        sizes = sorted((zone.get(name, 0) for zone in total), reverse=True)
        sums = list(itertools.accumulate(sizes))
        enough = [number + 1 for number, held in enumerate(sums) if held >= amount]
        if not enough:
            return None
        widths.add(enough[0])
    if len(widths) != 1:
        return None
    for zones in itertools.combinations(range(len(room)), widths.pop()):
        if all(
            sum(room[zone].get(name, 0) for zone in zones) >= amount
            for name, amount in wanted.items()
        ):
            return _draw(zones, room, wanted)
    return None


def _greedy(room: Sequence[Amounts], wanted: Amounts) -> list[int]:
    missing, chosen = dict(wanted), []
    left = list(range(len(room)))

    def cover(zone: int) -> float:
        return sum(
            min(room[zone].get(name, 0), amount) / amount for name, amount in missing.items()
        )

    while missing and left:
        best = max(left, key=lambda zone: (cover(zone), -zone))
        if cover(best) <= 0:
            break
        left.remove(best)
        chosen.append(best)
        missing = {
            name: amount - room[best].get(name, 0)
            for name, amount in missing.items()
            if amount > room[best].get(name, 0)
        }
    return sorted(chosen)


def _draw(zones: Sequence[int], room: Sequence[Amounts], wanted: Amounts) -> Placement:
    """Take from the lowest zone first."""
    missing = dict(wanted)
    placement: Placement = []
    for zone in zones:
        taken = {
            name: min(amount, room[zone].get(name, 0))
            for name, amount in missing.items()
            if amount > 0 and room[zone].get(name, 0) > 0
        }
        if taken:
            placement.append((zone, taken))
            for name, amount in taken.items():
                missing[name] -= amount
    return placement
