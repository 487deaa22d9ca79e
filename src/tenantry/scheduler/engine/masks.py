"""Masks over nodes, computed once per set of nodes and remembered between cycles."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np

from tenantry.scheduler.engine import resources, specs

if TYPE_CHECKING:
    from tenantry.scheduler.engine import session as sessions

Made = TypeVar("Made")


class Fixed:
    """A mask that nothing in a cycle changes."""

    fixed = True

    def __init__(self, title: str, mask: resources.Bools) -> None:
        self.title = title
        self._mask = mask

    def everywhere(self) -> resources.Bools:
        """Return the mask."""
        return self._mask

    def at(self, node: int) -> bool:
        """Return the mask at one node."""
        return bool(self._mask[node])


def where(session: sessions.Session, test: Callable[[specs.Node], bool]) -> resources.Bools:
    """Return the nodes for which the test holds."""
    nodes = session.state.nodes.specs
    return np.fromiter((test(node) for node in nodes), np.bool_, len(nodes))


def named(session: sessions.Session, names: Collection[str]) -> resources.Bools:
    """Return the nodes with these names."""
    nodes = session.state.nodes.names
    return np.fromiter((name in names for name in nodes), np.bool_, len(nodes))


def cached(session: sessions.Session, key: object, make: Callable[[], Made]) -> Made:
    """Return what depends on nodes alone, from the cache while nodes are the same."""
    seen = session.observed
    found = seen.cache.get(key)
    if found is not None and found[0] == seen.nodes_version:
        return cast("Made", found[1])
    mask = make()
    seen.cache[key] = (seen.nodes_version, mask)
    return mask
