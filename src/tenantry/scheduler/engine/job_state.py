"""What is kept for each job, and for each queue and user whether or not the queue exists."""

from __future__ import annotations

import collections

from tenantry.scheduler.engine import gangs, specs

#: Queue and user.
Account = tuple[str, str]


class Ledger:
    """What the jobs of one queue and user hold and wait for, whether or not the queue exists."""

    __slots__ = ("allocated", "allocated_fixed", "index", "memory", "pending")

    def __init__(self, index: int, width: int) -> None:
        self.index = index
        self.allocated: list[int | float] = [0] * width
        self.allocated_fixed: list[int | float] = [0] * width
        self.pending: list[int | float] = [0] * width
        #: Pending tasks that ask for GPU memory, by shape: their share depends on the cluster.
        self.memory: collections.Counter[int] = collections.Counter()


class JobState:
    """A job with its gang and tasks; `tree` is None while it is set aside."""

    __slots__ = (
        "account",
        "index",
        "invalid",
        "key",
        "leaves",
        "preemptible",
        "queue",
        "rows",
        "sorted_by",
        "spec",
        "tree",
    )

    def __init__(self, key: specs.Key) -> None:
        self.key = key
        self.spec: specs.Job | None = None
        self.queue = ""
        #: Under which name it is charged: its queue, or its queue and user.
        self.account = ("", "")
        self.preemptible = False
        self.tree: gangs.Group | None = None
        self.leaves: list[gangs.PodSet] = []
        self.index: dict[str, gangs.PodSet] = {}
        self.rows: set[int] = set()
        #: Tasks that name no subgroup of this job.
        self.invalid: set[int] = set()
        #: What the rows of the leaves are sorted by; None when they are not.
        self.sorted_by: object = None
