"""Whether a dedicated node has all without which it is of no use; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tenantry.api.tenantry import node_pool
from tenantry.core import errors, quantity
from tenantry.nodes import views

INCOMPLETE = "Isolated-but-incomplete"


@dataclass(frozen=True, slots=True)
class Score:
    """Share of what a node must have that it has, in percent, and what is missing."""

    percent: int
    missing: tuple[str, ...]


def score(
    node: views.NodeView,
    wanted: node_pool.Readiness,
    *,
    expected: Iterable[str],
    running: Collection[str],
) -> Score:
    """Judge one node.

    :param expected: DaemonSets (namespace/name) that would be there if it were not dedicated
    :param running: DaemonSets of which a pod is ready there
    """
    named = [f"{one.namespace}/{one.name}" for one in wanted.components]
    checks = {f"DaemonSet {name}": name in running for name in named or sorted(expected)}
    if wanted.gpu_resource:
        checks[f"allocatable {wanted.gpu_resource}"] = _some(node, wanted.gpu_resource)
    checks |= {f"label {key}": key in node.labels for key in wanted.labels}
    missing = tuple(what for what, there in checks.items() if not there)
    if not checks:
        return Score(100, ())
    return Score(100 * (len(checks) - len(missing)) // len(checks), missing)


def _some(node: views.NodeView, resource: str) -> bool:
    try:
        return quantity.parse(node.allocatable.get(resource, "0")).nanos > 0
    except errors.InvalidValueError:
        return False
