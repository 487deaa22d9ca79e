"""Count, by node, the tasks that something is about: a selector, a term of others, host ports.

Counted once when first asked for, then kept up to date by following moves: so that constraints
that look at other pods cost little however many pods there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from tenantry.scheduler.engine import masks, resources, specs, status

if TYPE_CHECKING:
    from tenantry.scheduler.engine import session as sessions

HOSTNAME = "kubernetes.io/hostname"


class Domains:
    """The nodes by their value of one label."""

    __slots__ = ("ids", "known", "number")

    def __init__(self, nodes: Iterable[specs.Node], key: str) -> None:
        numbers: dict[str, int] = {}
        found = []
        for node in nodes:
            value = node.labels.get(key, node.name if key == HOSTNAME else None)
            found.append(-1 if value is None else numbers.setdefault(value, len(numbers)))
        #: Domain of each node, -1 for none.
        self.ids: resources.Ints = np.array(found, np.int64)
        self.known: resources.Bools = self.ids >= 0
        self.number = len(numbers)

    def sums(self, by_node: resources.Ints, among: resources.Bools | None = None) -> resources.Ints:
        """Return the sum over the nodes of each domain."""
        counted = self.known if among is None else self.known & among
        weights = by_node[counted]
        found = np.bincount(self.ids[counted], weights=weights, minlength=self.number)
        return found.astype(np.int64)

    def spread(self, by_domain: resources.Ints) -> resources.Ints:
        """Return the value of each node's domain; 0 outside of all."""
        if not self.number:
            return np.zeros(len(self.ids), np.int64)
        return np.where(self.known, by_domain[self.ids], 0)


def domains(session: sessions.Session, key: str) -> Domains:
    """Return the domains of a label; kept between cycles while nodes are the same."""
    return masks.cached(session, ("domains", key), lambda: Domains(session.state.nodes.specs, key))


class Census:
    """Tasks that are, or are planned, on nodes and not leaving, as far as they match."""

    __slots__ = ("_matches", "_state", "_verdicts", "_where", "by_node")

    def __init__(
        self,
        session: sessions.Session,
        matches: Callable[[int, specs.Task], bool],
        candidates: Iterable[int],
    ) -> None:
        self._state = session.state
        self._matches = matches
        self._verdicts: dict[int, bool] = {}
        self._where: dict[int, int] = {}
        self.by_node: resources.Ints = np.zeros(len(session.state.nodes.names), np.int64)
        node, now = self._state.node, self._state.status
        for row in candidates:
            if node[row] >= 0 and status.ON_FREE[now[row]]:
                self.follow(row)

    def follow(self, row: int) -> None:
        """Count a task where it is by now."""
        verdict = self._verdicts.get(row)
        if verdict is None:
            task = self._state.tasks[row]
            verdict = self._verdicts[row] = task is not None and self._matches(row, task)
        if not verdict:
            return
        node = self._state.node[row]
        if node >= 0 and not status.ON_FREE[self._state.status[row]]:
            node = -1
        before = self._where.get(row, -1)
        if node == before:
            return
        if before >= 0:
            self.by_node[before] -= 1
        if node >= 0:
            self.by_node[node] += 1
        self._where[row] = node


class Registry:
    """The counts of one session, each made when it is first asked for."""

    def __init__(self, session: sessions.Session) -> None:
        self._session = session
        self._made: dict[object, Census] = {}

    def count(
        self,
        key: object,
        matches: Callable[[int, specs.Task], bool],
        candidates: Callable[[], Iterable[int]],
    ) -> resources.Ints:
        """Return how many tasks match on each node, as of now."""
        found = self._made.get(key)
        if found is None:
            if not self._made:
                self._session.points.moved.append(self._moved)
            found = self._made[key] = Census(self._session, matches, candidates())
        return found.by_node

    def selected(
        self,
        key: object,
        selector: tuple[specs.Requirement, ...],
        matches: Callable[[int, specs.Task], bool],
    ) -> resources.Ints:
        """Count tasks that a label selector is part of what they must match."""
        return self.count(key, matches, lambda: self._candidates(selector))

    def _candidates(self, selector: tuple[specs.Requirement, ...]) -> Iterable[int]:
        for requirement in selector:
            if requirement.operator == "In":
                return self._session.observed.labelled(requirement.key, requirement.values)
        return range(len(self._session.state.tasks))

    def _moved(self, row: int, before: int, now: int) -> None:
        del before, now
        for census in self._made.values():
            census.follow(row)
