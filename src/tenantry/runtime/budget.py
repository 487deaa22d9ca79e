"""How many bytes of objects the caches of one cluster may hold together.

Counted is what came over the wire; a view that keeps little of it holds less. A process that serves
clusters of others sets a bound for each, so that one which fills up takes only itself away.
"""

from __future__ import annotations

from collections.abc import Hashable

from tenantry.runtime import errors


class Budget:
    """The bytes of each object held."""

    def __init__(self, most: int) -> None:
        if most < 1:
            raise ValueError(f"cache bytes: {most}: must be at least 1")
        self.most = most
        self.used = 0
        self._sizes: dict[Hashable, int] = {}

    def put(self, what: Hashable, size: int, resource: str) -> None:
        """Count an object in place of its former self.

        :raises CacheFullError: when that is too much
        """
        self.used += size - self._sizes.get(what, 0)
        self._sizes[what] = size
        if self.used > self.most:
            raise errors.CacheFullError(resource, self.most)

    def remove(self, what: Hashable) -> None:
        """Count an object no longer; one that is not there changes nothing."""
        self.used -= self._sizes.pop(what, 0)
