"""Place tasks: the best node for one, all or nothing for a gang.

Greedy in task order, without backtracking inside a pod set; a gang that must stay together tries
one set of nodes after the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from tenantry.scheduler.engine import (
    devices,
    gangs,
    plugin,
    ranking,
    reasons,
    resources,
    selection,
    shapes,
    status,
)

if TYPE_CHECKING:
    from tenantry.scheduler.engine import session as sessions
    from tenantry.scheduler.engine import statement

ANYWHERE = plugin.NodeSet(None)
#: Tasks placed between two yields.
PACE = 8
Result = TypeVar("Result")
#: Work in steps that returns a result at its end.
Steps = Generator[None, None, Result]


class Failure:
    """Which task of an attempt found no node, and how far the attempt came."""

    __slots__ = ("nodes", "placed", "reason", "row")

    def __init__(self) -> None:
        self.row = -1
        self.placed = 0
        self.reason: reasons.Reason | None = None
        self.nodes: resources.Bools | None = None


def place_job(
    session: sessions.Session,
    journal: statement.Statement,
    job: plugin.JobState,
    rows: Sequence[int],
    *,
    plan_only: bool = False,
    nodes: resources.Bools | None = None,
    failure: Failure | None = None,
) -> Steps[bool]:
    """Place all the tasks, or none; what was placed before stays.

    A generator that yields now and then, and returns whether all were placed.

    :param plan_only: in simulations nothing starts, everything is pipelined
    :param nodes: restricts the attempt to these
    """
    assert job.tree is not None
    failure = failure if failure is not None else Failure()
    for check in session.points.job_checks:
        refused = check(job, rows)
        if refused is not None:
            failure.reason = refused
            return False
    mark = journal.checkpoint()
    attempt = _Attempt(session, journal, job, plan_only=plan_only, failure=failure)
    allowed = ANYWHERE if nodes is None else plugin.NodeSet(nodes)
    if len(job.leaves) == 1 and job.tree.topology is job.leaves[0].topology is None:
        done = yield from attempt.tasks(rows, allowed)
    else:
        grouped = selection.by_leaf(session.state, rows)
        done = yield from attempt.member(job.tree, grouped, allowed)
    if not done:
        journal.rollback(mark)
    return done


class _Attempt:
    __slots__ = ("failure", "job", "journal", "plan_only", "session")

    def __init__(
        self,
        session: sessions.Session,
        journal: statement.Statement,
        job: plugin.JobState,
        *,
        plan_only: bool,
        failure: Failure,
    ) -> None:
        self.session = session
        self.journal = journal
        self.job = job
        self.plan_only = plan_only
        self.failure = failure

    def member(
        self, member: gangs.Member, rows: dict[int, list[int]], allowed: plugin.NodeSet
    ) -> Steps[bool]:
        mine = [
            row for leaf in gangs.podsets(member) if leaf.index in rows for row in rows[leaf.index]
        ]
        if not mine:
            return True
        choices: Iterable[plugin.NodeSet] = [allowed]
        for ask in self.session.points.node_sets:
            answer = ask(self.job, member, mine, allowed)
            if isinstance(answer, reasons.Reason):
                self.failure.reason = answer
                self.failure.row = mine[0]
                return False
            if answer is not None:
                choices = answer
        for choice in choices:
            mark = self.journal.checkpoint()
            if (yield from self._inside(member, rows, choice)):
                return True
            self.journal.rollback(mark)
        return False

    def _inside(
        self, member: gangs.Member, rows: dict[int, list[int]], allowed: plugin.NodeSet
    ) -> Steps[bool]:
        if isinstance(member, gangs.PodSet):
            return (yield from self.tasks(rows[member.index], allowed))
        state, key = self.session.state, self.session.points.member_key
        children = member.children
        if len(children) > 1:
            if key is not None:
                children = sorted(children, key=key)
            else:
                children = sorted(children, key=lambda child: gangs.order(child, state))
        for child in children:
            if not (yield from self.member(child, rows, allowed)):
                return False
        return True

    def tasks(self, rows: Sequence[int], allowed: plugin.NodeSet) -> Steps[bool]:
        if self.session.points.warm:
            yield from self._warm(rows)
        if len(rows) > 1 and not self._room(rows, allowed):
            return False
        for placed, row in enumerate(rows):
            if not self.task(row, allowed):
                if placed >= self.failure.placed or self.failure.row < 0:
                    self.failure.row = row
                    self.failure.placed = placed
                    self.failure.nodes = allowed.mask
                return False
            if placed % PACE == PACE - 1:
                yield
        return True

    def _warm(self, rows: Sequence[int]) -> Steps[None]:
        session = self.session
        for row in rows:
            shape = session.state.shape_of[row]
            for warm in session.points.warm if not session.ranker.has(shape) else ():
                yield from warm(shape)

    def _room(self, rows: Sequence[int], allowed: plugin.NodeSet) -> bool:
        """Count how many such tasks could fit at all: a cheap no for gangs that cannot start."""
        state = self.session.state
        shape = state.shape_of[rows[0]]
        if shape.shared or any(state.shape_of[row] is not shape for row in rows):
            return True
        column = self.session.ranker.column(shape)
        possible = column.score != ranking.NEVER
        if allowed.mask is not None:
            possible = possible & allowed.mask
        candidates = np.flatnonzero(possible)
        if column.volatile:
            return len(candidates) > 0
        free = state.free[np.ix_(shape.columns, candidates)]
        slots = int((free // shape.needs).min(axis=0).sum()) if len(candidates) else 0
        if slots >= len(rows):
            return True
        self.failure.row = rows[slots]
        self.failure.placed = slots
        self.failure.nodes = allowed.mask
        return False

    def task(self, row: int, allowed: plugin.NodeSet) -> bool:
        session = self.session
        state = session.state
        for predicate in session.points.pre_predicates:
            refused = predicate(row)
            if refused:
                self.failure.reason = reasons.Reason(reasons.UNSCHEDULABLE, refused)
                return False
        shape = state.shape_of[row]
        column = session.ranker.column(shape)
        score = column.score
        if allowed.bonus is not None:
            score = score + allowed.bonus
        if allowed.mask is not None:
            score = np.where(allowed.mask, score, ranking.NEVER)
        for look in session.points.task_views:
            own = look(row)
            if own is not None and own.bonus is not None:
                score = score + own.bonus
            if own is not None and own.mask is not None:
                score = np.where(own.mask, score, ranking.NEVER)
        node = int(score.argmax()) if len(score) else -1
        if node < 0 or score[node] == ranking.NEVER:
            return False
        if column.checks:
            node = self._checked(row, column, score, node)
            if node < 0:
                return False
        groups: tuple[str, ...] = ()
        now = bool(column.now[node])
        if shape.shared:
            groups, fits_now = choose_devices(session, row, shape, node)
            now = now and fits_now
        if shape.best_effort:
            now = True
        if now and session.points.starts:
            now = all(starts(row, node) for starts in session.points.starts)
        start = status.ALLOCATED if now and not self.plan_only else status.PIPELINED
        self.journal.place(row, start, node, groups)
        return True

    def _checked(self, row: int, column: ranking.Column, score: resources.Floats, node: int) -> int:
        score = score.copy()
        while score[node] != ranking.NEVER:
            refused = next((why for check in column.checks if (why := check(row, node))), None)
            if refused is None:
                return node
            if self.failure.reason is None:
                self.failure.reason = refused
            score[node] = ranking.NEVER
            node = int(score.argmax())
        return -1


def choose_devices(
    session: sessions.Session, row: int, shape: shapes.Shape, node: int
) -> tuple[tuple[str, ...], bool]:
    """Choose shared devices on a node; tell whether they can be used at once.

    Each whole GPU that is idle or leaving stands as a candidate too, and becomes a new group.
    """
    state = session.state
    capacity = state.nodes.gpu_memory[node]
    memory = shape.memory_on(capacity)
    scorers = session.points.device_scores

    def score(used: float) -> float:
        return sum(scorer(used) for scorer in scorers)

    candidates: list[tuple[float, int, str, bool]] = []
    for name, group in state.groups.get(node, {}).items():
        if devices.fits(group, capacity, memory):
            at_once = devices.fits_now(group, capacity, memory)
            candidates.append((-score(devices.used_share(group, capacity)), 0, name, at_once))
    idle = max(int(state.idle[resources.GPU, node]), 0) // resources.MILLI
    whole = max(int(state.free[resources.GPU, node]), 0) // resources.MILLI
    worth = -score(-1.0)
    candidates.extend((worth, 1 + i, "", i < idle) for i in range(min(whole, shape.devices)))
    candidates.sort()
    task = state.tasks[row]
    assert task is not None
    own = _own_devices(session, row, node)
    chosen = candidates[: shape.devices]
    # A device that was new when this task came to it bears its name, and others may be on it.
    known = state.groups.get(node, {})
    new = (name for i in itertools.count() if (name := f"{task.uid}/{i}") not in known)
    names = [name or (own.pop(0) if own else next(new)) for _, _, name, _ in chosen]
    return tuple(names), all(at_once for *_, at_once in chosen)


def _own_devices(session: sessions.Session, row: int, node: int) -> list[str]:
    """Return the devices of an evicted task back on its node that are whole again without it."""
    state = session.state
    if state.status[row] != status.RELEASING or state.node[row] != node:
        return []
    records = state.groups.get(node, {})
    return [
        name
        for name in state.task_groups.get(row, ())
        if name in records and devices.whole(records[name])[1] == 0
    ]
