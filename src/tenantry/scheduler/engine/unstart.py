"""Take back starts of this same cycle: a later action wants their room for somebody else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tenantry.scheduler.engine import reasons, specs, status, tables

if TYPE_CHECKING:
    from tenantry.scheduler.engine import session as sessions


def task(session: sessions.Session, row: int, evictor: specs.Key | None) -> None:
    """Make a task that was to start a pending one again."""
    session.decisions.cancel(row)
    session.move(row, status.PENDING, tables.NOWHERE)
    _explain(session, row, evictor)


def _explain(session: sessions.Session, row: int, evictor: specs.Key | None) -> None:
    """Note for whom a start was taken back, unless others of the job still run."""
    job = session.job_of(row)
    if job is None or any(session.state.active(leaf.index) for leaf in job.leaves):
        return
    session.started.pop(job.key, None)
    session.decisions.started.pop(job.key, None)
    by = "/".join(evictor) if evictor else "another action"
    session.refuse(
        job,
        reasons.Reason(
            reasons.OUTRANKED,
            f"it could start, but {by} needs the room",
            {"by": by},
            "wait, or add capacity",
        ),
    )


def collapse(session: sessions.Session, evictor: specs.Key | None) -> Iterator[None]:
    """Take back also the starts that rest on one taken back, whole gangs, and so on.

    Pods near which another must be, for example: without them it may have to be elsewhere.
    """
    decided, tests = session.decisions, session.points.stands
    fallen = decided.cancelled and bool(tests)
    while fallen:
        fallen = False
        for row in decided.starting():
            if not decided.starts(row) or all(stands(row) for stands in tests):
                continue
            fallen = True
            job = session.job_of(row)
            for other in [row] if job is None else list(job.rows):
                if decided.starts(other):
                    task(session, other, evictor)
            yield
