"""Every change of a kind in order, with honest gaps: for ledgers rather than for controllers.

A cache tells what is; a journal tells what happened. The differences to an informer's events:

* an object of the same name with another uid is a deletion and an addition;
* where a list had to bridge lost history a `Gap` says so, before the differences that it found;
* entries are kept until they are committed together with what the reader made of them. The
  checkpoint of a batch is stored in the same transaction as its rows, and given to
  `informer.Informer.restore` after a restart: nothing is counted twice, nothing is left out.

Times are those in the objects. When a journal is full its oldest entries are given up and the place
is marked by a gap, too: a reader that is down for long must not take the memory of the process.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
from collections.abc import Callable
from typing import Generic, Literal, TypeVar

from tenantry.runtime import informer, store

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """One change of one object; `value` is its state afterwards, of a deleted one the last."""

    type: Literal["added", "modified", "deleted"]
    key: store.Key
    uid: str
    value: T
    resource_version: str


@dataclasses.dataclass(frozen=True, slots=True)
class Gap:
    """What happened after this version is unknown; entries that follow are differences to it."""

    since: str


Item = Entry[T] | Gap


@dataclasses.dataclass(frozen=True, slots=True)
class Batch(Generic[T]):
    """Some entries in order, and the version that everything up to their end is contained in.

    The checkpoint is "" while there is more, and inside a list, which has no order: such a batch
    belongs together with the ones after it, until one has a checkpoint.
    """

    items: tuple[Item[T], ...]
    checkpoint: str
    #: Number of the last item, for `Journal.commit`.
    end: int


class Journal(Generic[T]):
    """The changes of one informer from now on; what it holds already comes first."""

    def __init__(self, source: informer.Informer[T], *, limit: int = 100_000) -> None:
        self._source = source
        self._limit = limit
        self._items: collections.deque[Item[T]] = collections.deque()
        self._begin = 0  # number of the first item held
        self._given = 0  # number after the last one handed out
        self._some = asyncio.Event()
        self._cancel: list[Callable[[], None]] = [
            source.subscribe(self._note),
            source.on_gap(self._gap),
        ]

    def __len__(self) -> int:
        return len(self._items)

    def close(self) -> None:
        """Note nothing more."""
        for cancel in self._cancel:
            cancel()

    async def batch(self, most: int = 1000, *, timeout: float | None = None) -> Batch[T]:
        """Wait for entries after those of the last batch; empty at the deadline in seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._some.wait()
        start = self._given - self._begin
        items = tuple(self._items[start + n] for n in range(min(most, len(self._items) - start)))
        self._given += len(items)
        rest = self._begin + len(self._items) - self._given
        if not rest:
            self._some.clear()
        # Only with nothing left is it known what the entries add up to: the cache.
        checkpoint = self._source.resource_version if not rest else ""
        return Batch(items, checkpoint, self._given)

    def commit(self, batch: Batch[T]) -> None:
        """Forget entries that are stored now."""
        while self._begin < batch.end and self._items:
            self._items.popleft()
            self._begin += 1

    def rewind(self) -> None:
        """Hand out again what was not committed: after a transaction that failed."""
        self._given = self._begin
        if self._items:
            self._some.set()

    def _note(self, event: store.Event[T]) -> None:
        value = event.final if event.final is not None else event.value
        self._put(Entry(event.type, event.key, event.uid, value, event.resource_version))

    def _gap(self, since: str) -> None:
        self._put(Gap(since))

    def _put(self, item: Item[T]) -> None:
        self._items.append(item)
        self._some.set()
        if len(self._items) <= self._limit:
            return
        # Half goes at once, so that a journal that stays full is not all gaps.
        last = ""
        for _ in range(self._limit // 2):
            dropped = self._items.popleft()
            last = dropped.since if isinstance(dropped, Gap) else dropped.resource_version
        self._begin += self._limit // 2 - 1
        self._given = max(self._given, self._begin)
        self._items.appendleft(Gap(last))
