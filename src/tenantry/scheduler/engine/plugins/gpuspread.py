"""Use the emptiest GPU of a node first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.scheduler.engine import plugin, session


class GpuSpread:
    """Scores devices by their used part; a whole one comes in as -1."""

    name = "gpuspread"

    def open(self, session: session.Session) -> None:
        """Register the score."""
        session.points.device_scores.append(_score)


def _score(used: float) -> float:
    return 1.0 - max(used, 0.0)


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin; it takes no arguments."""
    del arguments
    return GpuSpread()
