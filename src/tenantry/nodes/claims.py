"""Which pool each node belongs to; pure.

A node is in one pool at most. Who has it keeps it; otherwise the oldest pool gets it, so that a new
pool can take nothing away from another tenant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from tenantry.api.tenantry import constants, node_pool
from tenantry.core import errors, names, selectors
from tenantry.nodes import records, taints, views


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a pool, or a node of it, is not as its specification wants."""

    reason: str
    message: str


@dataclass(slots=True)
class Claims:
    """Who has which node."""

    pool_of: dict[str, str] = field(default_factory=dict)
    """node -> pool that has it"""
    nodes_of: dict[str, list[str]] = field(default_factory=dict)
    """pool -> nodes that it selects, sorted, whether or not it has them"""
    problems: dict[str, Problem] = field(default_factory=dict)
    """pool -> what is wrong with it as a whole"""
    refused: dict[tuple[str, str], Problem] = field(default_factory=dict)
    """(pool, node) -> why it does not get the node"""


def problems(spec: node_pool.TenantNodePoolSpec) -> list[str]:
    """Return what is wrong with a specification in itself."""
    found = []
    if not spec.nodes and spec.selector is None:
        found.append('spec: Invalid value: "": give spec.nodes, spec.selector or both')
    if spec.selector is not None:
        if not spec.selector.get("matchLabels") and not spec.selector.get("matchExpressions"):
            found.append(
                "spec.selector: Invalid value: {}: it would select every node; give matchLabels "
                "or matchExpressions"
            )
        else:
            try:
                selectors.matcher(spec.selector, "spec.selector")
            except errors.InvalidValueError as problem:
                found.append(str(problem))
    if not names.is_dns_label(spec.tenant):
        found.append(
            f"spec.tenant: Invalid value: {errors.shown(spec.tenant)}: must be a tenant's name"
        )
    for index, name in enumerate(spec.nodes):
        if not names.is_dns_subdomain(name):
            found.append(
                f"spec.nodes[{index}]: Invalid value: {errors.shown(name)}: must be a node's name"
            )
        elif name in spec.nodes[:index]:
            found.append(f"spec.nodes[{index}]: Duplicate value: {errors.shown(name)}")
    for label, key in (("taintKey", spec.taint_key), ("labelKey", spec.label_key)):
        if not names.is_qualified_name(key) or _reserved(key):
            found.append(
                f"spec.{label}: Invalid value: {errors.shown(key)}: must be a key such as "
                "example.com/name, not one of Kubernetes or Tenantry"
            )
    return found


def _reserved(key: str) -> bool:
    prefix = key.rpartition("/")[0]
    ours = (constants.GROUP, "kubernetes.io", "k8s.io")
    return any(prefix == one or prefix.endswith(f".{one}") for one in ours)


def claims(
    pools: Iterable[node_pool.TenantNodePool],
    nodes: Mapping[str, views.NodeView],
    tenants: Collection[str],
) -> Claims:
    """Divide the nodes among the pools."""
    found = Claims()
    alive = [pool for pool in pools if not pool.metadata.deletion_timestamp]
    ordered = sorted(
        alive, key=lambda pool: (pool.metadata.creation_timestamp or "", pool.metadata.name)
    )
    chosen = {pool.metadata.name: select(pool.spec, nodes) for pool in ordered}
    holder = {}
    for name, node in nodes.items():
        record = records.read(node)
        if record is not None and name in chosen.get(record.pool, ()):
            holder[name] = record.pool
    open_nodes = {name for name, node in nodes.items() if _open(node)}
    for pool in ordered:
        _divide(pool, nodes, tenants, found=found, holder=holder, open_nodes=open_nodes,
                selected=chosen[pool.metadata.name])  # fmt: skip
    return found


def select(
    spec: node_pool.TenantNodePoolSpec, nodes: Mapping[str, views.NodeView]
) -> dict[str, None]:
    """Return the names of the nodes that a pool selects, sorted."""
    chosen = {name for name in spec.nodes if name in nodes}
    if spec.selector:
        try:
            matches = selectors.matcher(spec.selector)
        except errors.InvalidValueError:
            matches = None
        if matches is not None:
            chosen.update(name for name, node in nodes.items() if matches(node.labels))
    return dict.fromkeys(sorted(chosen))


def _open(node: views.NodeView) -> bool:
    hard = any(taint.effect in taints.HARD for taint in node.taints)
    return not node.unschedulable and not hard


def _divide(
    pool: node_pool.TenantNodePool,
    nodes: Mapping[str, views.NodeView],
    tenants: Collection[str],
    *,
    found: Claims,
    holder: Mapping[str, str],
    open_nodes: set[str],
    selected: Mapping[str, None],
) -> None:
    name, spec = pool.metadata.name, pool.spec
    found.nodes_of[name] = list(selected)
    problem = _problem(pool, nodes, tenants, selected)
    mine = []
    for node in selected:
        owner = holder.get(node) or found.pool_of.get(node)
        if owner is not None and owner != name:
            found.refused[name, node] = Problem(
                "Overlap", f"node {node} is in pool {owner}; a node is in one pool at most"
            )
        elif (taken := _foreign_taint(spec, nodes[node])) is not None:
            found.refused[name, node] = Problem(
                "TaintedForOther", f"node {node} carries the taint {taken}, of another tenant"
            )
        else:
            mine.append(node)
    if problem is None and spec.mode == "exclusive":
        new = [node for node in mine if holder.get(node) != name]
        if new and open_nodes and not open_nodes - set(mine):
            problem = Problem(
                "WouldEmptyCluster",
                f"the pool would take all {len(open_nodes)} nodes that are left for everybody; "
                "leave out at least one",
            )
    if problem is not None:
        found.problems[name] = problem
        # What it has it keeps: a mistake must not open nodes to others.
        mine = [node for node in mine if holder.get(node) == name]
    for node in mine:
        found.pool_of[node] = name
    if spec.mode == "exclusive":
        open_nodes -= set(mine)


def _problem(
    pool: node_pool.TenantNodePool,
    nodes: Mapping[str, views.NodeView],
    tenants: Collection[str],
    selected: Mapping[str, None],
) -> Problem | None:
    wrong = problems(pool.spec)
    if wrong:
        return Problem("Invalid", "; ".join(wrong))
    if pool.spec.tenant not in tenants:
        return Problem("NoSuchTenant", f'tenant "{pool.spec.tenant}" does not exist')
    if not selected:
        missing = [name for name in pool.spec.nodes if name not in nodes]
        what = f"none of {', '.join(missing[:5])} exists" if missing else "no node matches"
        return Problem("NoNodes", what)
    return None


def _foreign_taint(spec: node_pool.TenantNodePoolSpec, node: views.NodeView) -> taints.Taint | None:
    for taint in node.taints:
        if taint.key == spec.taint_key and taint.value != spec.tenant:
            return taint
    return None
