"""Start what fits: jobs in queue order, gangs all or nothing, growing ones a pod at a time."""

from __future__ import annotations

from collections.abc import Iterator

from tenantry.scheduler.engine import job_order, plugin, session, starting

NAME = starting.ACTION


class Allocate:
    """Binds pending tasks to nodes, or plans them onto nodes that others are leaving."""

    name = NAME

    def run(self, session: session.Session) -> Iterator[None]:
        """Serve jobs until none is left."""
        order = yield from job_order.of_pending(session, self.name, lambda _: True)
        while (served := order.pop()) is not None:
            job, rows = served
            if rows and (yield from starting.attempt(session, job, rows)):
                if any(session.state.pending(leaf.index) for leaf in job.leaves):
                    order.push(job)
            yield


def build() -> plugin.Action:
    """Return the action."""
    return Allocate()
