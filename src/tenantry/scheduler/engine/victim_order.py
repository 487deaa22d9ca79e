"""Name victims one unit at a time, in the exact reverse of the order of serving.

A unit is what must leave together: one surplus pod, a surplus subgroup, or the rest of a gang.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from tenantry.scheduler.engine import queues, selection, status

if TYPE_CHECKING:
    from tenantry.scheduler.engine import session as sessions

#: Jobs looked at between two yields.
PACE = 128
Unit = tuple["sessions.JobState", tuple[int, ...]]


def evictable(session: sessions.Session, queue: queues.Queue) -> list[sessions.JobState]:
    """Return the preemptible jobs of a queue that run something, in serving order."""
    found = session.evictable.get(queue.name)
    if found is None:
        jobs = [
            job
            for account in session.accounts_of(queue)
            for job in session.observed.by_account.get(account, {}).values()
            if job.preemptible and job.tree is not None and runs(session, job)
        ]
        found = session.evictable[queue.name] = sorted(jobs, key=session.job_key)
    # The worst go first, so that what is gone already gathers at the end.
    while found and not runs(session, found[-1]):
        found.pop()
    return found


def join(session: sessions.Session, job: sessions.JobState) -> None:
    """Count a job that just started among the victims of later searches."""
    leaf = session.leaf(job)
    found = session.evictable.get(leaf.name) if leaf is not None else None
    if found is not None and job.preemptible and runs(session, job):
        place = bisect.bisect_left(found, session.job_key(job), key=session.job_key)
        if place == len(found) or found[place] is not job:
            found.insert(place, job)


def prepare(session: sessions.Session) -> Iterator[None]:
    """Order the victims of all queues, in steps; searches would do it at once otherwise."""
    for queue in list(session.queues.values()):
        if queue.children or queue.name in session.evictable:
            continue
        keyed: list[tuple[tuple[object, ...], int, sessions.JobState]] = []
        for account in session.accounts_of(queue):
            jobs = list(session.observed.by_account.get(account, {}).values())
            for number, job in enumerate(jobs):
                if job.preemptible and job.tree is not None and runs(session, job):
                    keyed.append((session.job_key(job), len(keyed), job))
                if number % PACE == PACE - 1:
                    yield
        keyed.sort()
        session.evictable[queue.name] = [job for _, _, job in keyed]
        yield


def runs(session: sessions.Session, job: sessions.JobState) -> bool:
    """Tell whether the job has pods that could be evicted."""
    counts = session.state.counts
    for leaf in job.leaves:
        base = leaf.index * status.COUNT
        if (
            counts[base + status.RUNNING]
            or counts[base + status.BINDING]
            or counts[base + status.BOUND]
            or counts[base + status.ALLOCATED]
        ):
            return True
    return False


class _Branch:
    __slots__ = ("back", "changed", "children", "head", "jobs", "left", "queue", "session", "taken")

    # Branches do not know their order: thousands of searches must not leave cycles of garbage.
    def __init__(self, session: sessions.Session, queue: queues.Queue | None, width: int) -> None:
        self.session = session
        self.queue = queue
        self.children: list[_Branch] = []
        #: Shared between searches; the first `left` of them are still to come.
        self.jobs: list[sessions.JobState] = []
        self.left = 0
        self.head: sessions.JobState | None = None
        #: Jobs put back after a part of them was taken, worst first.
        self.back: list[_Worst] = []
        self.changed = False
        #: What was taken from here so far, negated.
        self.taken: list[queues.Amount] = [0] * width

    def __lt__(self, other: _Branch) -> bool:
        left, right = self.queue, other.queue
        assert left is not None
        assert right is not None
        return self.session.compare_queues(left, right, self.taken, other.taken) > 0


class _Worst:
    """Turns the order of a heap around."""

    __slots__ = ("job", "key")

    def __init__(self, job: sessions.JobState, key: tuple[object, ...]) -> None:
        self.job = job
        self.key = key

    def __lt__(self, other: _Worst) -> bool:
        return self.key > other.key


class VictimOrder:
    """An iteration over victims for one search."""

    def __init__(
        self,
        session: sessions.Session,
        allowed: Callable[[sessions.JobState], bool],
        *,
        gone: Collection[int] = (),
        only: queues.Queue | None = None,
    ) -> None:
        self.session = session
        self._allowed = allowed
        self._gone = set(gone)
        self._removed: dict[int, int] = {}
        for row in gone:
            self._forget(row)
        self._width = 3 + len(session.state.extras)
        self._root = _Branch(session, None, self._width)
        self._grow(session.roots if only is None else [only], self._root)

    def _forget(self, row: int) -> None:
        podset = self.session.state.podset[row]
        self._removed[podset] = self._removed.get(podset, 0) + 1

    def _grow(self, siblings: list[queues.Queue], parent: _Branch) -> None:
        for queue in sorted(siblings, key=lambda queue: queue.name):
            branch = _Branch(self.session, queue, self._width)
            if queue.children:
                self._grow(queue.children, branch)
                alive = bool(branch.children)
            else:
                branch.jobs = evictable(self.session, queue)
                branch.left = len(branch.jobs)
                alive = self._advance(branch)
            if alive:
                parent.children.append(branch)
        if len(parent.children) > 1:
            heapq.heapify(parent.children)

    def _advance(self, leaf: _Branch) -> bool:
        """Find the worst job left in a leaf."""
        if leaf.head is not None:
            return True
        while leaf.left:
            job = leaf.jobs[leaf.left - 1]
            if runs(self.session, job) and self._allowed(job):
                if not self._gone or selection.evict_unit(self.session, job, self._gone):
                    leaf.head = job
                    return True
            leaf.left -= 1
        return bool(leaf.back)

    def _take(self, leaf: _Branch) -> sessions.JobState:
        head = leaf.head
        if leaf.back:
            if head is None or leaf.back[0].key > self.session.job_key(head):
                return heapq.heappop(leaf.back).job
        assert head is not None
        leaf.left -= 1
        leaf.head = None
        return head

    def __iter__(self) -> Iterator[Unit]:
        root = self._root
        while root.children:
            path = [root]
            branch = root
            while branch.children:
                heap = branch.children
                while heap[0].changed and len(heap) > 1:
                    heap[0].changed = False
                    heapq.heapreplace(heap, heap[0])
                branch = heap[0]
                path.append(branch)
            job = self._take(branch)
            rows = tuple(selection.evict_unit(self.session, job, self._gone))
            if rows:
                self._note(path, job, rows)
            self._shed(path)
            if rows:
                yield job, rows

    def _note(self, path: list[_Branch], job: sessions.JobState, rows: tuple[int, ...]) -> None:
        state = self.session.state
        for row in rows:
            self._gone.add(row)
            self._forget(row)
            charges = state.charge(state.shape_of[row], state.node[row])
            for step in path[1:]:
                for r, amount in enumerate(charges):
                    step.taken[r] -= amount
        leaf = path[-1]
        if len(job.rows) > len(rows) and selection.evict_unit(self.session, job, self._gone):
            self.session.imagined = self._removed
            heapq.heappush(leaf.back, _Worst(job, self.session.job_key(job)))
            self.session.imagined = {}

    def _shed(self, path: list[_Branch]) -> None:
        for depth in range(len(path) - 1, 0, -1):
            branch, parent = path[depth], path[depth - 1]
            alive = bool(branch.children)
            if not alive and branch.queue is not None and not branch.queue.children:
                alive = self._advance(branch)
            if alive:
                branch.changed = True
            else:
                heapq.heappop(parent.children)
