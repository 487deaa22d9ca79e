"""Prefer the node that somebody nominated for the pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tenantry.scheduler.engine import plugin, resources, session, shapes

SCORE = 10_000_000.0


class _Nominated:
    fixed = True

    def __init__(self, node: int, size: int) -> None:
        self._score = np.zeros(size)
        self._score[node] = SCORE

    def everywhere(self) -> resources.Floats:
        return self._score

    def at(self, node: int) -> float:
        return float(self._score[node])


class NominatedNode:
    """Scores the nominated node above everything else."""

    name = "nominatednode"

    def open(self, session: session.Session) -> None:
        """Register the score."""
        nodes = session.state.nodes

        def make(shape: shapes.Shape) -> plugin.NodeScore | None:
            node = nodes.by_name.get(shape.constraints.nominated)
            return None if node is None else _Nominated(node, len(nodes.names))

        session.points.node_scores.append(make)


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin; it takes no arguments."""
    del arguments
    return NominatedNode()
