"""Raise the priority of jobs that wait, so that none waits for ever. Off by default.

Arguments: `interval` (duration, default 10m), `step` (default 1) and `max` (default 20): a job
that has waited three intervals counts three steps more. Only the order within a queue changes;
who may be preempted is decided by the priorities as written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.scheduler.engine import durations, plugin, session


class Aging:
    """Adds to the priority by time waited."""

    name = "aging"

    def __init__(self, interval: float, step: int, most: int) -> None:
        self._interval = max(interval, 1.0)
        self._step = step
        self._most = most

    def open(self, session: session.Session) -> None:
        """Register the boost."""
        now = session.now

        def boost(job: plugin.JobState) -> int:
            spec = job.spec
            if spec is None or any(session.state.active(leaf.index) for leaf in job.leaves):
                return 0
            waited = max(now - max(spec.created, spec.last_eviction or 0.0), 0.0)
            return min(int(waited // self._interval) * self._step, self._most)

        session.points.priority_boosts.append(boost)


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin with its interval, step and ceiling."""
    return Aging(
        durations.seconds(arguments.get("interval"), 600.0),
        int(arguments.get("step", 1)),
        int(arguments.get("max", 20)),
    )
