"""How many requests one identity may have under way. Pure."""

from __future__ import annotations


class Concurrency:
    """Counts what is under way per key, bounded; a key with nothing under way takes no room."""

    def __init__(self, limit: int) -> None:
        """Take the number of requests per key; 0 = no limit."""
        self.limit = limit
        self._held: dict[str, int] = {}

    def acquire(self, key: str, count: int = 1) -> bool:
        """Take places; False when there are not so many."""
        held = self._held.get(key, 0)
        if self.limit and held + count > self.limit:
            return False
        self._held[key] = held + count
        return True

    def release(self, key: str, count: int = 1) -> None:
        """Give places back."""
        held = self._held.get(key, 0) - count
        if held > 0:
            self._held[key] = held
        else:
            self._held.pop(key, None)

    def held(self, key: str) -> int:
        return self._held.get(key, 0)
