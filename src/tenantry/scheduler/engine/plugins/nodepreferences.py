"""Prefer nodes as pods ask for: preferred node affinity, PreferNoSchedule taints, soft spreading.

The scores and their weights are those of kube-scheduler's NodeAffinity (2), TaintToleration (3) and
PodTopologySpread (2), each from 0 to 100 among the nodes there are. KAI has none of them. Together
they outweigh packing, and are outweighed by a node where the pod can start at once.
"""

from __future__ import annotations

import math
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
    specs,
)

MOST = 100.0
AFFINITY, TAINTS, SPREAD = 2.0, 3.0, 2.0


class _Fixed:
    fixed = True

    def __init__(self, score: resources.Floats) -> None:
        self._score = score

    def everywhere(self) -> resources.Floats:
        return self._score

    def at(self, node: int) -> float:
        return float(self._score[node])


class _Spread(pod_scores.Recomputed):
    """Fewer pods of the constraint in a node's domain are better."""

    def _compute(self) -> resources.Floats:
        session, shape = self._session, self._shape
        here = list(pod_terms.placed(session))
        size = len(session.state.nodes.names)
        raw, counted = np.zeros(size), np.ones(size, np.bool_)
        for rule in shape.constraints.spread:
            if rule.hard:
                continue
            spread = pod_terms.SpreadRule(session, shape, rule, here)
            weight = math.log(len(spread.counts) + 2)
            for node, domain in enumerate(spread.domain_of):
                if domain in spread.counts:
                    raw[node] += spread.counts[domain] * weight + rule.max_skew - 1
                else:
                    counted[node] = False
        if not counted.any():
            return np.zeros(size)
        most, least = raw[counted].max(), raw[counted].min()
        score = np.full(size, MOST) if most == 0 else MOST * (most + least - raw) / most
        return SPREAD * np.where(counted, score, 0.0)


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

        def spread(shape: shapes.Shape) -> plugin.NodeScore | None:
            if all(rule.hard for rule in shape.constraints.spread):
                return None
            return _Spread(session, shape)

        session.points.node_scores.append(spread)


def _affinity(shape: shapes.Shape, nodes: list[specs.Node]) -> plugin.NodeScore | None:
    terms = shape.constraints.preferred
    if not terms:
        return None
    weights = [
        sum(weight for weight, term in terms if term and matching.term_holds(term, node))
        for node in nodes
    ]
    most = max(weights, default=0)
    return _Fixed(AFFINITY * MOST * np.array(weights) / most) if most else None


def _taints(shape: shapes.Shape, soft: list[tuple[specs.Taint, ...]]) -> plugin.NodeScore | None:
    tolerations = shape.constraints.tolerations
    unloved = [
        sum(not any(toleration.covers(taint) for toleration in tolerations) for taint in taints)
        for taints in soft
    ]
    most = max(unloved, default=0)
    return _Fixed(TAINTS * MOST * (1 - np.array(unloved) / most)) if most else None


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin; it takes no arguments."""
    del arguments
    return NodePreferences()
