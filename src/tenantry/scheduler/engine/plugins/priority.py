"""Serve jobs of higher priority first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.scheduler.engine import plugin, session


class Priority:
    """Orders jobs of one queue by the value of their priority class, and what others add to it."""

    name = "priority"

    def open(self, session: session.Session) -> None:
        """Register the key."""
        boosts = session.points.priority_boosts

        def key(job: plugin.JobState) -> int:
            assert job.spec is not None
            if boosts:
                return -job.spec.priority - sum(boost(job) for boost in boosts)
            return -job.spec.priority

        session.points.job_keys.append(key)


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin; it takes no arguments."""
    del arguments
    return Priority()
