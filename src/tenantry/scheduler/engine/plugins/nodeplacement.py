"""Pack tasks onto few nodes, or spread them over many, by the resource that matters to them.

Arguments `cpu` and `gpu` are `binpack` or `spread`; a workload may choose for itself. The packing
score is the room left, mapped to 9 for none and 0 for the largest node: for ordering it equals
KAI's, which maps between the fullest and the emptiest candidate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tenantry.scheduler.engine import plugin, resources, session, shapes

BINPACK, SPREAD = "binpack", "spread"
SCALE = 9.0


class _Pack:
    fixed = False

    def __init__(self, session: session.Session, row: int) -> None:
        self._state = session.state
        self._row = row
        self._has = session.state.alloc[row] > 0
        largest = int(session.state.alloc[row].max(initial=0))
        self._rate = SCALE / largest if largest else 0.0

    def everywhere(self) -> resources.Floats:
        score: resources.Floats = SCALE - self._rate * self._state.free[self._row]
        score[~self._has] = 0.0
        return score

    def at(self, node: int) -> float:
        if not self._has[node]:
            return 0.0
        return SCALE - self._rate * int(self._state.free[self._row, node])


class _Spread:
    fixed = False

    def __init__(self, session: session.Session, row: int) -> None:
        self._state = session.state
        self._row = row
        total = session.state.alloc[row].astype(np.float64)
        if row == resources.GPU:
            counts = [spec.gpu_count * resources.MILLI for spec in session.state.nodes.specs]
            total = np.maximum(total, np.array(counts, np.float64))
        self._rate = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)

    def everywhere(self) -> resources.Floats:
        score: resources.Floats = self._state.free[self._row] * self._rate
        return score

    def at(self, node: int) -> float:
        return int(self._state.free[self._row, node]) * float(self._rate[node])


class NodePlacement:
    """Scores nodes by the room they have left."""

    name = "nodeplacement"

    def __init__(self, cpu: str, gpu: str) -> None:
        self._strategy = {resources.CPU: cpu, resources.GPU: gpu}

    def open(self, session: session.Session) -> None:
        """Register the score."""
        made: dict[tuple[int, str], plugin.NodeScore] = {}

        def make(shape: shapes.Shape) -> plugin.NodeScore:
            row = resources.GPU if shape.wants_gpu else resources.CPU
            strategy = shape.constraints.placement or self._strategy[row]
            score = made.get((row, strategy))
            if score is None:
                kind = _Spread if strategy == SPREAD else _Pack
                score = made[row, strategy] = kind(session, row)
            return score

        session.points.node_scores.append(make)


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin with `cpu` and `gpu` strategies, both `binpack` unless said."""
    return NodePlacement(str(arguments.get("cpu", BINPACK)), str(arguments.get("gpu", BINPACK)))
