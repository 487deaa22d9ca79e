"""Keep the part of an idle quota that its queue does not lend.

A queue with a quota of 10 GPUs and a lending limit of 3 keeps 7 ready for itself: siblings never
hold so much that fewer than 7 are left to it, less what it uses. Borrowing limits need no plugin;
they bound the queue that borrows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tenantry.scheduler.engine import humanise, plugin, queues, reasons, resources, session


class Lending:
    """Refuses jobs that would take what siblings keep."""

    name = "lending"

    def open(self, session: session.Session) -> None:
        """Register the check if some queue keeps something."""
        if not any(bound >= 0 for queue in session.queues.values() for bound in queue.lend):
            return
        session.points.job_checks.append(lambda job, rows: _check(session, job, rows))


def _check(
    session: session.Session, job: plugin.JobState, rows: Sequence[int]
) -> reasons.Reason | None:
    leaf = session.leaf(job)
    if leaf is None:
        return None
    request = session.charges(rows)
    for level in leaf.path():
        siblings = session.roots if level.parent is None else level.parent.children
        for r, amount in enumerate(request):
            if not amount:
                continue
            kept = sum(_kept(other, r) for other in siblings if other is not level)
            if not kept:
                continue
            room = _room(session, level, r) - kept
            held = sum(other.allocated[r] for other in siblings)
            if held + amount > room and level.allocated[r] + amount > _own(level, r):
                name = (*resources.ACCOUNTED, *session.state.extras)[r]
                return reasons.Reason(
                    "LendingLimit",
                    f"queue {level.title} would take {humanise.amount(name, amount)} of what "
                    f"its siblings do not lend ({humanise.amount(name, kept)} kept)",
                    {"queue": level.name, "resource": name, "kept": kept, "requested": amount},
                    "wait, or raise the lending limit of a sibling",
                )
    return None


def _kept(queue: queues.Queue, r: int) -> queues.Amount:
    if queue.lend[r] < 0 or queue.quota[r] < 0:
        return 0
    return max(queue.quota[r] - queue.lend[r] - queue.allocated[r], 0)


def _own(queue: queues.Queue, r: int) -> queues.Amount:
    return max(queue.quota[r], 0)


def _room(session: session.Session, queue: queues.Queue, r: int) -> queues.Amount:
    for level in queue.path():
        if level is not queue and level.quota[r] >= 0:
            return max(level.quota[r], level.fair[r])
    return session.total[r]


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin; it takes no arguments."""
    del arguments
    return Lending()
