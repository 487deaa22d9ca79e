"""Prefer nodes as pods ask for: preferred node affinity, PreferNoSchedule taints, soft spreading.

The scores and their weights are those of kube-scheduler's NodeAffinity (2), TaintToleration (3) and
PodTopologySpread (2), each from 0 to 100 among the nodes where the pod could go. KAI has none of
them. Together they outweigh packing, and are outweighed by a node where the pod can start at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tenantry.scheduler.engine import (
    census,
    matching,
    plugin,
    pod_terms,
    resources,
    session,
    shapes,
    specs,
)

MOST = 100
AFFINITY, TAINTS, SPREAD = 2.0, 3.0, 2.0


class _Scaled(plugin.RelativeScore):
    """Counts by node, mapped to 0..100 by the highest among the feasible ones, in whole numbers."""

    def __init__(self, weight: float, counts: Sequence[int], *, reverse: bool = False) -> None:
        self._weight = weight
        self._counts: resources.Ints = np.array(counts, np.int64)
        self._reverse = reverse

    def among(self, feasible: resources.Bools) -> resources.Floats:
        most = int(self._counts[feasible].max(initial=0))
        scaled = self._counts * MOST // most if most else np.zeros_like(self._counts)
        scaled = MOST - scaled if self._reverse else scaled
        return self._weight * scaled.astype(np.float64)


class _Spread(plugin.RelativeScore):
    """Fewer pods of the constraint in a node's domain are better."""

    def __init__(self, session: session.Session, shape: shapes.Shape) -> None:
        self._session, self._shape = session, shape
        self._rules = [rule for rule in shape.constraints.spread if not rule.hard]
        keys = [rule.topology_key for rule in self._rules]
        self._eligible = [pod_terms.eligible(session, shape, rule, keys) for rule in self._rules]
        self._known = np.ones(len(session.state.nodes.names), np.bool_)
        for key in keys:
            self._known &= census.domains(session, key).known

    def among(self, feasible: resources.Bools) -> resources.Floats:
        judged = feasible & self._known
        raw = np.zeros(len(judged))
        if not judged.any():
            return raw
        for rule, eligible in zip(self._rules, self._eligible, strict=True):
            spread = pod_terms.SpreadRule(self._session, self._shape, rule, eligible)
            present = int((spread.within.sums(judged.astype(np.int64)) > 0).sum())
            counts = spread.within.spread(spread.counts)
            raw += counts * math.log(present + 2) + rule.max_skew - 1
        raw = np.round(raw)
        most, least = raw[judged].max(), raw[judged].min()
        score = MOST * (most + least - raw) // most if most else np.full(len(raw), float(MOST))
        return SPREAD * np.where(judged, score, 0.0)


class NodePreferences:
    """Adds up what pods prefer."""

    name = "nodepreferences"

    def open(self, session: session.Session) -> None:
        """Register the scores of shapes that prefer something."""
        nodes = session.state.nodes.specs
        soft = [
            tuple(taint for taint in node.taints if taint.effect == "PreferNoSchedule")
            for node in nodes
        ]
        if any(soft):
            session.points.node_scores.append(lambda shape: _taints(shape, soft))
        session.points.node_scores.append(lambda shape: _affinity(shape, nodes))

        def spread(shape: shapes.Shape) -> plugin.RelativeScore | None:
            if all(rule.hard for rule in shape.constraints.spread):
                return None
            return _Spread(session, shape)

        session.points.node_scores.append(spread)


def _affinity(shape: shapes.Shape, nodes: list[specs.Node]) -> plugin.RelativeScore | None:
    terms = shape.constraints.preferred
    if not terms:
        return None
    weights = [
        sum(weight for weight, term in terms if term and matching.term_holds(term, node))
        for node in nodes
    ]
    return _Scaled(AFFINITY, weights) if any(weights) else None


def _taints(
    shape: shapes.Shape, soft: list[tuple[specs.Taint, ...]]
) -> plugin.RelativeScore | None:
    tolerations = shape.constraints.tolerations
    unloved = [
        sum(not any(toleration.covers(taint) for toleration in tolerations) for taint in taints)
        for taints in soft
    ]
    return _Scaled(TAINTS, unloved, reverse=True) if any(unloved) else None


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin; it takes no arguments."""
    del arguments
    return NodePreferences()
