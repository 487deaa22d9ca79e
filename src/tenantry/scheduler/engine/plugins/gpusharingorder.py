"""Send fractions to nodes where an already shared GPU has room for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tenantry.scheduler.engine import devices, plugin, resources, session, shapes

SCORE = 10_000.0


class _Shared:
    fixed = False

    def __init__(self, session: session.Session, shape: shapes.Shape) -> None:
        self._state = session.state
        self._shape = shape

    def everywhere(self) -> resources.Floats:
        score = np.zeros(len(self._state.nodes.names))
        for node in self._state.groups:
            score[node] = self.at(node)
        return score

    def at(self, node: int) -> float:
        groups = self._state.groups.get(node)
        if not groups:
            return 0.0
        capacity = self._state.nodes.gpu_memory[node]
        memory = self._shape.memory_on(capacity)
        if any(devices.fits(group, capacity, memory) for group in groups.values()):
            return SCORE
        return 0.0


class GpuSharingOrder:
    """Scores nodes with a matching shared device."""

    name = "gpusharingorder"

    def open(self, session: session.Session) -> None:
        """Register the score."""

        def make(shape: shapes.Shape) -> plugin.NodeScore | None:
            return _Shared(session, shape) if shape.shared else None

        session.points.node_scores.append(make)


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin; it takes no arguments."""
    del arguments
    return GpuSharingOrder()
