"""Let a job take the place of less important ones of its own queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tenantry.scheduler.engine import evicting, fold_jobs, plugin, session, solver

NAME = "preempt"


class Preempt:
    """Evicts pods of strictly lower priority within a queue."""

    name = NAME

    def run(self, session: session.Session) -> Iterator[None]:
        """Let each pending job look for victims."""
        for found in evicting.eligible(session, self.name):
            if found is None:
                yield
                continue
            job, rows, failures = found
            if evicting.allowed(session, job, rows, session.points.may_preempt):
                points = session.points
                filters = [
                    _below(_priority(job)),
                    *(make(job, rows) for make in points.preempt_victims),
                ]
                search = solver.Search(
                    session,
                    NAME,
                    job,
                    rows,
                    evicting.victims(session, job, filters, own_queue=True),
                    points.preempt_validators,
                )
                yield from evicting.attempt(search, failures)
            if session.out_of_time():
                return
            yield


def _priority(job: fold_jobs.JobState) -> int:
    return job.spec.priority if job.spec is not None else 0


def _below(priority: int) -> Callable[[fold_jobs.JobState], bool]:
    return lambda victim: _priority(victim) < priority


def build() -> plugin.Action:
    """Return the action."""
    return Preempt()
