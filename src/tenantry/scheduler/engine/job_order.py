"""Serve jobs one by one in the order of queues: a heap per queue, re-sorted where it changed."""

from __future__ import annotations

import heapq
import operator
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from typing import TYPE_CHECKING

from tenantry.scheduler.engine import queues, selection

if TYPE_CHECKING:
    from tenantry.scheduler.engine import session as sessions


class _Entry:
    """A job in the heap of its queue."""

    __slots__ = ("job", "key", "request", "rows")

    def __init__(
        self, job: sessions.JobState, key: tuple[object, ...], rows: list[int] | None
    ) -> None:
        self.job = job
        self.key = key
        self.rows = rows
        self.request: list[queues.Amount] | None = None

    def __lt__(self, other: _Entry) -> bool:
        return self.key < other.key


class _Branch:
    """A queue with jobs somewhere below it."""

    __slots__ = ("changed", "children", "evicted", "jobs", "queue", "session")

    # Branches know neither their order nor their parent: thousands of simulations must not leave
    # cycles of garbage.
    def __init__(
        self, session: sessions.Session, queue: queues.Queue | None, evicted: Collection[int]
    ) -> None:
        self.session = session
        self.queue = queue
        self.evicted = evicted
        self.children: list[_Branch] = []
        self.jobs: list[_Entry] = []
        self.changed = False

    def __lt__(self, other: _Branch) -> bool:
        left, right = self.queue, other.queue
        assert left is not None
        assert right is not None
        return self.session.compare_queues(left, right, self.request(), other.request()) < 0

    def best(self) -> _Entry | None:
        """Return the job that would be served next."""
        branch = self
        while branch.children:
            branch = branch.top()
        return branch.jobs[0] if branch.jobs else None

    def top(self) -> _Branch:
        """Return the first child, putting it where it belongs if its subtree changed."""
        heap = self.children
        while heap[0].changed and len(heap) > 1:
            heap[0].changed = False
            heapq.heapreplace(heap, heap[0])
        return heap[0]

    def request(self) -> list[queues.Amount]:
        """Return what the best job below would be charged."""
        entry = self.best()
        assert entry is not None
        if entry.request is None:
            if entry.rows is None:
                entry.rows = selection.next_tasks(self.session, entry.job, self.evicted)
            entry.request = self.session.charges(entry.rows)
        return entry.request

    def empty(self) -> bool:
        """Tell whether no job is left below."""
        return not self.jobs and not self.children


#: Jobs prepared between two yields.
PACE = 128


def of_pending(
    session: sessions.Session, action: str, only: Callable[[sessions.JobState], bool]
) -> Generator[None, None, JobOrder]:
    """Order the pending jobs of a cycle that may be tried, in steps."""
    jobs: list[sessions.JobState] = []
    for number, job in enumerate(list(session.observed.pending.values())):
        if session.may_try(job) and only(job):
            jobs.append(job)
        if number % PACE == PACE - 1:
            yield
    return (
        yield from of_jobs(
            session, [(job, None) for job in jobs], depth=session.config.queue_depth.get(action)
        )
    )


def of_jobs(
    session: sessions.Session,
    jobs: Sequence[tuple[sessions.JobState, list[int] | None]],
    evicted: Collection[int] = (),
    *,
    depth: int | None = None,
) -> Generator[None, None, JobOrder]:
    """Order jobs, each with the tasks to try or None for what comes next, in steps.

    :param evicted: rows that count as pending, because a simulation has evicted them
    :param depth: keep only so many, the first ones, of each queue
    """
    leaves: dict[str, list[_Entry]] = {}
    for number, (job, rows) in enumerate(jobs):
        leaf = session.leaf(job)
        assert leaf is not None
        leaves.setdefault(leaf.name, []).append(_Entry(job, session.job_key(job), rows))
        if number % PACE == PACE - 1:
            yield
    for name, entries in leaves.items():
        entries.sort(key=_key)
        leaves[name] = entries if depth is None else entries[:depth]
        if len(entries) > PACE:
            yield
    return JobOrder(session, leaves, evicted)


class JobOrder:
    """The pending jobs of a cycle, or those of one simulation."""

    def __init__(
        self,
        session: sessions.Session,
        leaves: Mapping[str, list[_Entry]],
        evicted: Collection[int],
    ) -> None:
        self.session = session
        self._evicted = evicted
        self._branches: dict[str, _Branch] = {}
        self._root = _Branch(session, None, evicted)
        for name, entries in leaves.items():
            self._branch(session.queues[name]).jobs = entries
        self._build()

    def _branch(self, queue: queues.Queue) -> _Branch:
        branch = self._branches.get(queue.name)
        if branch is None:
            branch = self._branches[queue.name] = _Branch(self.session, queue, self._evicted)
            if queue.parent is not None:
                self._branch(queue.parent)
        return branch

    def _parent(self, branch: _Branch) -> _Branch | None:
        if branch.queue is None:
            return None
        above = branch.queue.parent
        return self._root if above is None else self._branches[above.name]

    def _build(self) -> None:
        """Attach children bottom up, so that each is compared with its jobs in place."""
        by_depth = sorted(
            self._branches.values(), key=lambda branch: (-_depth(branch.queue), _name(branch))
        )
        for branch in by_depth:
            if len(branch.children) > 1:
                heapq.heapify(branch.children)
            parent = self._parent(branch)
            assert parent is not None
            parent.children.append(branch)
        if len(self._root.children) > 1:
            heapq.heapify(self._root.children)

    def pop(self) -> tuple[sessions.JobState, list[int]] | None:
        """Take the next job with the tasks to try."""
        branch = self._root
        path = [branch]
        while branch.children:
            branch = branch.top()
            path.append(branch)
        if not branch.jobs:
            return None
        entry = heapq.heappop(branch.jobs)
        for depth in range(len(path) - 1, 0, -1):
            step = path[depth]
            if step.empty():
                heapq.heappop(path[depth - 1].children)
            else:
                step.changed = True
        if entry.rows is None:
            entry.rows = selection.next_tasks(self.session, entry.job, self._evicted)
        return entry.job, entry.rows

    def push(self, job: sessions.JobState) -> None:
        """Put a job back, to be tried for its next tasks."""
        leaf = self.session.leaf(job)
        assert leaf is not None
        branch = self._branches[leaf.name]
        was_empty = branch.empty()
        heapq.heappush(branch.jobs, _Entry(job, self.session.job_key(job), None))
        branch.changed = True
        while (parent := self._parent(branch)) is not None:
            parent_empty = parent.empty()
            if was_empty:
                branch.changed = False
                heapq.heappush(parent.children, branch)
            parent.changed = True
            was_empty = parent_empty
            branch = parent


_key = operator.attrgetter("key")


def _depth(queue: queues.Queue | None) -> int:
    return 0 if queue is None else sum(1 for _ in queue.path())


def _name(branch: _Branch) -> str:
    return branch.queue.name if branch.queue is not None else ""
