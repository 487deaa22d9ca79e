"""Say why a job could not be placed, from what the attempt already knew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tenantry.scheduler.engine import humanise, placing, reasons, resources

if TYPE_CHECKING:
    from tenantry.scheduler.engine import session as sessions

_NO_NODES = "no nodes with enough resources were found"
_NODE_TEXT = "node(s) didn't have enough resources"


def reason(
    session: sessions.Session,
    job: sessions.JobState,
    rows: Sequence[int],
    failure: placing.Failure,
) -> reasons.Reason:
    """Return the reason of a failed attempt."""
    if failure.reason is not None and failure.reason.code != reasons.UNSCHEDULABLE:
        return failure.reason
    row = failure.row if failure.row >= 0 else rows[0]
    why = nodes(session, row, failure.nodes)
    extra = failure.reason.message if failure.reason is not None else ""
    counted = [f"{count} {title}" for title, count in why["nodes"].items()]
    text = ", ".join([*(counted or [_NO_NODES]), *([extra] if extra else [])])
    task = session.state.tasks[row]
    name = f"{task.namespace}/{task.name}" if task is not None else ""
    gang = max((leaf.minimum for leaf in job.leaves), default=1) > 1 and len(rows) > 1
    if gang:
        message = (
            f"Resources were found for {failure.placed} pods while {len(rows)} are required for "
            f"gang scheduling. Additional pods cannot be scheduled due to: {text}"
        )
    else:
        message = f"Resources were not found for pod {name} due to: {text}"
    details = {"pod": name, "placed": failure.placed, "required": len(rows), **why}
    return reasons.Reason(reasons.UNSCHEDULABLE, message, details, _remedy(why))


def nodes(
    session: sessions.Session, row: int, among: resources.Bools | None = None
) -> dict[str, Any]:
    """Count the nodes by the first thing that keeps the task off them."""
    state = session.state
    shape = state.shape_of[row]
    memo = session.ranker.explained.get(shape.index)
    views = [own for look in session.points.task_views if (own := look(row)) is not None]
    masks = [(own.title, own.mask) for own in views if own.mask is not None]
    seen = [mask.tobytes() for _, mask in masks]
    stamp = len(state.changed), None if among is None else among.tobytes(), *seen
    if memo is not None and memo[0] == stamp:
        return memo[1]
    size = len(state.nodes.names)
    left = np.ones(size, np.bool_) if among is None else among.copy()
    counts: dict[str, int] = {}
    if among is not None:
        counts["node(s) outside of the topology domain"] = int(size - left.sum())
    for make in session.points.node_masks:
        mask = make(shape)
        if mask is not None:
            refused = left & ~mask.everywhere()
            _count(counts, mask.title, refused)
            left &= ~refused
    for kept_off_by, own_mask in masks:
        refused = left & ~own_mask
        _count(counts, kept_off_by, refused)
        left &= ~refused
    short: dict[str, Any] = {}
    for r in shape.columns.tolist():
        need = int(shape.vector[r])
        refused = left & (state.free[r] < need)
        if refused.any():
            resource = state.dimensions.names[r]
            title = "pod number exceeded" if r == resources.PODS else None
            _count(
                counts,
                f"node(s) {title}" if title else f"{_NODE_TEXT}: {humanise.title(resource)}",
                refused,
            )
            best = int(state.free[r][left].max(initial=0))
            short[resource] = {"needed": need, "largest_free": best}
            left &= ~refused
    if shape.shared and left.any():
        column = session.ranker.column(shape)
        refused = left & (column.score == -np.inf)
        _count(counts, f"{_NODE_TEXT}: GPUs", refused)
        if refused.any():
            short["gpu"] = {"needed": shape.gpus, "largest_free": 0}
    found = {"nodes": {k: v for k, v in counts.items() if v}, "short": short, "total_nodes": size}
    session.ranker.explained[shape.index] = (stamp, found)
    return found


def _count(counts: dict[str, int], title: str, refused: resources.Bools) -> None:
    number = int(refused.sum())
    if number:
        counts[title] = counts.get(title, 0) + number


def _remedy(why: dict[str, Any]) -> str:
    parts = [
        f"{humanise.amount(name, gap['needed'])} on one node "
        f"(at most {humanise.amount(name, gap['largest_free'])} free)"
        for name, gap in why["short"].items()
        if name != "pods"
    ]
    if parts:
        return "would fit with " + " and ".join(parts)
    return "would fit on a node that meets its constraints"
