"""Historical usage of queues: who had how much of the cluster, the recent counting more.

    usage = sum(allocated(t) * decay(t)) / sum(capacity(t) * decay(t)),  decay = 0.5 ** (age / half)

over a window that slides, tumbles (starts anew at fixed intervals) or starts at the times of a
list, such as a cron schedule evaluated by the caller.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterable, Sequence

WEEK = 7 * 86_400.0


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """What each queue held, and what there was, from `time` until the next sample."""

    time: float
    capacity: float
    allocated: dict[str, float]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Which past counts.

    :param length: seconds; for `starts` the longest look back
    :param anchor: a start of a tumbling window; None slides
    :param starts: times at which a window starts, ascending, for schedules of any kind
    """

    length: float = WEEK
    anchor: float | None = None
    starts: Sequence[float] = ()

    def begin(self, now: float) -> float:
        """Return where the window that contains `now` begins."""
        if self.starts:
            index = bisect.bisect_right(self.starts, now) - 1
            return self.starts[index] if index >= 0 else now - self.length
        if self.anchor is None or self.length <= 0:
            return now - self.length
        return self.anchor + (now - self.anchor) // self.length * self.length


def of_queues(
    samples: Iterable[Sample], window: Window, *, now: float, half_life: float | None = None
) -> dict[str, float]:
    """Return the usage of each queue as a part of the cluster's capacity.

    :param half_life: seconds after which the past counts half; None or 0 counts all alike
    """
    begin = window.begin(now)
    ordered = sorted(samples, key=lambda sample: sample.time)
    held: dict[str, float] = {}
    whole = 0.0
    for index, sample in enumerate(ordered):
        start = max(sample.time, begin)
        end = min(ordered[index + 1].time if index + 1 < len(ordered) else now, now)
        if end <= start:
            continue
        weight = _weight(start, end, now, half_life)
        whole += sample.capacity * weight
        for queue, amount in sample.allocated.items():
            held[queue] = held.get(queue, 0.0) + amount * weight
    if whole <= 0:
        return dict.fromkeys(held, 0.0)
    return {queue: amount / whole for queue, amount in held.items()}


def _weight(start: float, end: float, now: float, half_life: float | None) -> float:
    """Integrate the decay over a piece of time, so that the sampling rate does not matter."""
    if not half_life or half_life <= 0:
        return end - start
    newest: float = 0.5 ** ((now - end) / half_life)
    oldest: float = 0.5 ** ((now - start) / half_life)
    return newest - oldest
