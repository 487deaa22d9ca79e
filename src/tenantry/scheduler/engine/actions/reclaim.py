"""Take back what a queue is due from queues that hold more than theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tenantry.scheduler.engine import evicting, fold_jobs, plugin, session, solver

NAME = "reclaim"


class Reclaim:
    """Evicts pods of other queues."""

    name = NAME

    def run(self, session: session.Session) -> Iterator[None]:
        """Let each job whose queue is within its fair share look for victims."""
        points = session.points
        for found in evicting.eligible(session, self.name):
            if found is None:
                yield
                continue
            job, rows, failures = found
            if evicting.allowed(session, job, rows, points.may_reclaim):
                filters = [
                    _of_others(session, job),
                    *(make(job, rows) for make in points.reclaim_victims),
                ]
                search = solver.Search(
                    session,
                    NAME,
                    job,
                    rows,
                    evicting.victims(session, job, filters),
                    points.reclaim_validators,
                    count_moved=not session.config.consolidating_reclaim,
                )
                yield from evicting.attempt(search, failures)
            if session.out_of_time():
                return
            yield


def _of_others(
    session: session.Session, job: fold_jobs.JobState
) -> Callable[[fold_jobs.JobState], bool]:
    leaf = session.leaf(job)
    return lambda victim: session.leaf(victim) is not leaf


def build() -> plugin.Action:
    """Return the action."""
    return Reclaim()
