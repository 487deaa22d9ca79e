"""Move running jobs together so that a job which is too large for any gap finds room."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tenantry.scheduler.engine import (
    evicting,
    plugin,
    resources,
    session,
    solver,
    specs,
    victim_order,
)

NAME = "consolidation"


class Consolidation:
    """Evicts only pods that have another place at once."""

    name = NAME

    def run(self, session: session.Session) -> Iterator[None]:
        """Let each preemptible job look for pods to move."""
        most = session.config.max_consolidation_victims
        if most == 0 or _spreads(session):
            return
        for found in evicting.eligible(
            session, self.name, only=lambda job: job.preemptible, per_queue=False
        ):
            if found is None:
                yield
                continue
            job, rows, failures = found
            if _enough(session, rows):
                search = solver.Search(
                    session,
                    NAME,
                    job,
                    rows,
                    _bounded(evicting.victims(session, job, ()), most),
                    (lambda outcome: not outcome.gone,),
                )
                yield from evicting.attempt(search, failures)
            if session.out_of_time():
                return
            yield


def _spreads(session: session.Session) -> bool:
    """Tell whether some resource is to be spread: then moving pods together works against it."""
    return any(
        choice.name == "nodeplacement" and "spread" in choice.arguments.values()
        for choice in session.config.plugins
    )


def _enough(session: session.Session, rows: list[int]) -> bool:
    """Tell whether the gaps together are large enough at all."""
    request = session.charges(rows)
    if request[2] > evicting.free_gpus(session):
        return False
    free = int(session.state.free[resources.MEMORY].clip(min=0).sum())
    return request[1] <= free


def _bounded(
    victims: Callable[[set[int]], Iterable[victim_order.Unit]], most: int
) -> Callable[[set[int]], Iterable[victim_order.Unit]]:
    return lambda gone: _first(victims(gone), most)


def _first(units: Iterable[victim_order.Unit], most: int) -> Iterator[victim_order.Unit]:
    """Yield the victims of the first jobs only."""
    jobs: set[specs.Key] = set()
    for job, rows in units:
        if job.key not in jobs and len(jobs) == most:
            return
        jobs.add(job.key)
        yield job, rows


def build() -> plugin.Action:
    """Return the action."""
    return Consolidation()
