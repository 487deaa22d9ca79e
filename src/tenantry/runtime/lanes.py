"""The order within one priority of a work queue: first come first served, or fair to groups.

`Lane` is one line. `FairLane` has one line per group (say, per cluster of a process that serves
hundreds), and the groups take turns: however many keys one has waiting, a key of another has at
most one key of each group before it. `Shares` limits how many workers one group has at a time, so
that a cluster which answers slowly cannot hold them all.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)


class Order(Protocol[K]):
    """What `queue.Queue` needs of a lane."""

    def add(self, key: K, since: float) -> None:
        """Put a key that is not here at the end."""
        ...

    def remove(self, key: K) -> float:
        """Take a certain key out; returns since when it waited."""
        ...

    def take(self) -> tuple[K, float] | None:
        """Take out whose turn it is, None when nobody may go now."""
        ...


class Lane(Generic[K]):
    """One line."""

    def __init__(self) -> None:
        self._keys: collections.OrderedDict[K, float] = collections.OrderedDict()

    def add(self, key: K, since: float) -> None:
        """Put a key at the end."""
        self._keys[key] = since

    def remove(self, key: K) -> float:
        """Take a certain key out."""
        return self._keys.pop(key)

    def take(self) -> tuple[K, float] | None:
        """Take the first key."""
        return self._keys.popitem(last=False) if self._keys else None


class Shares(Generic[K]):
    """How many keys of each group are with workers; `most` at a time, None without limit."""

    def __init__(self, group: Callable[[K], Hashable], most: int | None) -> None:
        if most is not None and most < 1:
            raise ValueError(f"share: {most}: a group needs at least one worker")
        self.group = group
        self._most = most
        self._busy: collections.Counter[Hashable] = collections.Counter()

    def free(self, group: Hashable) -> bool:
        """Whether the group may have one more worker."""
        return self._most is None or self._busy[group] < self._most

    def began(self, key: K) -> None:
        """Note that a worker has a key."""
        self._busy[self.group(key)] += 1

    def ended(self, key: K) -> None:
        """Note that it has it no longer."""
        group = self.group(key)
        self._busy[group] -= 1
        if not self._busy[group]:
            del self._busy[group]


class FairLane(Generic[K]):
    """A line per group; invariant: no line is empty, the group whose turn is next is the first."""

    def __init__(self, shares: Shares[K]) -> None:
        self._shares = shares
        self._lines: collections.OrderedDict[Hashable, collections.OrderedDict[K, float]] = (
            collections.OrderedDict()
        )

    def add(self, key: K, since: float) -> None:
        """Put a key at the end of its group's line."""
        group = self._shares.group(key)
        line = self._lines.get(group)
        if line is None:
            line = self._lines[group] = collections.OrderedDict()
        line[key] = since

    def remove(self, key: K) -> float:
        """Take a certain key out."""
        group = self._shares.group(key)
        line = self._lines[group]
        since = line.pop(key)
        if not line:
            del self._lines[group]
        return since

    def take(self) -> tuple[K, float] | None:
        """Take the first key of the group whose turn it is, passing over those without a worker."""
        # Passed over are at most as many groups as there are workers, each having its share.
        for group, line in self._lines.items():
            if not self._shares.free(group):
                continue
            taken = line.popitem(last=False)
            if line:
                self._lines.move_to_end(group)
            else:
                del self._lines[group]
            return taken
        return None
