"""A queue of keys: each at most once, never with two workers, never lost.

Keys are deduplicated, so the length is bounded by the number of objects and needs no other limit;
dropping a key would break the promise. A key added while a worker has it is queued once more when
that worker is done. Lanes with a higher priority are served first, within a lane first come first
served, or each group in turn (`lanes`). `Queue` is the machine: it is told the time. `WorkQueue` is
its asyncio shell.
"""

from __future__ import annotations

import asyncio
import collections
import heapq
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from tenantry.runtime import backoff, errors, lanes

K = TypeVar("K", bound=Hashable)

#: Priority of what a first list brings: changes made by people overtake it.
LOW = -100
NORMAL = 0


class Queue(Generic[K]):
    """The machine. A key is waiting, delayed, with a worker, or with a worker and dirty.

    Invariants: `_waiting` and `_working` are disjoint; `_dirty` is part of `_working`; a key in
    `_delayed` is not in `_waiting` (it may be in `_working`).
    """

    def __init__(
        self,
        *,
        first: float = 0.005,
        longest: float = 1000.0,
        group: Callable[[K], Hashable] | None = None,
        share: int | None = None,
    ) -> None:
        self._first = first
        self._longest = longest
        if share is not None and group is None:
            raise ValueError("share: needs a group that it is the share of")
        self._shares = lanes.Shares(group, share) if group is not None else None
        self._lanes: dict[int, lanes.Order[K]] = {}
        self._order: list[int] = []  # priorities of `_lanes`, highest first
        self._waiting: dict[K, int] = {}
        self._working: set[K] = set()
        self._dirty: dict[K, int] = {}
        self._delayed: dict[K, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, K]] = []  # entries not matching `_delayed` are void
        self._sequence = 0
        self._failures: dict[K, int] = {}
        #: How long the key returned by the last `get` had waited.
        self.waited = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        """Whether nothing waits, is delayed or is being worked on."""
        return not (self._waiting or self._working or self._delayed)

    def add(self, key: K, now: float, priority: int = NORMAL) -> None:
        """Queue a key; a higher priority moves one that already waits to the end of that lane."""
        delayed = self._delayed.pop(key, None)
        if delayed is not None:
            priority = max(priority, delayed[1])
        self._put(key, now, priority)

    def add_after(self, key: K, delay: float, now: float, priority: int = NORMAL) -> None:
        """Queue a key after `delay` seconds, or earlier when that was already asked for."""
        if delay <= 0:
            self.add(key, now, priority)
            return
        if key in self._waiting or key in self._dirty:
            # It is served sooner than asked; only the priority may matter.
            self._put(key, now, priority)
            return
        when = now + delay
        known = self._delayed.get(key)
        if known is not None:
            priority = max(priority, known[1])
            if known[0] <= when:
                self._delayed[key] = (known[0], priority)
                return
        self._delayed[key] = (when, priority)
        self._sequence += 1
        heapq.heappush(self._heap, (when, self._sequence, key))
        if len(self._heap) > 2 * len(self._delayed) + 64:
            self._rebuild()

    def add_rate_limited(self, key: K, now: float, priority: int = NORMAL) -> float:
        """Queue a failed key after its own growing delay, which is returned."""
        failures = self._failures.get(key, 0) + 1
        self._failures[key] = failures
        delay = backoff.exponential(failures, first=self._first, longest=self._longest)
        self.add_after(key, delay, now, priority)
        return delay

    def forget(self, key: K) -> None:
        """Reset the growing delay of a key that succeeded."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Return how often in a row a key has failed."""
        return self._failures.get(key, 0)

    def get(self, now: float) -> K | None:
        """Hand out the next key; the caller owes a `done`."""
        self.promote(now)
        for priority in self._order:
            taken = self._lanes[priority].take()
            if taken is not None:
                key, since = taken
                del self._waiting[key]
                self._working.add(key)
                if self._shares is not None:
                    self._shares.began(key)
                self.waited = max(0.0, now - since)
                return key
        return None

    def done(self, key: K, now: float) -> None:
        """Take a key back from its worker and queue it again when it was added meanwhile."""
        if key not in self._working:
            raise ValueError(f"{key!r} is with no worker")
        self._working.remove(key)
        if self._shares is not None:
            self._shares.ended(key)
        priority = self._dirty.pop(key, None)
        if priority is not None:
            self._put(key, now, priority)

    def next_deadline(self) -> float | None:
        """Return when the earliest delayed key becomes due."""
        while self._heap:
            when, _, key = self._heap[0]
            known = self._delayed.get(key)
            if known is not None and known[0] == when:
                return when
            heapq.heappop(self._heap)
        return None

    def promote(self, now: float) -> None:
        """Let delayed keys wait for a worker once they are due; `get` does it, too."""
        while (when := self.next_deadline()) is not None and when <= now:
            _, _, key = heapq.heappop(self._heap)
            _, priority = self._delayed.pop(key)
            self._put(key, now, priority)

    def _put(self, key: K, now: float, priority: int) -> None:
        if key in self._working:
            self._dirty[key] = max(priority, self._dirty.get(key, priority))
            return
        present = self._waiting.get(key)
        since = now
        if present is not None:
            if present >= priority:
                return
            since = self._lanes[present].remove(key)
        lane = self._lanes.get(priority)
        if lane is None:
            lane = lanes.FairLane(self._shares) if self._shares is not None else lanes.Lane()
            self._lanes[priority] = lane
            self._order = sorted(self._lanes, reverse=True)
        lane.add(key, since)
        self._waiting[key] = priority

    def _rebuild(self) -> None:
        # Keys that are added and delayed over and over leave void entries behind.
        self._heap = [
            entry
            for entry in self._heap
            if (known := self._delayed.get(entry[2])) is not None and known[0] == entry[0]
        ]
        heapq.heapify(self._heap)


class WorkQueue(Generic[K]):
    """The shell: workers wait in `get`. Belongs to one event loop and is not thread safe.

    :param group: whom a key belongs to: within a priority the groups take turns
    :param share: how many keys of one group may be with workers at a time
    """

    def __init__(
        self,
        *,
        first: float = 0.005,
        longest: float = 1000.0,
        group: Callable[[K], Hashable] | None = None,
        share: int | None = None,
    ) -> None:
        self._queue: Queue[K] = Queue(first=first, longest=longest, group=group, share=share)
        self._waiters: collections.deque[asyncio.Future[None]] = collections.deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_deadline = 0.0
        self._closed = False
        self._clock: Callable[[], float] | None = None
        self.adds = 0
        self.retries = 0

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def waited(self) -> float:
        """How long the key handed out last had waited."""
        return self._queue.waited

    @property
    def idle(self) -> bool:
        """Whether nothing waits, is delayed or is being worked on."""
        return self._queue.idle

    def add(self, key: K, priority: int = NORMAL) -> None:
        """Queue a key."""
        self.adds += 1
        self._queue.add(key, self._now(), priority)
        self._wake()

    def add_after(self, key: K, delay: float, priority: int = NORMAL) -> None:
        """Queue a key after a delay."""
        self.adds += 1
        self._queue.add_after(key, delay, self._now(), priority)
        self._wake()

    def add_rate_limited(self, key: K, priority: int = NORMAL) -> float:
        """Queue a failed key after its growing delay, which is returned."""
        self.retries += 1
        delay = self._queue.add_rate_limited(key, self._now(), priority)
        self._wake()
        return delay

    def forget(self, key: K) -> None:
        """Reset the growing delay of a key."""
        self._queue.forget(key)

    def failures(self, key: K) -> int:
        """Return how often in a row a key has failed."""
        return self._queue.failures(key)

    async def get(self) -> K:
        """Wait for a key.

        :raises ClosedError: when the queue was closed
        """
        while True:
            if self._closed:
                raise errors.ClosedError("work queue is closed")
            key = self._queue.get(self._now())
            if key is not None:
                # Others may be waiting for the next key, or for one that is not due yet.
                self._wake()
                return key
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            self._arm()
            try:
                await waiter
            except asyncio.CancelledError:
                # A wake-up that this waiter got and cannot use belongs to the next one.
                if waiter.done() and not waiter.cancelled():
                    self._wake()
                raise

    def done(self, key: K) -> None:
        """Take a key back from its worker."""
        self._queue.done(key, self._now())
        self._wake()

    def close(self) -> None:
        """Hand out nothing more; what waits stays undone."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def _now(self) -> float:
        if self._clock is None:
            self._clock = asyncio.get_running_loop().time
        return self._clock()

    def _wake(self) -> None:
        if len(self._queue):
            while self._waiters:
                waiter = self._waiters.popleft()
                if not waiter.done():
                    waiter.set_result(None)
                    return
        elif self._waiters:
            self._arm()

    def _arm(self) -> None:
        deadline = self._queue.next_deadline()
        if deadline is None or self._closed:
            return
        if self._timer is not None:
            # Kept here, since uvloop's handle of something due at once has no `when()`.
            if self._timer_deadline <= deadline:
                return
            self._timer.cancel()
        self._timer_deadline = deadline
        self._timer = asyncio.get_running_loop().call_at(deadline, self._due, deadline)

    def _due(self, deadline: float) -> None:
        self._timer = None
        # A loop may call a little early; by its own clock the key would not be due yet, and it
        # would be called again at once.
        self._queue.promote(max(deadline, self._now()))
        # Waking one worker is enough: it wakes the next.
        self._wake()
