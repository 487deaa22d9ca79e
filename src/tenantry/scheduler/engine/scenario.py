"""What a generator of scenarios may ask: victims in order, and whether a set could be enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from tenantry.scheduler.engine import resources, tables, victim_order

if TYPE_CHECKING:
    from tenantry.scheduler.engine import session as sessions

Unit = victim_order.Unit
#: Up to so many leaving tasks are looked at one by one.
FEW = 16


class Probe:
    """The first tasks of a job, and victims that are fixed because fewer tasks needed them."""

    def __init__(
        self,
        session: sessions.Session,
        job: sessions.JobState,
        rows: list[int],
        fixed: list[Unit],
        victims: Callable[[set[int]], Iterable[Unit]],
    ) -> None:
        self.session = session
        self.job = job
        self.rows = rows
        self.fixed = fixed
        self._victims = victims
        shape = session.state.shape_of[rows[0]]
        column = session.ranker.column(shape)
        #: The cheap test works for tasks of one shape on nodes whose predicates do not move.
        self._shape = shape
        self._exact = (
            not shape.shared
            and not column.volatile
            and all(session.state.shape_of[row] is shape for row in rows)
        )
        self._slots: resources.Ints | None = None
        self._total = 0
        if self._exact:
            self._count(column.fixed_ok)

    def _count(self, allowed: resources.Bools) -> None:
        state, shape = self.session.state, self._shape
        free = state.free[shape.columns]
        gone = [row for _, rows in self.fixed for row in rows]
        if gone:
            free += _freed_by(state, gone)[shape.columns]
        self._free = free
        slots = np.maximum((free // shape.needs).min(axis=0), 0)
        slots[~allowed] = 0
        self._allowed = allowed
        self._slots = slots
        self._total = int(slots.sum())

    def units(self) -> Iterator[Unit]:
        """Yield victims in order."""
        yield from self._victims({row for _, rows in self.fixed for row in rows})

    def could_fit(self, units: Iterable[Unit]) -> bool:
        """Tell whether room for all tasks could arise; a no is certain, a yes is not."""
        if self._slots is None:
            return True
        gone = [row for _, rows in units for row in rows]
        total = self._few(gone) if len(gone) <= FEW else self._many(gone)
        return total >= len(self.rows)

    def _few(self, gone: list[int]) -> int:
        """Count the tasks that fit when a handful leaves: only their nodes change."""
        assert self._slots is not None
        state, shape = self.session.state, self._shape
        freed: dict[int, resources.Ints] = {}
        for row in gone:
            node = state.node[row]
            vector = _freed(state, row)
            freed[node] = freed[node] + vector if node in freed else vector
        total = self._total
        for node, vector in freed.items():
            if self._allowed[node]:
                room = self._free[:, node] + vector[shape.columns]
                total += int((room // shape.needs[:, 0]).min()) - int(self._slots[node])
        return total

    def _many(self, gone: list[int]) -> int:
        """Count the tasks that fit when many leave: all nodes at once."""
        room = self._free + _freed_by(self.session.state, gone)[self._shape.columns]
        slots = np.maximum((room // self._shape.needs).min(axis=0), 0)
        return int(slots[self._allowed].sum())

    def gpus(self, row: int) -> int:
        """Return the GPUs of a task in milli, as nodes count them."""
        shape = self.session.state.shape_of[row]
        return shape.gpus or (shape.devices * resources.MILLI if shape.shared else 0)


def _freed_by(state: tables.Tables, rows: list[int]) -> resources.Ints:
    """Return at most what leaving tasks add to each node."""
    freed = np.zeros_like(state.free)
    size = freed.shape[1]
    alike: dict[int, list[int]] = {}
    for row in rows:
        alike.setdefault(state.shape_of[row].index, []).append(row)
    for same in alike.values():
        nodes = [state.node[row] for row in same]
        if state.shape_of[same[0]].constraints.claims:
            for row, node in zip(same, nodes, strict=True):
                freed[:, node] += _freed(state, row)
        else:
            counts = np.bincount(nodes, minlength=size)
            freed += _freed(state, same[0])[:, None] * counts
    return freed


def _freed(state: tables.Tables, row: int) -> resources.Ints:
    """Return at most what a victim's leaving adds to its node."""
    shape = state.shape_of[row]
    vector = resources.padded(shape.vector, len(state.idle))
    if shape.shared or shape.constraints.claims:
        vector = vector.copy()
        vector[resources.GPU] += resources.MILLI * max(shape.devices, 1)
        for claim in state.claims_of(row):
            vector += resources.padded(claim.vector, len(vector))
    return vector
