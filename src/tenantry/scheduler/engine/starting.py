"""Start one job: bind its tasks where there is room, or plan them where others are leaving."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tenantry.scheduler.engine import (
    explain,
    fold_jobs,
    placing,
    selection,
    statement,
    status,
    victim_order,
)

if TYPE_CHECKING:
    from tenantry.scheduler.engine import session as sessions

#: Name of the action that does nothing else.
ACTION = "allocate"


def attempt(
    session: sessions.Session, job: fold_jobs.JobState, rows: Sequence[int]
) -> placing.Steps[bool]:
    """Place the tasks and commit; note the reason otherwise. A fault concerns this job alone."""
    try:
        return (yield from _attempt(session, job, rows))
    except Exception as problem:
        session.recover(job, problem)
        return False


def _attempt(
    session: sessions.Session, job: fold_jobs.JobState, rows: Sequence[int]
) -> placing.Steps[bool]:
    journal = statement.Statement(session)
    failure = placing.Failure()
    fresh = not any(session.state.active(leaf.index) for leaf in job.leaves)
    if not (yield from placing.place_job(session, journal, job, rows, failure=failure)):
        session.refuse(job, explain.reason(session, job, rows, failure))
        rows = yield from _with_others(session, journal, job, failure)
        if not rows:
            return False
    session.decisions.reasons.pop(job.key, None)
    if _only_planned(session, job):
        for row in rows_of(job):
            if session.state.status[row] == status.ALLOCATED:
                journal.pipeline(row)
    elif fresh and any(session.state.status[row] == status.ALLOCATED for row in rows):
        session.started[job.key] = session.now
        session.decisions.started[job.key] = session.now
    yield from journal.commit(ACTION)
    victim_order.join(session, job)
    return True


def _with_others(
    session: sessions.Session,
    journal: statement.Statement,
    job: fold_jobs.JobState,
    failure: placing.Failure,
) -> placing.Steps[Sequence[int]]:
    """Try other subgroups where the gang needs only some: the first ones need not be the best."""
    avoid: set[int] = set()
    while failure.row >= 0 and job.tree is not None:
        part = selection.optional(job.tree, session.state.podset[failure.row])
        if part is None or id(part) in avoid:
            break
        avoid.add(id(part))
        rows = selection.next_tasks(session, job, avoid=avoid)
        failure = placing.Failure()
        if rows and (yield from placing.place_job(session, journal, job, rows, failure=failure)):
            return rows
    return ()


def rows_of(job: fold_jobs.JobState) -> Iterator[int]:
    """Yield the rows of all the job's tasks that belong to its gang."""
    for leaf in job.leaves:
        yield from leaf.rows


def _only_planned(session: sessions.Session, job: fold_jobs.JobState) -> bool:
    """Tell whether some pod set is planned in part and does not run its minimum without that."""
    state = session.state
    for leaf in job.leaves:
        planned = state.in_state(leaf.index, status.PIPELINED)
        if planned and state.active(leaf.index) - planned < leaf.minimum:
            return True
    return False
