"""Protect jobs from eviction until they have run for a while.

Arguments: `defaultPreemptMinRuntime`, `defaultReclaimMinRuntime` (durations or seconds) and
`reclaimResolveMethod`: `lca` (default) looks from just below the lowest common ancestor upwards,
`queue` from the victim's own queue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tenantry.scheduler.engine import durations, plugin, queues, session, solver, status


class MinRuntime:
    """Filters victims, and keeps the minimum of elastic ones."""

    name = "minruntime"

    def __init__(self, preempt: float, reclaim: float, method: str) -> None:
        self._preempt = preempt
        self._reclaim = reclaim
        self._method = method

    def open(self, session: session.Session) -> None:
        """Register filters and validators, unless nothing is protected."""
        protects = self._preempt > 0 or self._reclaim > 0
        for queue in session.queues.values():
            protects = protects or bool(queue.preempt_min_runtime or queue.reclaim_min_runtime)
        if not protects:
            return
        points = session.points
        points.preempt_victims.append(lambda job, rows: self._filter(session, job, rows, "preempt"))
        points.reclaim_victims.append(lambda job, rows: self._filter(session, job, rows, "reclaim"))
        points.preempt_validators.append(lambda outcome: self._valid(session, outcome, "preempt"))
        points.reclaim_validators.append(lambda outcome: self._valid(session, outcome, "reclaim"))

    def _filter(
        self, session: session.Session, job: plugin.JobState, rows: Sequence[int], action: str
    ) -> Callable[[plugin.JobState], bool]:
        del rows

        def allowed(victim: plugin.JobState) -> bool:
            return not self._protected(session, job, victim, action) or _elastic(victim)

        return allowed

    def _valid(self, session: session.Session, outcome: solver.Outcome, action: str) -> bool:
        gone = outcome.victims()
        for victim, _ in outcome.units:
            if self._protected(session, outcome.job, victim, action):
                for leaf in victim.leaves:
                    left = sum(
                        status.IS_ACTIVE[session.state.status[row]] and row not in gone
                        for row in leaf.rows
                    )
                    if left < leaf.minimum and any(row in gone for row in leaf.rows):
                        return False
        return True

    def _protected(
        self, session: session.Session, job: plugin.JobState, victim: plugin.JobState, action: str
    ) -> bool:
        started = victim.spec.started if victim.spec is not None else None
        started = session.started.get(victim.key, started)
        if started is None:
            return False
        return session.now < started + self._runtime(session, job, victim, action)

    def _runtime(
        self, session: session.Session, job: plugin.JobState, victim: plugin.JobState, action: str
    ) -> float:
        leaf = session.leaf(victim)
        if leaf is None:
            return 0.0
        if action == "preempt":
            for queue in leaf.path():
                if queue.preempt_min_runtime is not None:
                    return queue.preempt_min_runtime
            return self._preempt
        for queue in self._looked_at(leaf, session.leaf(job)):
            if queue.reclaim_min_runtime is not None:
                return queue.reclaim_min_runtime
        return self._reclaim

    def _looked_at(self, leaf: queues.Queue, reclaimer: queues.Queue | None) -> list[queues.Queue]:
        if self._method == "queue" or reclaimer is None:
            return list(leaf.path())
        _, start = queues.levelled(reclaimer, leaf)
        return list(start.path())


def _elastic(job: plugin.JobState) -> bool:
    return any(len(leaf.rows) > leaf.minimum for leaf in job.leaves)


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin with its defaults."""
    return MinRuntime(
        durations.seconds(arguments.get("defaultPreemptMinRuntime"), 0.0),
        durations.seconds(arguments.get("defaultReclaimMinRuntime"), 0.0),
        str(arguments.get("reclaimResolveMethod", "lca")),
    )
