"""Every interval of the runtime in one place, so that tests can shrink all of them together."""

from __future__ import annotations

import dataclasses
from typing import Self

_SERVER_PACED = frozenset({"inactivity", "watch_shortest", "watch_longest"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Timing:
    """Intervals in seconds. The defaults are client-go's and controller-runtime's where they exist.

    Invariant: ``write < lease - renew_deadline``, else a write sent by a leader that is about to
    lose its lease could still arrive after its successor has begun.
    """

    #: A lease not renewed for this long may be taken by somebody else.
    lease: float = 15.0
    #: A leader that could not renew for this long gives up.
    renew_deadline: float = 10.0
    #: Between two attempts to get or renew a lease.
    lease_retry: float = 2.0
    #: Between two signs of life of the main loop.
    heartbeat: float = 0.5
    #: A main loop silent for longer does not get its lease renewed.
    heartbeat_limit: float = 5.0
    #: Deadline of one write.
    write: float = 4.0

    #: First and longest delay of a failing key.
    retry_first: float = 0.005
    retry_longest: float = 1000.0
    #: Deadline of one reconcile.
    reconcile: float = 60.0
    #: How long an aggregating unit waits for more of the same.
    debounce: float = 0.1

    #: First and longest delay after a failed list or watch, and the health that resets it.
    watch_retry_first: float = 0.8
    watch_retry_longest: float = 30.0
    watch_healthy: float = 120.0
    #: How long the server is asked to keep a watch: random between the two.
    watch_shortest: float = 300.0
    watch_longest: float = 600.0
    #: Silence after which a watch counts as dead; bookmarks come about every 60 s.
    inactivity: float = 70.0
    #: Deadline for all caches to fill at start.
    sync: float = 120.0

    #: How long running work may finish after a stop.
    grace: float = 30.0
    #: How long a webhook keeps serving after a stop: API servers use open connections on.
    drain: float = 8.0
    #: Between two looks at certificate files.
    certificate_poll: float = 10.0

    #: Repetitions of an event within this time are counted, not written anew.
    event_window: float = 600.0
    #: Between two writes of a growing count.
    event_flush: float = 30.0
    #: One more event per object is allowed each time this has passed (after a burst of 25).
    event_refill: float = 300.0
    #: Between two writes of events, whatever they are about (after a burst of 25).
    event_pace: float = 0.1

    def __post_init__(self) -> None:
        if not self.write < self.lease - self.renew_deadline:
            raise ValueError("Timing: write must be shorter than lease - renew_deadline")
        if not self.lease_retry < self.renew_deadline < self.lease:
            raise ValueError("Timing: lease_retry < renew_deadline < lease must hold")

    def scaled(self, factor: float) -> Self:
        """Return the same intervals multiplied by `factor`, but for those the server sets.

        Bookmarks come every minute however much in a hurry we are.
        """
        values = {
            field.name: getattr(self, field.name) * factor
            for field in dataclasses.fields(self)
            if field.name not in _SERVER_PACED
        }
        return dataclasses.replace(self, **values)
