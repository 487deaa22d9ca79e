"""Search victims whose leaving lets a job start, by trying it out.

A scenario is a set of victims. It is simulated: the victims leave, then the job and the victims'
jobs are placed again in the order of queues. If the job finds room and the action's rules hold,
the scenario is the answer; victims that found their old place again never leave.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tenantry.scheduler.engine import (
    devices,
    job_order,
    placing,
    plugin,
    queues,
    resources,
    scenario,
    statement,
    status,
    victim_order,
)

if TYPE_CHECKING:
    from tenantry.scheduler.engine import session as sessions

Unit = victim_order.Unit


class Generator(Protocol):
    """Proposes scenarios for a probe, the least disturbing first."""

    name: str

    def scenarios(self, probe: scenario.Probe) -> Iterator[list[Unit] | None]:
        """Yield sets of victims beyond those that are fixed already; None to take a breath."""


@dataclasses.dataclass(slots=True)
class Outcome:
    """A simulation that found room, before the action's rules are asked."""

    job: sessions.JobState
    rows: Sequence[int]
    units: list[Unit]
    #: Where each victim was.
    origin: dict[int, statement.Placement]
    gone: list[int]
    moved: list[int]
    base: Held
    count_moved: bool = False

    def victims(self) -> set[int]:
        """Return the rows that count as evicted."""
        return set(self.gone) | (set(self.moved) if self.count_moved else set())

    def chunks(
        self, session: sessions.Session
    ) -> Iterator[tuple[sessions.JobState, list[list[int]]]]:
        """Split victims by job: pods above the minimum singly, the rest of a gang as one."""
        counted = self.victims()
        by_job: dict[tuple[str, str], tuple[sessions.JobState, list[int]]] = {}
        for job, rows in self.units:
            entry = by_job.setdefault(job.key, (job, []))
            entry[1].extend(row for row in rows if row in counted)
        state = session.state
        for job, mine in by_job.values():
            if len(mine) <= 1:
                if mine:
                    yield job, [mine]
                continue
            left = {leaf.index: -leaf.minimum for leaf in job.leaves}
            for leaf in job.leaves:
                left[leaf.index] += sum(
                    status.IS_ACTIVE[
                        self.origin[row][0] if row in self.origin else state.status[row]
                    ]
                    for row in leaf.rows
                )
            parts: list[list[int]] = []
            core: list[int] = []
            for row in mine:
                podset = state.podset[row]
                if left[podset] > 0:
                    left[podset] -= 1
                    parts.append([row])
                else:
                    core.append(row)
            if core:
                parts.append(core)
            yield job, parts

    @contextlib.contextmanager
    def before(self, session: sessions.Session) -> Iterator[None]:
        """Show queues as they were when the search began."""
        del session
        now = [(queue, queue.allocated, queue.allocated_fixed) for queue, _, _ in self.base]
        try:
            for queue, allocated, fixed in self.base:
                queue.allocated, queue.allocated_fixed = allocated, fixed
            yield
        finally:
            for queue, allocated, fixed in now:
                queue.allocated, queue.allocated_fixed = allocated, fixed


Held = list[tuple[queues.Queue, list[queues.Amount], list[queues.Amount]]]


@dataclasses.dataclass(slots=True)
class _Memory:
    """What one search knows from its first scenario to its last."""

    base: Held
    tried: set[tuple[int, frozenset[int]]]
    #: When the generator, and when the whole search gives up; 0: never.
    until: float = 0.0
    job: float = 0.0


@dataclasses.dataclass(slots=True)
class Search:
    """One job's search for victims within one action."""

    session: sessions.Session
    action: str
    job: sessions.JobState
    rows: list[int]
    #: Iterate over victims, given rows that are victims already.
    victims: Callable[[set[int]], Iterable[Unit]]
    validators: Sequence[plugin.Validator]
    count_moved: bool = False

    def run(self) -> placing.Steps[statement.Statement | None]:
        """Return a statement to commit, or None when nobody's leaving would help."""
        base = [
            (queue, list(queue.allocated), list(queue.allocated_fixed))
            for queue in self.session.queues.values()
        ]
        memory = _Memory(base, set())
        memory.job = self._job_deadline()
        for generator in self.session.points.generators:
            found = yield from self._with(generator, memory)
            if found is not None:
                return found
            if memory.job and self.session.clock() > memory.job:
                break
        return None

    def _with(
        self, generator: Generator, memory: _Memory
    ) -> placing.Steps[statement.Statement | None]:
        limit = self.session.config.generator_search.get(generator.name, 0.0)
        memory.until = self.session.clock() + limit if limit else 0.0
        fixed: list[Unit] = []
        solved, failed, size = 0, len(self.rows) + 1, 1
        while solved + 1 < failed:
            result = yield from self._probe(generator, size, fixed, memory)
            if result is None:
                failed = size
            else:
                journal, outcome = result
                if size == len(self.rows):
                    return journal
                yield from journal.roll_back()
                left = outcome.victims() | set(outcome.moved)
                fixed = [
                    (job, kept)
                    for job, rows in outcome.units
                    if (kept := tuple(row for row in rows if row in left))
                ]
                solved = size
            if failed > len(self.rows):
                size = min(solved * 2, len(self.rows))
            else:
                size = (solved + failed) // 2
        if not solved:
            return None
        # The whole once more: with the victims of the largest part fixed, other sets come up.
        result = yield from self._probe(generator, len(self.rows), fixed, memory)
        return None if result is None else result[0]

    def _probe(
        self,
        generator: Generator,
        size: int,
        fixed: list[Unit],
        memory: _Memory,
    ) -> placing.Steps[tuple[statement.Statement, Outcome] | None]:
        rows = self.rows[:size]
        probe = scenario.Probe(self.session, self.job, rows, fixed, self.victims)
        for units in generator.scenarios(probe):
            if units is None:
                yield
                if self._out_of_time(memory):
                    return None
                continue
            victims = [*fixed, *units]
            if not victims:
                continue
            key = size, frozenset(row for _, unit in victims for row in unit)
            if key in memory.tried:
                continue
            memory.tried.add(key)
            result = yield from self._simulate(rows, victims, memory.base)
            if result is not None:
                return result
            if self._out_of_time(memory):
                return None
        return None

    def _job_deadline(self) -> float:
        """Return when the search gives up: its own budget, within what the action has left."""
        session, settings = self.session, self.session.config
        now = session.clock()
        limits = [now + settings.job_search] if settings.job_search else []
        if session.deadline:
            limits.append(max(session.deadline, now + settings.least_job_search))
        return min(limits, default=0.0)

    def _out_of_time(self, memory: _Memory) -> bool:
        now = self.session.clock()
        return any(limit and now > limit for limit in (memory.until, memory.job))

    def _simulate(
        self, rows: Sequence[int], units: list[Unit], base: Held
    ) -> placing.Steps[tuple[statement.Statement, Outcome] | None]:
        session = self.session
        journal = statement.Statement(session)
        for number, (_, unit) in enumerate(units):
            for row in unit:
                journal.evict(row)
            if number % placing.PACE == placing.PACE - 1:
                yield
        origin = dict(journal.evicted)
        nodes = feasible(session, rows, {was[1] for was in origin.values()})
        jobs: dict[tuple[str, str], tuple[sessions.JobState, list[int] | None]] = {
            job.key: (job, None) for job, _ in units
        }
        jobs.pop(self.job.key, None)
        order = yield from job_order.of_jobs(
            session, [*jobs.values(), (self.job, list(rows))], journal.evicted
        )
        placed = False
        while (served := order.pop()) is not None:
            job, wanted = served
            if job is self.job:
                if not (
                    yield from placing.place_job(
                        session, journal, job, wanted, plan_only=True, nodes=nodes
                    )
                ):
                    yield from journal.roll_back()
                    return None
                placed = True
            elif wanted and (
                yield from placing.place_job(
                    session, journal, job, wanted, plan_only=True, nodes=nodes
                )
            ):
                order.push(job)
            yield
        assert placed
        states = session.state.status
        gone = [row for row in journal.evicted if states[row] == status.RELEASING]
        moved = [row for row in journal.evicted if states[row] != status.RELEASING]
        outcome = Outcome(
            self.job, rows, units, origin, gone, moved, base, count_moved=self.count_moved
        )
        yield
        if (yield from self._valid(outcome)):
            return journal, outcome
        yield from journal.roll_back()
        return None

    def _valid(self, outcome: Outcome) -> placing.Steps[bool]:
        for judge in self.validators:
            verdict = judge(outcome)
            if not isinstance(verdict, bool):
                verdict = yield from verdict
            if not verdict:
                return False
        return True


def feasible(
    session: sessions.Session, rows: Sequence[int], more: set[int]
) -> resources.Bools | None:
    """Return the nodes worth looking at: those with GPUs to give, and the victims' own."""
    state = session.state
    if any(not state.shape_of[row].wants_gpu for row in rows):
        return None
    mask: resources.Bools = state.free[resources.GPU] > 0
    mask |= state.idle[resources.GPU] > 0
    for node, groups in state.groups.items():
        capacity = state.nodes.gpu_memory[node]
        if any(devices.remaining(group, capacity) > 0 for group in groups.values()):
            mask[node] = True
    if any(state.shape_of[row].shared or state.shape_of[row].mig for row in rows):
        return None
    mask[np.fromiter(more, np.intp, len(more))] = True
    return mask
