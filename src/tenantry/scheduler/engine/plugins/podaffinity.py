"""Prefer nodes near to, or far from, the pods that preferred affinity terms select."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tenantry.scheduler.engine import (
    matching,
    plugin,
    pod_scores,
    pod_terms,
    resources,
    session,
    shapes,
)

SCORE = 1_000_000.0


class _Preferred(pod_scores.Recomputed):
    def _compute(self) -> resources.Floats:
        session, own = self._session, self._shape.sample
        nodes = session.state.nodes.specs
        score = np.zeros(len(nodes))
        here = list(pod_terms.placed(session))
        constraints = self._shape.constraints
        signed = [(1, t) for t in constraints.pod_affinity if t.weight]
        signed += [(-1, t) for t in constraints.pod_anti_affinity if t.weight]
        for sign, term in signed:
            key = term.topology_key
            counts: dict[str | None, int] = {}
            for task, node in here:
                if matching.selects(term, own.namespace, task):
                    domain = nodes[node].labels.get(key)
                    counts[domain] = counts.get(domain, 0) + 1
            counts.pop(None, None)
            if counts:
                found = [counts.get(node.labels.get(key), 0) for node in nodes]
                score += SCORE * sign * term.weight * np.array(found)
        return score


class PodAffinity:
    """Scores nodes by preferred pod affinity and anti-affinity."""

    name = "podaffinity"

    def open(self, session: session.Session) -> None:
        """Register the score."""

        def make(shape: shapes.Shape) -> plugin.NodeScore | None:
            terms = shape.constraints.pod_affinity + shape.constraints.pod_anti_affinity
            return _Preferred(session, shape) if any(t.weight for t in terms) else None

        session.points.node_scores.append(make)


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin; it takes no arguments."""
    del arguments
    return PodAffinity()
