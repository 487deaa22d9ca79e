"""A bounded cache whose entries expire. Pure: time is an argument."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Cache(Generic[K, V]):
    """Keeps the entries used last; an entry ends at its time whatever it was used for."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K, now: float) -> V | None:
        found = self._entries.get(key)
        if found is None:
            return None
        if found[0] <= now:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return found[1]

    def put(self, key: K, value: V, until: float) -> None:
        self._entries[key] = (until, value)
        self._entries.move_to_end(key)
        while len(self._entries) > self._size:
            self._entries.popitem(last=False)
