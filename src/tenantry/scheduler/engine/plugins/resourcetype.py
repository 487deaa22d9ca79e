"""Keep tasks that need no GPU off the nodes that have some."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.scheduler.engine import plugin, resources, session, shapes

SCORE = 10.0


class _CpuOnly:
    fixed = True

    def __init__(self, score: resources.Floats) -> None:
        self._score = score

    def everywhere(self) -> resources.Floats:
        return self._score

    def at(self, node: int) -> float:
        return float(self._score[node])


class ResourceType:
    """Scores nodes without GPUs for tasks without GPUs."""

    name = "resourcetype"

    def open(self, session: session.Session) -> None:
        """Register the score."""
        state = session.state
        rows = [
            row
            for name, row in state.dimensions.index.items()
            if row == resources.GPU or resources.mig_weight(name)
        ]
        score = _CpuOnly(SCORE * (state.alloc[rows] == 0).all(axis=0))

        def make(shape: shapes.Shape) -> plugin.NodeScore | None:
            return None if shape.wants_gpu else score

        session.points.node_scores.append(make)


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin; it takes no arguments."""
    del arguments
    return ResourceType()
