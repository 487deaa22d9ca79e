"""Serve jobs that lack their minimum before those that have it, and growing ones last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.scheduler.engine import gangs, plugin, session


class Elastic:
    """Orders jobs of one queue by how far they are above their gang's minimum."""

    name = "elastic"

    def open(self, session: session.Session) -> None:
        """Register the key."""
        state = session.state
        session.points.job_keys.append(
            lambda job: gangs.elasticity(job.leaves, state, session.imagined)
        )


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin; it takes no arguments."""
    del arguments
    return Elastic()
