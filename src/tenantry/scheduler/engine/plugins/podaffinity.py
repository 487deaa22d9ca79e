"""Prefer nodes near to, or far from, the pods that preferred affinity terms select.

As kube-scheduler's InterPodAffinity does: the terms of the pod itself, and those of the others that
mean it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tenantry.scheduler.engine import (
    census,
    plugin,
    pod_scores,
    pod_terms,
    resources,
    session,
    shapes,
)


class _Preferred(pod_scores.Recomputed):
    def _compute(self) -> resources.Floats:
        session, constraints = self._session, self._shape.constraints
        terms = pod_terms.of(session)
        score = np.zeros(len(session.state.nodes.names))
        signed = [(1, t) for t in constraints.pod_affinity if t.weight]
        signed += [(-1, t) for t in constraints.pod_anti_affinity if t.weight]
        for sign, term in signed:
            within = census.domains(session, term.topology_key)
            near = within.spread(within.sums(terms.meant(term, self._shape.namespace)))
            score += pod_terms.SCORE * sign * term.weight * near
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
        if session.observed.with_terms and pod_terms.of(session).prefers():
            session.points.task_views.append(pod_terms.of(session).view(prefer=True))


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin; it takes no arguments."""
    del arguments
    return PodAffinity()
