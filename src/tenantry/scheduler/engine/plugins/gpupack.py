"""Fill the fullest shared GPU of a node first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.scheduler.engine import plugin, session


class GpuPack:
    """Scores devices by their used part; a whole one comes in as -1."""

    name = "gpupack"

    def open(self, session: session.Session) -> None:
        """Register the score."""
        session.points.device_scores.append(_score)


def _score(used: float) -> float:
    return max(used, 0.0)


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin; it takes no arguments."""
    del arguments
    return GpuPack()
