"""Keep tasks off nodes they may not use: kube-scheduler's filters, and rules of device types.

Names and meanings are kube-scheduler's where it has them: NodeName, NodeUnschedulable,
NodeAffinity, TaintToleration, NodePorts, InterPodAffinity, VolumeBinding, PodTopologySpread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tenantry.scheduler.engine import (
    humanise,
    masks,
    matching,
    plugin,
    pod_terms,
    resources,
    session,
    shapes,
    specs,
)

NodeTest = Callable[[specs.Node], bool]


class Predicates:
    """Registers the filters."""

    name = "predicates"

    def open(self, session: session.Session) -> None:
        """Register masks that a shape needs, and checks that no eviction changes."""
        points = session.points
        legacy = _with_legacy_mig(session)
        points.node_masks.append(lambda shape: _type_rules(session, shape, legacy))
        points.node_masks.append(lambda shape: _conditions(session, shape))
        points.node_masks.append(lambda shape: _placement(session, shape))
        points.node_masks.append(lambda shape: _taints(session, shape))
        points.node_masks.append(lambda shape: _volumes(session, shape))
        points.node_masks.append(lambda shape: pod_terms.ports(session, shape))
        points.node_masks.append(lambda shape: pod_terms.affinity(session, shape))
        points.node_masks.append(lambda shape: pod_terms.spread(session, shape))
        if session.observed.with_terms and pod_terms.of(session).repels():
            points.task_views.append(pod_terms.of(session).view(prefer=False))
        if stands := pod_terms.still(session):
            points.stands.append(stands)
        refusals: dict[int, str] = {}

        def check(row: int) -> str:
            index = session.state.shape_of[row].index
            refused = refusals.get(index)
            if refused is None:
                refused = refusals[index] = _impossible(session, row)
            return refused

        points.pre_predicates.append(check)


def _impossible(session: session.Session, row: int) -> str:
    """Return why no node could ever hold such a task, or what it refers to in vain."""
    state, seen = session.state, session.observed
    shape, task = state.shape_of[row], state.tasks[row]
    assert task is not None
    if shape.columns.size and state.alloc.shape[1]:
        largest = state.alloc[shape.columns].max(axis=1)
        for r, most in zip(shape.columns.tolist(), largest.tolist(), strict=True):
            if most < shape.vector[r]:
                name = state.dimensions.names[r]
                asked, has = (_written(name, a) for a in (int(shape.vector[r]), most))
                return f"no node has that much {name}: {asked} asked, {has} at most"
    if seen.config_maps is not None:
        for name in shape.constraints.config_maps:
            if (task.namespace, name) not in seen.config_maps:
                return f"config map {task.namespace}/{name} does not exist"
    if seen.volumes is not None:
        for name in shape.constraints.volumes:
            if (task.namespace, name) not in seen.volumes:
                return f"persistentvolumeclaim {task.namespace}/{name} not found"
    return ""


def _written(name: str, amount: int) -> str:
    """Write an amount of a node vector, where pods are not in milli."""
    return str(amount) if name == "pods" else humanise.amount(name, amount)


def _type_rules(
    session: session.Session, shape: shapes.Shape, legacy: resources.Bools
) -> plugin.NodeMask | None:
    """Return which nodes have devices of the kind that the task uses."""
    constraints = shape.constraints
    slices = session.observed.slices_of

    def claimed_only(node: specs.Node) -> bool:
        # A driver offers its GPUs to claims; no device plugin hands them out.
        return bool(slices.get(node.name)) and not node.allocatable.get("gpu")

    special = masks.cached(
        session,
        "device-types",
        lambda: masks.where(
            session,
            lambda node: (
                bool(node.mig) or node.dra or not node.gpu_memory_synced or claimed_only(node)
            ),
        ),
    )
    if not (constraints.legacy_mig or shape.mig or legacy.any() or special.any()):
        return None
    whole = shape.wants_gpu and not shape.shared and not shape.mig

    def allowed(node: specs.Node) -> bool:
        if constraints.legacy_mig:
            return False
        if shape.shared and node.dra:
            return False
        if (whole or shape.shared) and claimed_only(node):
            return False
        if shape.kind == shapes.MEMORY and not node.gpu_memory_synced:
            return False
        if shape.mig:
            return node.mig == "mixed"
        if node.mig == "mixed":
            return not whole and not shape.shared
        return not (node.mig == "single" and shape.shared)

    mask = masks.where(session, allowed)
    if shape.mig:
        mask &= ~legacy
    return masks.Fixed("node(s) had no devices of the requested kind", mask)


def _with_legacy_mig(session: session.Session) -> resources.Bools:
    state = session.state
    mask = np.zeros(len(state.nodes.names), np.bool_)
    if not any(shape.constraints.legacy_mig for shape in session.observed.shapes_by_index):
        return mask
    for row, shape in enumerate(state.shape_of):
        if shape.constraints.legacy_mig and state.node[row] >= 0:
            mask[state.node[row]] = True
    return mask


def _conditions(session: session.Session, shape: shapes.Shape) -> plugin.NodeMask | None:
    del shape
    size = len(session.state.nodes.names)
    usable = session.state.nodes.usable[:size]
    if usable.all():
        return None
    return masks.Fixed("node(s) were unschedulable or not ready", usable.copy())


def _placement(session: session.Session, shape: shapes.Shape) -> plugin.NodeMask | None:
    constraints = shape.constraints
    if not (constraints.selector or constraints.affinity or constraints.node_name):
        return None
    key = ("placement", constraints.selector, constraints.affinity, constraints.node_name)

    def matches(node: specs.Node) -> bool:
        if constraints.node_name and node.name != constraints.node_name:
            return False
        return matching.node_matches(constraints, node)

    return masks.Fixed(
        "node(s) didn't match Pod's node affinity/selector",
        masks.cached(session, key, lambda: masks.where(session, matches)),
    )


def _taints(session: session.Session, shape: shapes.Shape) -> plugin.NodeMask | None:
    tainted = masks.cached(
        session, "tainted", lambda: masks.where(session, lambda node: bool(node.taints))
    )
    if not tainted.any():
        return None
    key = ("taints", shape.constraints.tolerations)

    def tolerated(node: specs.Node) -> bool:
        return matching.tolerates(shape.constraints, node)

    return masks.Fixed(
        "node(s) had untolerated taint",
        masks.cached(session, key, lambda: masks.where(session, tolerated)),
    )


def _volumes(session: session.Session, shape: shapes.Shape) -> plugin.NodeMask | None:
    known = session.observed.volumes
    names = shape.constraints.volumes
    if not names or known is None:
        return None
    namespace = shape.namespace
    size = len(session.state.nodes.names)
    mask = np.ones(size, np.bool_)
    for name in names:
        nodes = known.get((namespace, name))
        if nodes is not None:
            mask &= masks.named(session, nodes)
    return masks.Fixed("node(s) had volume node affinity conflict", mask)


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin; it takes no arguments."""
    del arguments
    return Predicates()
