"""The fold of everything that was seen, in any order of arrival; a cycle never touches it.

Pods may come before their job, their node or their queue, and jobs before their queue: what waits
is kept, and counted as soon as the other part arrives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from tenantry.scheduler.engine import fold_jobs, gangs, specs, status, tables

JobState = fold_jobs.JobState
Ledger = fold_jobs.Ledger
Kept = TypeVar("Kept")
#: Derived masks that are kept; constraints of pods that are long gone must not pile up.
_MOST_CACHED = 1024


class Observed(fold_jobs.JobFold):
    """The cluster as last seen."""

    def __init__(self) -> None:
        super().__init__()
        self.queues: dict[str, specs.Queue] = {}
        self.queues_version = 0
        self.topologies: dict[str, specs.Topology] = {}
        #: Labels of namespaces, for affinity terms that select them.
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.config_maps: set[specs.Key] | None = None
        self.volumes: dict[specs.Key, frozenset[str] | None] | None = None
        #: What plugins derive from nodes and keep between cycles, by their own keys.
        self._kept: dict[str, object] = {}
        self.cache: dict[object, tuple[int, Any]] = {}

    def put_queue(self, queue: specs.Queue) -> None:
        """Add or replace a queue."""
        self.version += 1
        self.queues_version += 1
        self.queues[queue.name] = queue

    def drop_queue(self, name: str) -> None:
        """Forget a queue; its jobs wait."""
        self.version += 1
        self.queues_version += 1
        self.queues.pop(name, None)

    def put_topology(self, topology: specs.Topology) -> None:
        """Add or replace a topology."""
        self.version += 1
        self.topologies[topology.name] = topology

    def put_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        """Add a namespace, or replace its labels."""
        self.version += 1
        self.namespaces[name] = labels

    def drop_namespace(self, name: str) -> None:
        """Forget a namespace."""
        self.version += 1
        self.namespaces.pop(name, None)

    def put_config_maps(self, keys: Iterable[specs.Key]) -> None:
        """Say which config maps exist; without this call none is required to."""
        self.version += 1
        self.config_maps = set(keys)

    def put_volumes(self, nodes_of: dict[specs.Key, frozenset[str] | None]) -> None:
        """Say which volume claims exist and on which nodes (None: any) they can be used."""
        self.version += 1
        self.volumes = dict(nodes_of)

    def keep(self, name: str, make: Callable[[], Kept]) -> Kept:
        """Return what a plugin keeps between cycles; made when it is first asked for."""
        found = self._kept.get(name)
        if found is None:
            found = self._kept[name] = make()
        return cast("Kept", found)

    def settle(self) -> None:
        """Bring derived sets up to date; called when a session opens."""
        if self.unsorted or self.gone:
            self.order_nodes()
            self.cache.clear()
        self.prune_shapes()
        if len(self.cache) > _MOST_CACHED:
            self.cache.clear()
        extras = self._extras()
        if extras != self.tables.extras:
            self._account_for(extras)
        for key, state in self.dirty.items():
            self._judge(key, state)
        self.dirty.clear()
        self.tables.changed.clear()

    def _judge(self, key: specs.Key, state: JobState) -> None:
        columns = self.tables
        if state.tree is None:
            self.pending.pop(key, None)
            self.stale.pop(key, None)
            return
        if any(columns.pending(leaf.index) for leaf in state.leaves):
            self.pending[key] = state
        else:
            self.pending.pop(key, None)
        if is_stale(state, columns):
            self.stale[key] = state
        else:
            self.stale.pop(key, None)

    def _extras(self) -> tuple[str, ...]:
        names = {name for queue in self.queues.values() for name in queue.resources}
        return tuple(sorted(names - {"cpu", "memory", "gpu"}))

    def _account_for(self, extras: tuple[str, ...]) -> None:
        """Start counting other resources: every ledger is written anew, which is rare."""
        columns = self.tables
        rows = [row for row, task in enumerate(columns.tasks) if task is not None]
        was = [(columns.status[r], columns.node[r], columns.task_groups.get(r, ())) for r in rows]
        for row in rows:
            self.move(row, status.DELETED, -1)
        columns.account_for(extras)
        for ledger in self.ledgers.values():
            ledger.allocated = [0] * (3 + len(extras))
            ledger.allocated_fixed = [0] * (3 + len(extras))
            ledger.pending = [0] * (3 + len(extras))
        for row, (state, node, groups) in zip(rows, was, strict=True):
            self.move(row, state, node, groups)


def is_stale(state: JobState, columns: tables.Tables) -> bool:
    """Tell whether a job runs with less than its gang needs."""
    leaves = state.leaves
    if any(columns.in_state(leaf.index, status.SUCCEEDED) for leaf in leaves):
        return False
    if not any(gangs.used(leaf, columns) for leaf in leaves):
        return False
    return state.tree is not None and gangs.below_minimum(state.tree, columns)
