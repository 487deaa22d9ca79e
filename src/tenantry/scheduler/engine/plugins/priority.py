"""Serve jobs of higher priority first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.scheduler.engine import plugin, session


class Priority:
    """Orders jobs of one queue by the value of their priority class."""

    name = "priority"

    def open(self, session: session.Session) -> None:
        """Register the key."""
        session.points.job_keys.append(_key)


def _key(job: plugin.JobState) -> int:
    assert job.spec is not None
    return -job.spec.priority


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin; it takes no arguments."""
    del arguments
    return Priority()
