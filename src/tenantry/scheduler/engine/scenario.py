"""What a generator of scenarios may ask: victims in order, and whether a set could be enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from tenantry.scheduler.engine import resources, tables, victim_order

if TYPE_CHECKING:
    from tenantry.scheduler.engine import session as sessions

Unit = victim_order.Unit


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
        for _, rows in self.fixed:
            for row in rows:
                free[:, state.node[row]] += _freed(state, row)[shape.columns]
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
        state, shape = self.session.state, self._shape
        freed: dict[int, resources.Ints] = {}
        for _, rows in units:
            for row in rows:
                node = state.node[row]
                vector = _freed(state, row)
                freed[node] = freed[node] + vector if node in freed else vector
        total = self._total
        for node, vector in freed.items():
            if self._allowed[node]:
                room = self._free[:, node] + vector[shape.columns]
                total += int((room // shape.needs[:, 0]).min()) - int(self._slots[node])
        return total >= len(self.rows)

    def gpus(self, row: int) -> int:
        """Return the GPUs of a task in milli, as nodes count them."""
        shape = self.session.state.shape_of[row]
        return shape.gpus or (shape.devices * resources.MILLI if shape.shared else 0)


def _freed(state: tables.Tables, row: int) -> resources.Ints:
    """Return at most what a victim's leaving adds to its node."""
    shape = state.shape_of[row]
    vector = resources.padded(shape.vector, len(state.idle))
    if shape.shared or shape.constraints.claims:
        vector = vector.copy()
        vector[resources.GPU] += resources.MILLI * max(shape.devices, 1)
        for name in shape.constraints.claims:
            task = state.tasks[row]
            claim = state.claims.get((task.namespace, name)) if task is not None else None
            if claim is not None:
                vector += resources.padded(claim.vector, len(vector))
    return vector
