"""How a cache follows the API server: list, watch, and what to do when either fails.

A machine without I/O. `step` is told what happened and answers with what to do; at most one request
is under way at any time, and `deadline` is when the next `Tick` is due. The rules:

* The first choice is a streaming list (WatchList); a server that refuses or does not finish it is
  listed in pages for as long as the process lives.
* Objects go to the store as they come; what a list did not show is removed at its end. A relist is
  therefore a difference, and an interrupted one is harmless.
* A watch that ends is resumed from the last version seen in an object or bookmark, never from one
  in an error. "Gone" or a version older than ours (a restored etcd) means list again.
* Silence is death: bookmarks come every minute.
* After a failure the server is asked which version it is at before a watch is resumed. One whose
  etcd was restored accepts a watch from the future, and is silent until its time comes.
* Every failure waits, longer each time; two minutes of health forgive.
"""

from __future__ import annotations

import dataclasses
import enum
import random
from collections.abc import Callable
from typing import Literal

import msgspec

from tenantry.runtime import backoff, store, timing, versions


class Item(msgspec.Struct, frozen=True, gc=False):
    """One object as it came, with its identity."""

    key: store.Key
    uid: str
    resource_version: str
    raw: bytes


class Failure(enum.Enum):
    """Why a request did not succeed, as far as it matters here."""

    GONE = enum.auto()
    """The version asked for is no longer (or not yet) known: 410."""
    UNSUPPORTED = enum.auto()
    """The server does not do streaming lists: 400 or 422 to such a request."""
    OTHER = enum.auto()


# --- what happened


@dataclasses.dataclass(frozen=True, slots=True)
class Started:
    """Begin."""


@dataclasses.dataclass(frozen=True, slots=True)
class Listed:
    """A page came; `last` says that the list is complete."""

    items: list[Item]
    resource_version: str
    last: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Opened:
    """The watch was accepted."""


class Changed(msgspec.Struct, frozen=True, gc=False):
    """A line of the watch about one object."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    item: Item


class Bookmark(msgspec.Struct, frozen=True, gc=False):
    """A line of the watch that tells only a version; `end` closes the list part of a stream."""

    resource_version: str
    end: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """The watch ended in order, as watches do every few minutes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Failed:
    """The request failed, or an error came in the stream."""

    failure: Failure
    retry_after: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Tick:
    """The deadline has passed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Probed:
    """The server is at this version."""

    resource_version: str


Input = Started | Listed | Opened | Changed | Bookmark | Ended | Failed | Probed | Tick

# --- what to do


@dataclasses.dataclass(frozen=True, slots=True)
class List:
    """Ask for all pages."""


@dataclasses.dataclass(frozen=True, slots=True)
class Watch:
    """Open a watch; with `stream` it begins with the whole list."""

    resource_version: str
    timeout_seconds: int
    stream: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Probe:
    """Ask which version the server is at."""


@dataclasses.dataclass(frozen=True, slots=True)
class Cut:
    """Close the request under way."""


class Put(msgspec.Struct, frozen=True, gc=False):
    """Set an object in the store; `afresh` says that equal versions prove nothing."""

    item: Item
    initial: bool
    afresh: bool = False


class Remove(msgspec.Struct, frozen=True, gc=False):
    """Remove an object from the store."""

    item: Item


@dataclasses.dataclass(frozen=True, slots=True)
class Complete:
    """Remove what this list did not show; the store now equals the server at `resource_version`."""

    resource_version: str


Action = List | Watch | Probe | Cut | Put | Remove | Complete


class _State(enum.Enum):
    WAITING = enum.auto()  # for the deadline, then the next request
    PROBING = enum.auto()
    LISTING = enum.auto()
    OPENING = enum.auto()  # a watch was asked for
    STREAMING = enum.auto()  # inside the list part of a watch
    WATCHING = enum.auto()


_NEVER = float("inf")


class Reflector:
    """The machine; see the module's docstring."""

    def __init__(
        self,
        *,
        timing: timing.Timing,
        streaming: bool = True,
        resource_version: str = "",
        rng: Callable[[], float] = random.random,
    ) -> None:
        self._timing = timing
        self._rng = rng
        first, longest = timing.watch_retry_first, timing.watch_retry_longest
        self._backoff = backoff.Backoff(
            first=first, longest=longest, healthy=timing.watch_healthy, rng=rng
        )
        self._state = _State.WAITING
        self._stream_opening = False
        self._since = 0.0  # when the present watch was accepted
        self._doubt = False  # whether the server may have lost history
        self.afresh = False  # whether it has: versions are given out a second time
        #: Whether streaming lists are (still) tried.
        self.streaming = streaming
        #: The store contains everything up to here; "" means that a list is needed.
        self.resource_version = resource_version
        #: Whether a list was ever complete.
        self.synced = bool(resource_version)
        #: When a `Tick` is due.
        self.deadline = _NEVER
        self.relists = 0

    @property
    def waiting(self) -> bool:
        """Whether no request is under way and only a `Tick` goes on."""
        return self._state is _State.WAITING

    @property
    def watching(self) -> bool:
        """Whether changes reach us as they happen."""
        return self._state is _State.WATCHING

    def follow(self, change: str, item: Item) -> bool:
        """Take in a change as `step` does nearly all, without its objects; False: ask `step`."""
        if self._state is _State.STREAMING and change != "DELETED":
            return True
        if self._state is not _State.WATCHING:
            return False
        held, resource_version = self.resource_version, item.resource_version
        # Of two numbers with as many digits the later text is the larger one.
        surely = len(held) == len(resource_version) and held <= resource_version
        if surely or not versions.went_back(held, resource_version):
            self.resource_version = resource_version
            return True
        return False

    def alive(self, now: float) -> None:
        """Note that the server was heard of; only a stream under way is prolonged by it."""
        if self._state in (_State.STREAMING, _State.WATCHING):
            self.deadline = now + self._timing.inactivity

    def step(self, what: Input, now: float) -> list[Action]:
        """Take in one event and return what to do, in order."""
        match what:
            case Changed():
                return self._changed(what, now)
            case Bookmark():
                return self._bookmark(what, now)
            case Started():
                # Also after a pause, in which anything may have happened to the server.
                self._doubt = bool(self.resource_version)
                return self._request(now)
            case Tick() if self._state is _State.WAITING:
                return self._request(now)
            case Tick():
                return [Cut(), *self._silent(now)]
            case Listed():
                return self._listed(what, now)
            case Opened():
                return self._opened(now)
            case Ended():
                return self._ended(now)
            case Probed():
                return self._probed(what, now)
            case Failed():
                return self._failed(what, now)

    def _request(self, now: float) -> list[Action]:
        if self.resource_version and self._doubt:
            self._state = _State.PROBING
            self.deadline = _NEVER  # the client has its own deadline
            return [Probe()]
        if not self.resource_version and not self.streaming:
            self._state = _State.LISTING
            self.deadline = _NEVER  # each page has its own deadline in the client
            return [List()]
        self._state = _State.OPENING
        self._stream_opening = not self.resource_version
        self.deadline = now + self._timing.inactivity
        spread = self._timing.watch_longest - self._timing.watch_shortest
        seconds = max(1, round(self._timing.watch_shortest + spread * self._rng()))
        return [Watch(self.resource_version, seconds, self._stream_opening)]

    def _probed(self, what: Probed, now: float) -> list[Action]:
        if self._state is not _State.PROBING:
            return []
        self._doubt = False
        if versions.went_back(self.resource_version, what.resource_version):
            self._forget()
        return self._request(now)

    def _forget(self) -> None:
        self.resource_version = ""
        self.afresh = True

    def _wait(self, now: float, delay: float) -> list[Action]:
        self._state = _State.WAITING
        self.deadline = now + delay
        return []

    def _opened(self, now: float) -> list[Action]:
        if self._state is not _State.OPENING:
            return []
        self._state = _State.STREAMING if self._stream_opening else _State.WATCHING
        self._since = now
        self.deadline = now + self._timing.inactivity
        return []

    def _listed(self, what: Listed, now: float) -> list[Action]:
        if self._state is not _State.LISTING:
            return []
        actions: list[Action] = [Put(item, not self.synced, self.afresh) for item in what.items]
        if what.last:
            actions.append(self._complete(what.resource_version))
            actions += self._request(now)
        return actions

    def _complete(self, resource_version: str) -> Complete:
        self.resource_version = resource_version
        self.synced = True
        self._doubt = self.afresh = False
        self.relists += 1
        return Complete(resource_version)

    def _changed(self, what: Changed, now: float) -> list[Action]:
        item = what.item
        self.alive(now)
        if self._state is _State.STREAMING:
            if what.type == "DELETED":
                return [Remove(item)]
            return [Put(item, not self.synced, self.afresh)]
        if self._state is not _State.WATCHING:
            return []
        if versions.went_back(self.resource_version, item.resource_version):
            self._forget()
            return self._restart(now)
        self.resource_version = item.resource_version
        return [Remove(item) if what.type == "DELETED" else Put(item, initial=False)]

    def _bookmark(self, what: Bookmark, now: float) -> list[Action]:
        self.alive(now)
        if self._state is _State.STREAMING:
            if what.end:
                self._state = _State.WATCHING
                return [self._complete(what.resource_version)]
            # A plain bookmark before the end: the server ignored the wish for a list.
            self.streaming = False
            return self._restart(now)
        if self._state is not _State.WATCHING:
            return []
        if versions.went_back(self.resource_version, what.resource_version):
            self._forget()
            return self._restart(now)
        self.resource_version = what.resource_version
        return []

    def _restart(self, now: float) -> list[Action]:
        self.resource_version = ""
        return [Cut(), *self._wait(now, self._backoff.next(up=now - self._since))]

    def _silent(self, now: float) -> list[Action]:
        if self._state is _State.STREAMING:
            self.streaming = False
        self._doubt = True
        up = now - self._since if self._state is _State.WATCHING else 0.0
        return self._wait(now, self._backoff.next(up=up))

    def _ended(self, now: float) -> list[Action]:
        if self._state is _State.STREAMING:
            # Cut in the middle of the list part: nothing was promised yet.
            return self._wait(now, self._backoff.next())
        if self._state is not _State.WATCHING:
            return []
        # A watch that ended after its time is resumed at once; one that ends as soon as it begins
        # would otherwise spin.
        up = now - self._since
        if up >= self._timing.watch_retry_first:
            self._backoff.reset()
            return self._request(now)
        return self._wait(now, self._backoff.next(up=up))

    def _failed(self, what: Failed, now: float) -> list[Action]:
        if self._state is _State.WAITING:
            return []
        up = now - self._since if self._state is _State.WATCHING else 0.0
        self._doubt = True
        if what.failure is Failure.GONE:
            self.resource_version = ""
        if what.failure is Failure.UNSUPPORTED and self._stream_opening:
            self.streaming = False
            return self._wait(now, 0.0)
        return self._wait(now, max(what.retry_after, self._backoff.next(up=up)))
