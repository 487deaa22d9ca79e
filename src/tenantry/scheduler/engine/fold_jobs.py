"""The part of the observed state that is about jobs, their tasks and what queues are charged."""

from __future__ import annotations

import collections
from collections.abc import Iterable

from tenantry.scheduler.engine import (
    errors,
    fold_nodes,
    gangs,
    job_state,
    shapes,
    specs,
    status,
    validation,
)

NOWHERE = fold_nodes.NOWHERE
_FEW_SHAPES = 1024
#: Label keys by which tasks are indexed.
_MOST_KEYS = 64
JobState = job_state.JobState
Ledger = job_state.Ledger
Account = job_state.Account


class JobFold(fold_nodes.NodeFold):
    """Jobs and tasks in any order of arrival."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: dict[specs.Key, JobState] = {}
        self.row_of: dict[str, int] = {}
        self.ledgers: dict[Account, Ledger] = {}
        self.by_account: dict[Account, dict[specs.Key, JobState]] = {}
        #: Rows of tasks whose constraints look at other pods.
        self.with_terms: set[int] = set()
        #: Label key -> value -> rows, for the keys that somebody asked for.
        self._labelled: dict[str, dict[str, set[int]]] = {}
        self.foreign: set[int] = set()
        #: Tasks that are set aside, by uid.
        self.refused: dict[str, specs.Task] = {}
        self.dirty: dict[specs.Key, JobState] = {}
        #: Jobs with pending tasks, and jobs that run below their gang's minimum.
        self.pending: dict[specs.Key, JobState] = {}
        self.stale: dict[specs.Key, JobState] = {}
        self.podset_job: list[JobState] = []
        self.shapes_by_index: list[shapes.Shape] = []
        #: Jobs that may run only so long.
        self.bounded: dict[specs.Key, JobState] = {}
        #: Jobs that carry the mark of a lost minimum.
        self.marked_stale: dict[specs.Key, JobState] = {}
        self._shapes: dict[tuple[object, ...], shapes.Shape] = {}
        self._free_rows: list[int] = []
        self._free_podsets: list[int] = []

    # -- jobs --------------------------------------------------------------------------------

    def put_job(self, job: specs.Job) -> None:
        """Add or replace a job; tasks that came before it join."""
        self.version += 1
        state = self._job(job.key)
        rows = sorted(state.rows)
        for row in rows:
            self._leave(state, row)
        if state.spec is not None:
            self.by_account[state.account].pop(job.key, None)
        self._release(state)
        state.spec = job
        if job.max_runtime is None:
            self.bounded.pop(job.key, None)
        else:
            self.bounded[job.key] = state
        if job.stale_since is None:
            self.marked_stale.pop(job.key, None)
        else:
            self.marked_stale[job.key] = state
        state.queue = job.queue
        state.account = job.queue, job.user
        state.preemptible = validation.is_preemptible(job)
        self.by_account.setdefault(state.account, {})[job.key] = state
        kind = ("job", "/".join(job.key))
        self.set_aside.pop(kind, None)
        try:
            validation.job(job)
            tree = gangs.build(job)
        except errors.SetAside as problem:
            self.set_aside[kind] = str(problem)
        else:
            self._adopt(state, tree)
        for row in rows:
            self._join(state, row)
        self.dirty[job.key] = state

    def drop_job(self, key: specs.Key) -> None:
        """Forget a job; its tasks stay and wait for it."""
        state = self.jobs.get(key)
        if state is None or state.spec is None:
            return
        self.version += 1
        rows = sorted(state.rows)
        for row in rows:
            self._leave(state, row)
        self._release(state)
        self.by_account[state.account].pop(key, None)
        state.spec = None
        self.marked_stale.pop(key, None)
        self.bounded.pop(key, None)
        self.set_aside.pop(("job", "/".join(key)), None)
        for row in rows:
            self._join(state, row)
        self.dirty[key] = state
        self._forget_empty(state)

    def _job(self, key: specs.Key) -> JobState:
        state = self.jobs.get(key)
        if state is None:
            state = self.jobs[key] = JobState(key)
        return state

    def _forget_empty(self, state: JobState) -> None:
        if state.spec is None and not state.rows:
            self.jobs.pop(state.key, None)
            self.pending.pop(state.key, None)
            self.stale.pop(state.key, None)
            self.dirty.pop(state.key, None)

    def _adopt(self, state: JobState, tree: gangs.Group) -> None:
        columns = self.tables
        account = self._ledger(state.account).index
        fixed = not state.preemptible
        state.tree = tree
        state.leaves = list(gangs.podsets(tree))
        for leaf in state.leaves:
            if self._free_podsets:
                leaf.index = self._free_podsets.pop()
            else:
                leaf.index = len(columns.podset_account)
                columns.podset_account.append(0)
                columns.podset_fixed.append(0)
                self.podset_job.append(state)
                columns.counts.extend([0] * status.COUNT)
            self.podset_job[leaf.index] = state
            columns.podset_account[leaf.index] = account
            columns.podset_fixed[leaf.index] = fixed
        state.index = {leaf.name: leaf for leaf in state.leaves}

    def _release(self, state: JobState) -> None:
        self._free_podsets.extend(leaf.index for leaf in state.leaves)
        state.tree = None
        state.leaves = []
        state.index = {}

    def _ledger(self, name: Account) -> Ledger:
        ledger = self.ledgers.get(name)
        if ledger is None:
            ledger = Ledger(len(self.tables.accounts), 3 + len(self.tables.extras))
            self.ledgers[name] = ledger
            self.tables.accounts.append((ledger,))
        return ledger

    # -- tasks -------------------------------------------------------------------------------

    def put_task(self, task: specs.Task) -> None:
        """Add or replace a task; its uid is its identity."""
        self.version += 1
        kind = ("task", f"{task.namespace}/{task.name}")
        self.set_aside.pop(kind, None)
        self.refused.pop(task.uid, None)
        row = self.row_of.get(task.uid)
        old = self.tables.tasks[row] if row is not None else None
        if row is not None and old is not None and _same_but_state(old, task):
            self.tables.tasks[row] = task
            self.settle_task(row)
            self._touch(task.job)
            return
        if row is not None:
            self.drop_task(task.uid)
        try:
            validation.task(task)
        except errors.SetAside as problem:
            self.set_aside[kind] = str(problem)
            self.refused[task.uid] = task
            self._touch(task.job)
            return
        self._append(task)

    def drop_task(self, uid: str) -> None:
        """Forget a task."""
        refused = self.refused.pop(uid, None)
        if refused is not None:
            self.version += 1
            self.set_aside.pop(("task", f"{refused.namespace}/{refused.name}"), None)
        row = self.row_of.pop(uid, None)
        if row is None:
            return
        self.version += 1
        columns = self.tables
        task = columns.tasks[row]
        self.move(row, status.DELETED, NOWHERE)
        if task is not None and task.job is not None:
            state = self.jobs[task.job]
            self._leave(state, row)
            state.rows.discard(row)
            self.dirty[task.job] = state
            self._forget_empty(state)
        if task is not None:
            self.awaiting_node.get(task.node, set()).discard(row)
            for claim in fold_nodes.claim_keys(task):
                users = self.claim_users[claim]
                users.discard(row)
                if not users:
                    del self.claim_users[claim]
            for key, values in self._labelled.items():
                if task.labels.get(key) in values:
                    values[task.labels[key]].discard(row)
        columns.tasks[row] = None
        columns.task_groups.pop(row, None)
        self.with_terms.discard(row)
        self.foreign.discard(row)
        self.claiming.discard(row)
        self._free_rows.append(row)

    def labelled(self, key: str, values: Iterable[str]) -> list[int]:
        """Return the rows of tasks with one of these values of a label."""
        index = self._labelled.get(key)
        if index is None:
            if len(self._labelled) >= _MOST_KEYS:
                self._labelled.clear()
            index = self._labelled[key] = {}
            for row, task in enumerate(self.tables.tasks):
                if task is not None and key in task.labels:
                    index.setdefault(task.labels[key], set()).add(row)
        return [row for value in dict.fromkeys(values) for row in sorted(index.get(value, ()))]

    def shape(self, task: specs.Task) -> shapes.Shape:
        """Return the shape of a task, one object for equal requests."""
        key = shapes.key_of(task)
        shape = self._shapes.get(key)
        if shape is None:
            shape = shapes.Shape(task, len(self._shapes), self.tables.dimensions)
            self._shapes[key] = shape
            self.shapes_by_index.append(shape)
            self.widen()
        shape.fit(len(self.tables.dimensions))
        return shape

    def prune_shapes(self) -> None:
        """Forget shapes that no task has any more, once they are many."""
        columns = self.tables
        if len(self.shapes_by_index) < _FEW_SHAPES:
            return
        live = {
            shape.index: shape
            for shape, task in zip(columns.shape_of, columns.tasks, strict=True)
            if task is not None
        }
        if len(self.shapes_by_index) < 4 * len(live):
            return
        renumbered = {old: new for new, old in enumerate(sorted(live))}
        self.shapes_by_index = [live[old] for old in sorted(live)]
        self._shapes = {shape.key: shape for shape in self.shapes_by_index}
        for ledger in self.ledgers.values():
            ledger.memory = collections.Counter(
                {renumbered[old]: number for old, number in ledger.memory.items() if number}
            )
        for shape in self.shapes_by_index:
            shape.index = renumbered[shape.index]

    def _append(self, task: specs.Task) -> None:
        columns = self.tables
        shape = self.shape(task)
        if self._free_rows:
            row = self._free_rows.pop()
            columns.tasks[row] = task
            columns.shape_of[row] = shape
            columns.status[row] = status.DELETED
        else:
            row = len(columns.tasks)
            columns.tasks.append(task)
            columns.shape_of.append(shape)
            columns.status.append(status.DELETED)
            columns.node.append(NOWHERE)
            columns.podset.append(-1)
        self.row_of[task.uid] = row
        wanted = task.constraints
        if wanted.pod_anti_affinity or wanted.pod_affinity or wanted.ports:
            self.with_terms.add(row)
        for key, values in self._labelled.items():
            if key in task.labels:
                values.setdefault(task.labels[key], set()).add(row)
        if task.foreign:
            self.foreign.add(row)
        for claim in fold_nodes.claim_keys(task):
            self.claiming.add(row)
            self.claim_users.setdefault(claim, set()).add(row)
        if task.job is not None:
            state = self._job(task.job)
            state.rows.add(row)
            self._join(state, row)
            self.dirty[task.job] = state
        self.settle_task(row)

    def _touch(self, key: specs.Key | None) -> None:
        state = self.jobs.get(key) if key is not None else None
        if state is not None:
            self.dirty[state.key] = state

    def move(self, row: int, state: int, node: int, groups: tuple[str, ...] = ()) -> None:
        """Move a task, and keep what its queue waits for."""
        columns = self.tables
        podset = columns.podset[row]
        if podset >= 0:
            waited, waits = columns.status[row] == status.PENDING, state == status.PENDING
            if waited != waits:
                self._await(podset, columns.shape_of[row], 1 if waits else -1)
        super().move(row, state, node, groups)

    def _await(self, podset: int, shape: shapes.Shape, sign: int) -> None:
        ledger = self.tables.accounts[self.tables.podset_account[podset]][0]
        if isinstance(ledger, Ledger):
            for r, amount in enumerate(self.tables.charge(shape, NOWHERE)):
                ledger.pending[r] += sign * amount
            if shape.kind == shapes.MEMORY:
                ledger.memory[shape.index] += sign

    def _join(self, state: JobState, row: int) -> None:
        """Count the task in its pod set; its present state stays."""
        columns = self.tables
        task = columns.tasks[row]
        leaf = None
        if task is not None:
            leaf = state.index.get(task.subgroup or gangs.DEFAULT)
        if leaf is None:
            state.invalid.add(row)
            return
        now, node, groups = self._lift(row)
        columns.podset[row] = leaf.index
        columns.counts[leaf.index * status.COUNT + columns.status[row]] += 1
        leaf.rows.append(row)
        state.sorted_by = None
        self.move(row, now, node, groups)

    def _leave(self, state: JobState, row: int) -> None:
        columns = self.tables
        state.invalid.discard(row)
        podset = columns.podset[row]
        if podset < 0:
            return
        now, node, groups = self._lift(row)
        columns.counts[podset * status.COUNT + columns.status[row]] -= 1
        columns.podset[row] = -1
        for leaf in state.leaves:
            if leaf.index == podset:
                leaf.rows.remove(row)
        self.move(row, now, node, groups)

    def _lift(self, row: int) -> tuple[int, int, tuple[str, ...]]:
        """Take a task off the books for a moment, so that joining or leaving is charged once."""
        columns = self.tables
        was = columns.status[row], columns.node[row], columns.task_groups.get(row, ())
        self.move(row, status.DELETED, NOWHERE)
        return was


def _same_but_state(old: specs.Task, new: specs.Task) -> bool:
    return (
        old.job == new.job
        and old.subgroup == new.subgroup
        and old.foreign == new.foreign
        and old.labels == new.labels
        and (old.priority, old.created, old.leader) == (new.priority, new.created, new.leader)
        and shapes.key_of(old) == shapes.key_of(new)
    )
