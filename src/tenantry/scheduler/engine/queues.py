"""The queue tree of one session: what each queue may hold, holds and asks for.

Vectors are lists in the order of `resources.ACCOUNTED`: CPU in milli, memory in bytes, GPUs in
milli, then whatever else queues account for. `UNLIMITED` stands for "no bound".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

UNLIMITED = -1
Amount = int | float
Vector = list[Amount]

#: Resources that every queue shares fairly: CPU, memory, GPU.
FAIR = (0, 1, 2)
GPU_UNIT = 1000
ZERO_SHARE_WEIGHT = 1000


class Queue:
    """One queue with its arithmetic; `share` is what it may hold before it counts as over."""

    __slots__ = (
        "allocated",
        "allocated_fixed",
        "borrow",
        "children",
        "created",
        "fair",
        "index",
        "lend",
        "limit",
        "name",
        "of_user",
        "parent",
        "preempt_min_runtime",
        "priority",
        "quota",
        "reclaim_min_runtime",
        "request",
        "share",
        "title",
        "uid",
        "usage",
        "users",
        "weight",
    )

    def __init__(
        self, name: str, *, index: int = 0, uid: str | None = None, width: int = 3
    ) -> None:
        self.name = name
        self.title = name
        self.index = index
        self.uid = name if uid is None else uid
        self.parent: Queue | None = None
        self.children: list[Queue] = []
        self.priority = 100
        self.created = 0.0
        self.quota: Vector = [0] * width
        self.limit: Vector = [UNLIMITED] * width
        self.weight: Vector = [1] * width
        self.fair: Vector = [0] * width
        self.share: Vector = [0] * width
        self.request: Vector = [0] * width
        self.usage: list[float] = [0.0] * width
        self.allocated: Vector = [0] * width
        #: The part of `allocated` that belongs to non-preemptible jobs.
        self.allocated_fixed: Vector = [0] * width
        self.preempt_min_runtime: float | None = None
        self.reclaim_min_runtime: float | None = None
        #: How much of an idle quota siblings may use, and how much beyond its own this may use.
        self.lend: Vector = [UNLIMITED] * width
        self.borrow: Vector = [UNLIMITED] * width
        #: Its jobs are divided fairly between their users, each a child that is `of_user`.
        self.users = False
        self.of_user = False

    def path(self) -> Iterator[Queue]:
        """Yield this queue, then its ancestors up to the root."""
        queue: Queue | None = self
        while queue is not None:
            yield queue
            queue = queue.parent

    def refresh_share(self) -> None:
        """Recompute the allocatable share from quota, fair share and limit."""
        self.share = [
            allocatable(quota, fair, limit)
            for quota, fair, limit in zip(self.quota, self.fair, self.limit, strict=True)
        ]


def allocatable(quota: Amount, fair: Amount, limit: Amount) -> Amount:
    """Return what a queue may hold of one resource before it counts as over."""
    if quota == UNLIMITED:
        return limit
    wanted = max(quota, fair)
    return wanted if limit == UNLIMITED else min(limit, wanted)


def over(amount: Amount, bound: Amount) -> bool:
    """Tell whether an amount exceeds a bound, either of which may be unlimited."""
    if bound == UNLIMITED:
        return False
    return amount == UNLIMITED or amount > bound


def exceeds_any(amounts: Sequence[Amount], bounds: Sequence[Amount]) -> bool:
    """Tell whether some resource of `amounts` is above its bound."""
    for amount, bound in zip(amounts, bounds, strict=False):
        if bound != UNLIMITED and (amount > bound or amount == UNLIMITED):
            return True
    return False


def plus(left: Sequence[Amount], right: Sequence[Amount]) -> Vector:
    """Add two vectors."""
    return [a + b for a, b in zip(left, right, strict=True)]


def dominant(
    held: Sequence[Amount],
    share: Sequence[Amount],
    total: Sequence[Amount],
    units: Sequence[int] = (1, 1, 1),
) -> float:
    """Return the largest ratio of what is held to what may be held.

    :param units: how much one of each resource is: what may not be held at all weighs by number
    """
    worst = 0.0
    for r in FAIR:
        amount, bound = held[r], share[r]
        if not amount:
            continue
        if bound == UNLIMITED:
            bound = total[r]
        ratio = amount / bound if bound else amount * ZERO_SHARE_WEIGHT / units[r]
        worst = max(worst, ratio)
    return worst


def compare(
    left: Queue,
    right: Queue,
    left_job: Sequence[Amount],
    right_job: Sequence[Amount],
    total: Sequence[Amount],
    *,
    units: Sequence[int] = (1, 1, 1),
) -> int:
    """Order two siblings, each seen with its best next job: -1 left first, 1 right, 0 equal.

    For victims the "job" is what would be taken away, negated.
    """
    over_left, over_right = _above_fair(left), _above_fair(right)
    if over_left != over_right:
        return 1 if over_left else -1
    left_with = [a + b for a, b in zip(left.allocated, left_job, strict=True)]
    right_with = [a + b for a, b in zip(right.allocated, right_job, strict=True)]
    starved_left = not exceeds_any(left_with, left.quota)
    starved_right = not exceeds_any(right_with, right.quota)
    if starved_left != starved_right:
        return -1 if starved_left else 1
    if left.priority != right.priority:
        return -1 if left.priority > right.priority else 1
    barred_left, barred_right = _uses_no_share(left, left_with), _uses_no_share(right, right_with)
    if barred_left != barred_right:
        return 1 if barred_left else -1
    for held_left, held_right in (
        (left_with, right_with),
        (left.allocated, right.allocated),
    ):
        share_left = dominant(held_left, left.share, total, units)
        share_right = dominant(held_right, right.share, total, units)
        if share_left != share_right:
            return -1 if share_left < share_right else 1
    smaller = _smaller_share(left.share, right.share)
    if smaller:
        return smaller
    if left.created != right.created:
        return -1 if left.created < right.created else 1
    return 0


def _above_fair(queue: Queue) -> bool:
    fair, held = queue.fair, queue.allocated
    return all(over(held[r], fair[r]) for r in FAIR)


def _uses_no_share(queue: Queue, held: Sequence[Amount]) -> bool:
    return any(queue.share[r] == 0 and held[r] > 0 for r in FAIR)


def _smaller_share(left: Sequence[Amount], right: Sequence[Amount]) -> int:
    less = more = False
    for r in FAIR:
        less = less or over(right[r], left[r]) or (right[r] == UNLIMITED != left[r])
        more = more or over(left[r], right[r]) or (left[r] == UNLIMITED != right[r])
    if less == more:
        return 0
    return -1 if less else 1


def levelled(left: Queue, right: Queue) -> tuple[Queue, Queue]:
    """Return the two ancestors just below the lowest common one; the tops in different trees."""
    up_left, up_right = list(left.path())[::-1], list(right.path())[::-1]
    depth = 0
    while depth < min(len(up_left), len(up_right)) - 1 and up_left[depth] is up_right[depth]:
        depth += 1
    return up_left[depth], up_right[depth]
