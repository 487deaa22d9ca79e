"""One cycle's view of the cluster: a copy to change, the queue tree, and what plugins registered."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator, Sequence

from tenantry.scheduler.engine import (
    assumed,
    config,
    decisions,
    fold_jobs,
    gangs,
    observed,
    plugin,
    queue_tree,
    queues,
    ranking,
    reasons,
    registry,
    shapes,
    statement,
    status,
    tables,
)

JobState = fold_jobs.JobState


class Session:
    """Everything an action may look at and change; thrown away at the end of the cycle."""

    def __init__(
        self,
        seen: observed.Observed,
        settings: config.Config,
        *,
        now: float,
        clock: Callable[[], float] | None = None,
        pending_writes: assumed.Assumed | None = None,
    ) -> None:
        seen.settle()
        self.observed = seen
        self.config = settings
        self.now = now
        #: A clock for budgets; without one they never end.
        self.clock: Callable[[], float] = clock or (lambda: 0.0)
        self.state = seen.tables.fork()
        self.queues, self.rejected_queues = queue_tree.build(
            seen.queues,
            seen.ledgers,
            self.state.extras,
            full_hierarchy=settings.full_hierarchy,
        )
        self.roots = [queue for queue in self.queues.values() if queue.parent is None]
        self._leaves = {
            account: queue_tree.of_account(self.queues, account) for account in seen.ledgers
        }
        self.state.accounts = [
            [] if leaf is None else list(leaf.path()) for leaf in self._leaves.values()
        ]
        if pending_writes is not None:
            pending_writes.overlay(seen, self.state)
        self.total: list[queues.Amount] = [0] * (3 + len(self.state.extras))
        self.decisions = decisions.Decisions(self.state)
        self.points = plugin.Points()
        self.ranker = ranking.Ranker(self)
        self.started: dict[tuple[str, str], float] = {}
        self.smallest_gpu, self.largest_gpu = self._gpu_memories()
        self._order_signature = tuple((p.name, repr(p.arguments)) for p in settings.plugins)
        #: Jobs whose attempt raised; they are left alone for the rest of the cycle.
        self.faulty: set[tuple[str, str]] = set()
        #: The statement that is being tried; a fault undoes it.
        self.journal: statement.Statement | None = None
        #: A commit is under way: the cycle must not end before it is through.
        self.committing = False
        #: Time at which the running action gives up searching; 0: never.
        self.deadline = 0.0
        #: Tasks by pod set that are thought gone while victims are being chosen.
        self.imagined: dict[int, int] = {}
        #: Jobs of each queue that could be evicted, in serving order.
        self.evictable: dict[str, list[JobState]] = {}
        #: Scratch space of plugins, by plugin name.
        self.notes: dict[str, object] = {}

    def opening(self) -> Iterator[None]:
        """Open the plugins, each in one step or more: thousands of claims take a while."""
        for choice in self.config.plugins:
            yield
            yield from registry.make_plugin(choice.name, choice.arguments).open(self) or ()

    def retire(self) -> None:
        """Let go of what only its own cycle needed, so that little is left for the collector."""
        self.ranker.clear()
        self.notes.clear()

    # -- moves -------------------------------------------------------------------------------

    def placement(self, row: int) -> statement.Placement:
        """Return where a task is now."""
        columns = self.state
        return columns.status[row], columns.node[row], columns.task_groups.get(row, ())

    def move(self, row: int, state: int, node: int, groups: tuple[str, ...] = ()) -> None:
        """Move a task and tell the plugins that asked; only statements call this.

        All are told even when one raises, since they would miscount otherwise.
        """
        if self.points.moved:
            before = self.state.node[row]
            self.state.move(row, state, node, groups)
            fault: Exception | None = None
            for tell in self.points.moved:
                try:
                    tell(row, before, node)
                except Exception as problem:
                    fault = fault or problem
            if fault is not None:
                raise fault
        else:
            self.state.move(row, state, node, groups)

    # -- jobs --------------------------------------------------------------------------------

    def leaf(self, job: JobState) -> queues.Queue | None:
        """Return the job's queue if jobs may sit there."""
        queue = self._leaves.get(job.account)
        return queue if queue is not None and not queue.children else None

    def accounts_of(self, queue: queues.Queue) -> list[fold_jobs.Account]:
        """Return the accounts whose jobs sit in a queue."""
        return [account for account, leaf in self._leaves.items() if leaf is queue]

    def candidates(self) -> list[JobState]:
        """Return the pending jobs that may be tried; note why the others may not."""
        return [job for job in list(self.observed.pending.values()) if self.may_try(job)]

    def may_try(self, job: JobState) -> bool:
        """Tell whether a job has pending tasks and nothing in its own state is in the way."""
        pending = self.state.pending
        if job.key in self.faulty or not any(pending(leaf.index) for leaf in job.leaves):
            return False
        reason = self._obstacle(job)
        if reason is not None:
            self.refuse(job, reason)
        return reason is None

    def _obstacle(self, job: JobState) -> reasons.Reason | None:
        spec = job.spec
        if spec is None or job.tree is None:
            return reasons.Reason(reasons.INVALID, "the pod group is not valid")
        if spec.held:
            return reasons.Reason(reasons.HELD, spec.held)
        if len(job.rows) > gangs.MOST_TASKS:
            return reasons.Reason(
                reasons.INVALID,
                f"the job has {len(job.rows)} pods; accepted is at most {gangs.MOST_TASKS}",
                {"pods": len(job.rows), "bound": gangs.MOST_TASKS},
                "divide the job, or delete pods",
            )
        queue = self.queues.get(spec.queue)
        if queue is None:
            why = self.rejected_queues.get(spec.queue)
            message = f"Queue '{spec.queue}' does not exist"
            if why:
                message = f"Queue '{spec.queue}' cannot be used: {why}"
            return reasons.Reason(
                reasons.NO_QUEUE, message, {"queue": spec.queue}, "create the queue or name another"
            )
        if self.leaf(job) is None:
            return reasons.Reason(
                reasons.NO_QUEUE,
                f"Queue '{spec.queue}' has child queues; jobs may only sit in leaf queues",
                {"queue": spec.queue, "children": [child.name for child in queue.children]},
                "name one of its child queues",
            )
        if not gangs.ready(job.tree, self.state):
            return self._not_ready(job)
        return None

    def _not_ready(self, job: JobState) -> reasons.Reason:
        state = self.state
        minimum = sum(leaf.minimum for leaf in job.leaves)
        exist = sum(gangs.alive(leaf, state) for leaf in job.leaves)
        gated = sum(state.in_state(leaf.index, status.GATED) for leaf in job.leaves)
        return reasons.Reason(
            reasons.NOT_READY,
            f"Job is not ready for scheduling. Waiting for {minimum} pods, "
            f"currently {exist} exist, {gated} are gated",
            {"minimum": minimum, "exist": exist, "gated": gated, "invalid": len(job.invalid)},
            "create the missing pods or lower minMember",
        )

    def job_of(self, row: int) -> JobState | None:
        """Return the job of a task."""
        podset = self.state.podset[row]
        return self.observed.podset_job[podset] if podset >= 0 else None

    def recover(self, job: JobState, problem: Exception) -> None:
        """Undo what an attempt left behind when it failed by a fault, and set the job aside."""
        self.undo()
        self.imagined = {}
        self.faulty.add(job.key)
        self.decisions.errors.append(f"{'/'.join(job.key)}: {problem!r}")
        self.refuse(job, reasons.Reason(reasons.INTERNAL, f"internal error: {problem!r}"))

    def undo(self) -> None:
        """Undo the statement that is being tried, after a fault or at the end of the time."""
        if self.journal is not None:
            try:
                self.journal.rollback()
            except Exception as problem:
                # Everything is back where it was; a plugin that was told so did not like it.
                self.decisions.errors.append(f"undoing: {problem!r}")

    def refuse(self, job: JobState, reason: reasons.Reason) -> None:
        """Note why a job did not start; the first reason of each code is kept."""
        known = self.decisions.reasons.setdefault(job.key, [])
        if all(other.code != reason.code for other in known):
            known.append(reason)

    def out_of_time(self) -> bool:
        """Tell whether the running action has used up its search budget."""
        return bool(self.deadline) and self.clock() > self.deadline

    def job_key(self, job: JobState) -> tuple[object, ...]:
        """Return the key by which jobs of one queue are served."""
        spec = job.spec
        assert spec is not None
        keys = self.points.job_keys
        return (*(key(job) for key in keys), spec.created, spec.name, spec.namespace)

    def sort_tasks(self, job: JobState) -> None:
        """Bring the rows of each leaf into task order; remembered between cycles."""
        if job.sorted_by == self._order_signature:
            return
        tasks, keys = self.state.tasks, self.points.task_keys

        def key(row: int) -> tuple[object, ...]:
            task = tasks[row]
            assert task is not None
            return (*(part(row) for part in keys), task.created, task.name, task.uid)

        for leaf in job.leaves:
            if len(leaf.rows) > 1:
                leaf.rows.sort(key=key)
        job.sorted_by = self._order_signature

    def charges(self, rows: Iterable[int], gpu_memory: int | None = None) -> list[queues.Amount]:
        """Return what queues would be charged for tasks; GPU memory as on such a device."""
        total: list[queues.Amount] = [0] * (3 + len(self.state.extras))
        memory = self.largest_gpu if gpu_memory is None else gpu_memory
        shape_of = self.state.shape_of
        rows = list(rows)
        counted = collections.Counter([shape_of[row] for row in rows])
        claiming = False
        for shape, number in counted.items():
            for r, amount in enumerate(self.state.charge(shape, tables.NOWHERE)):
                total[r] += amount * number
            if shape.kind == shapes.MEMORY:
                total[2] += shape.gpus_on(memory) * number
            claiming = claiming or bool(shape.constraints.claims)
        if claiming:
            claimed: set[tuple[str, str]] = set()
            total[2] += sum(self.claimed(row, claimed) for row in rows)
        return total

    def claimed(self, row: int, claimed: set[tuple[str, str]]) -> int:
        """Return the GPUs of a task's unused claims in milli, each claim once."""
        task = self.state.tasks[row]
        assert task is not None
        gpus = 0
        for name in self.state.shape_of[row].constraints.claims:
            key = task.namespace, name
            claim = self.state.claims.get(key)
            if claim is not None and key not in claimed and not claim.held():
                claimed.add(key)
                gpus += claim.gpus()
        return gpus

    def _gpu_memories(self) -> tuple[int, int]:
        sizes = [size for size in set(self.state.nodes.gpu_memory) if size > 100]
        return (min(sizes), max(sizes)) if sizes else (100, 100)

    def compare_queues(
        self,
        left: queues.Queue,
        right: queues.Queue,
        left_job: Sequence[queues.Amount],
        right_job: Sequence[queues.Amount],
    ) -> int:
        """Order siblings by the registered orders, then by age and name."""
        for order in self.points.queue_orders:
            result = order(left, right, left_job, right_job)
            if result:
                return result
        key_left, key_right = (left.created, left.uid), (right.created, right.uid)
        return -1 if key_left < key_right else 1
