"""Stop gangs that go on without their minimum: they hold what they cannot use."""

from __future__ import annotations

from collections.abc import Iterator

from tenantry.scheduler.engine import fold_jobs, observed, plugin, session, statement, status

NAME = "stalegangeviction"


class StaleGangEviction:
    """Evicts what is left of a gang after its grace."""

    name = NAME

    def run(self, session: session.Session) -> Iterator[None]:
        """Mark, unmark and evict."""
        for key, job in session.observed.marked_stale.items():
            if not observed.is_stale(job, session.state):
                session.decisions.stale_since[key] = None
        for key, job in sorted(session.observed.stale.items()):
            if job.spec is not None and observed.is_stale(job, session.state):
                since = job.spec.stale_since
                if since is None:
                    since = session.decisions.stale_since[key] = session.now
                grace = job.spec.staleness_grace
                grace = session.config.staleness_grace if grace is None else grace
                if grace >= 0 and since + grace <= session.now:
                    yield from _evict(session, job)
            yield


def _evict(session: session.Session, job: fold_jobs.JobState) -> Iterator[None]:
    journal = statement.Statement(session)
    for leaf in job.leaves:
        for row in leaf.rows:
            if status.IS_ALLOCATED[session.state.status[row]]:
                journal.evict(row)
    yield from journal.commit(NAME)


def build() -> plugin.Action:
    """Return the action."""
    return StaleGangEviction()
