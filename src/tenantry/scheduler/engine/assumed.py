"""Our own writes that the watch has not shown yet: the layer between observed and session.

An entry ends when the pod is seen at or after the version of our write, when it is gone, or when
the write was definitely rejected. A write with unknown outcome is kept until somebody looked.
"""

from __future__ import annotations

import dataclasses

from tenantry.scheduler.engine import fold_nodes, observed, status, tables


@dataclasses.dataclass(slots=True)
class Entry:
    """A bind (with a node) or an eviction of one pod."""

    node: str = ""
    groups: tuple[str, ...] = ()
    evicted: bool = False
    #: Version that the API server gave our write; None while its answer is outstanding.
    version: int | None = None


class Assumed:
    """Entries by pod uid."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def bind(self, uid: str, node: str, groups: tuple[str, ...] = ()) -> None:
        """Note that a bind was sent."""
        self._entries[uid] = Entry(node=node, groups=groups)

    def evict(self, uid: str) -> None:
        """Note that an eviction was sent."""
        self._entries[uid] = Entry(evicted=True)

    def written(self, uid: str, version: int) -> None:
        """Note the version of our write; the watch will reach it."""
        entry = self._entries.get(uid)
        if entry is not None:
            entry.version = version

    def rejected(self, uid: str) -> None:
        """Forget a write that definitely did not happen."""
        self._entries.pop(uid, None)

    def seen(self, uid: str, version: int) -> None:
        """Note that the watch, or a read, showed the pod at a version."""
        entry = self._entries.get(uid)
        if entry is not None and entry.version is not None and version >= entry.version:
            del self._entries[uid]

    def gone(self, uid: str) -> None:
        """Note that the pod does not exist any more."""
        self._entries.pop(uid, None)

    def overlay(self, seen: observed.Observed, state: tables.Tables) -> None:
        """Change a session's columns as if our writes had been seen already."""
        for uid in sorted(self._entries):
            entry = self._entries[uid]
            row = seen.row_of.get(uid)
            if row is None:
                continue
            now, node = state.status[row], state.node[row]
            if entry.evicted and node >= 0 and status.IS_ALLOCATED[now]:
                state.move(row, status.RELEASING, node, state.task_groups.get(row, ()))
            elif not entry.evicted and now == status.PENDING:
                target = state.nodes.by_name.get(entry.node, fold_nodes.NOWHERE)
                if target >= 0:
                    state.move(row, status.BINDING, target, entry.groups)
