"""A transaction over the session: try moves, undo back to a mark, or make them decisions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenantry.scheduler.engine import specs, status, unstart

if TYPE_CHECKING:
    from tenantry.scheduler.engine import session as sessions

#: Rows committed between two yields.
PACE = 64
Placement = tuple[int, int, tuple[str, ...]]

EVICT, RETURN, REPLAN, PLACE = range(4)


class Statement:
    """A journal of moves; nothing becomes a decision before `commit`."""

    __slots__ = ("_journal", "_session", "evicted")

    def __init__(self, session: sessions.Session) -> None:
        self._session = session
        session.journal = self
        #: What was done, to which row, and what the row was before.
        self._journal: list[tuple[int, int, Placement]] = []
        #: Rows evicted by this statement -> where they were.
        self.evicted: dict[int, Placement] = {}

    def __len__(self) -> int:
        return len(self._journal)

    def evict(self, row: int) -> None:
        """Mark a task as leaving."""
        was = self._session.placement(row)
        self._journal.append((EVICT, row, was))
        self.evicted[row] = was
        self._session.move(row, status.RELEASING, was[1], was[2])

    def place(self, row: int, state: int, node: int, groups: tuple[str, ...] = ()) -> None:
        """Allocate or pipeline a task; an evicted one that returns to its place simply stays."""
        was = self._session.placement(row)
        origin = self.evicted.get(row)
        if origin is None or was[0] != status.RELEASING:
            self._journal.append((PLACE, row, was))
            self._session.move(row, state, node, groups)
        elif origin[1] == node and (not groups or set(groups) == set(origin[2])):
            self._journal.append((RETURN, row, was))
            del self.evicted[row]
            self._session.move(row, *origin)
        else:
            # It is planned elsewhere, but goes on holding its old place until it has left.
            self._journal.append((REPLAN, row, was))
            self._session.move(row, status.PIPELINED, node, groups)
            self._session.state.haunt(row, was[1], was[2], 1)

    def pipeline(self, row: int) -> None:
        """Turn an allocation into a plan, for a gang that can start only in part."""
        was = self._session.placement(row)
        self._journal.append((PLACE, row, was))
        self._session.move(row, status.PIPELINED, was[1], was[2])

    def stay(self, row: int) -> None:
        """Let an evicted task stay after all."""
        origin = self.evicted[row]
        self.place(row, status.PIPELINED, origin[1], origin[2])

    def checkpoint(self) -> int:
        """Return a mark for `rollback`."""
        return len(self._journal)

    def rollback(self, mark: int = 0) -> None:
        """Undo everything after the mark, last move first; a plugin's fault does not stop it."""
        session, journal = self._session, self._journal
        fault: Exception | None = None
        while len(journal) > mark:
            kind, row, was = journal.pop()
            if kind == EVICT:
                del self.evicted[row]
            elif kind == RETURN:
                self.evicted[row] = session.placement(row)
            elif kind == REPLAN:
                session.state.haunt(row, was[1], was[2], -1)
            try:
                session.move(row, *was)
            except Exception as problem:
                fault = fault or problem
        if fault is not None:
            raise fault

    def roll_back(self) -> Iterator[None]:
        """Undo everything, in steps; a cycle that ends in between undoes the rest."""
        while len(self._journal) > PACE:
            self.rollback(len(self._journal) - PACE)
            yield
        self.rollback()

    def commit(self, action: str, evictor: specs.Key | None = None) -> Iterator[None]:
        """Turn the moves into decisions of the cycle, in steps that belong together.

        A cycle whose budget ends meanwhile still goes through, and so does one where a plugin
        raises: a gang is decided whole.
        """
        session = self._session
        rows = list(dict.fromkeys(entry[1] for entry in self._journal))
        session.committing = True
        for number, row in enumerate(rows):
            try:
                self._decide(row, action, evictor)
            except Exception as problem:
                session.decisions.errors.append(f"{action}, deciding: {problem!r}")
            if number % PACE == PACE - 1:
                yield
        yield from unstart.collapse(session, evictor)
        session.committing = False
        self._journal.clear()
        self.evicted = {}

    def all_started_now(self) -> bool:
        """Tell whether everybody it evicts was to start in this very cycle."""
        decided = self._session.decisions
        return bool(self.evicted) and all(decided.starts(row) for row in self.evicted)

    def outrank(self, evictor: specs.Key) -> Iterator[None]:
        """Take back the starts of those it evicts, in favour of a job, and undo all else."""
        session, rows = self._session, list(self.evicted)
        session.committing = True
        yield from self.roll_back()
        for number, row in enumerate(rows):
            unstart.task(session, row, evictor)
            if number % PACE == PACE - 1:
                yield
        yield from unstart.collapse(session, evictor)
        session.committing = False

    def _decide(self, row: int, action: str, evictor: specs.Key | None) -> None:
        session, columns = self._session, self._session.state
        state = columns.status[row]
        origin = self.evicted.get(row)
        if origin is not None and session.decisions.starts(row):
            if state == status.PIPELINED:
                session.decisions.cancel(row)
                columns.haunt(row, origin[1], origin[2], -1)
            else:
                unstart.task(session, row, evictor)
        elif origin is not None:
            session.decisions.evict(row, origin[1], action, evictor)
        if state == status.ALLOCATED:
            session.decisions.bind(row)
            _, node, groups = session.placement(row)
            session.move(row, status.BINDING, node, groups)
        elif state == status.PIPELINED:
            session.decisions.pipeline(row)
