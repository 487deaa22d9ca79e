"""Stop jobs that have run longer than they may. Off by default: add `maxruntime` to the actions."""

from __future__ import annotations

from collections.abc import Iterator

from tenantry.scheduler.engine import plugin, session, statement, status

NAME = "maxruntime"


class MaxRuntime:
    """Evicts all pods of a job whose maximum runtime is over; its owner decides what follows."""

    name = NAME

    def run(self, session: session.Session) -> Iterator[None]:
        """Look at the jobs that have a maximum."""
        for key, job in sorted(session.observed.bounded.items()):
            spec = job.spec
            if spec is None or spec.max_runtime is None:
                continue
            started = session.started.get(key, spec.started)
            if started is None or session.now < started + spec.max_runtime:
                continue
            journal = statement.Statement(session)
            for leaf in job.leaves:
                for row in leaf.rows:
                    if status.IS_ALLOCATED[session.state.status[row]]:
                        journal.evict(row)
            yield from journal.commit(NAME)
            yield


def build() -> plugin.Action:
    """Return the action."""
    return MaxRuntime()
