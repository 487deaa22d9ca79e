"""Which pool each node belongs to; pure.

A node is in one pool at most. Who has it keeps it; otherwise the oldest pool gets it, so that a new
pool can take nothing away from another tenant.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Collection, Iterable
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
    nodes_of: dict[str, set[str]] = field(default_factory=dict)
    """pool -> nodes that it selects, whether or not it has them"""
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
    seen = set()
    for index, name in enumerate(spec.nodes):
        if not names.is_dns_subdomain(name):
            found.append(
                f"spec.nodes[{index}]: Invalid value: {errors.shown(name)}: must be a node's name"
            )
        elif name in seen:
            found.append(f"spec.nodes[{index}]: Duplicate value: {errors.shown(name)}")
        seen.add(name)
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


def selects(spec: node_pool.TenantNodePoolSpec) -> Callable[[views.NodeView], bool]:
    """Return the test whether a pool selects a node."""
    named = frozenset(spec.nodes)
    if not spec.selector:
        return lambda node: node.name in named
    try:
        matches = selectors.matcher(spec.selector)
    except errors.InvalidValueError:
        return lambda node: node.name in named
    return lambda node: node.name in named or matches(node.labels)


class _Pool:
    """A pool, and what is counted of the nodes that are due to it.

    Due are those that it has, and those that it would have if it had no problem.
    """

    def __init__(self, pool: node_pool.TenantNodePool) -> None:
        self.name = pool.metadata.name
        self.spec = pool.spec
        self.age = (pool.metadata.creation_timestamp or "", self.name)
        self.wrong = "; ".join(problems(pool.spec))
        self.selects = selects(pool.spec)
        #: Due, and without its record yet.
        self.new = 0
        #: Due, and open to everybody.
        self.open = 0
        #: Had, and open to everybody.
        self.taken = 0


@dataclass(frozen=True, slots=True)
class _Place:
    """What one node comes to."""

    open: bool
    holder: str
    chosen: list[_Pool]
    due: list[_Pool]
    refused: dict[str, Problem]
    owner: str


class Division:
    """Who has which node, kept up while nodes, pools and tenants change.

    What a node comes to depends on itself, on the pools, and on which pools have a problem, but not
    on other nodes. So the change of a node costs the more the more pools there are, not nodes; and
    when a problem comes or goes, only the nodes that the pool selects are looked at again.

    Invariant: each place, and so each count, is that of the problems as they were last found.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, views.NodeView] = {}
        self._places: dict[str, _Place] = {}
        self._pools: list[_Pool] = []  # the oldest first
        self._open = 0
        self._found = Claims()
        self._judged = True

    def node_changed(self, name: str, node: views.NodeView | None) -> None:
        """Take a node as it is now; None when it is gone."""
        if node is not None:
            self._nodes[name] = node
        else:
            self._nodes.pop(name, None)
        self._place(name)

    def pool_changed(self, name: str, pool: node_pool.TenantNodePool | None) -> None:
        """Take a pool as it is now; None when it is gone."""
        nodes_of = self._found.nodes_of
        alive = _Pool(pool) if pool is not None and not pool.metadata.deletion_timestamp else None
        self._pools = [one for one in self._pools if one.name != name]
        moved = nodes_of.get(name, set()).copy()
        if alive is not None:
            bisect.insort(self._pools, alive, key=lambda one: one.age)
            nodes_of.setdefault(name, set())
            moved.update(node.name for node in self._nodes.values() if alive.selects(node))
        for node in moved:
            self._place(node)
        if alive is None:
            nodes_of.pop(name, None)
        self._judged = False

    def tenants_changed(self) -> None:
        """Look for problems again: a tenant came or went."""
        self._judged = False

    def claims(self, tenants: Collection[str]) -> Claims:
        """Return the division as it is now; it is shared, and goes on to change."""
        # A problem matters for younger pools only, so each round is right about one pool more.
        while not self._judged:
            left, found = self._open, {}
            for pool in self._pools:
                problem = self._problem(pool, tenants, left)
                if problem is not None:
                    found[pool.name] = problem
                if pool.spec.mode == "exclusive":
                    left -= pool.taken
            changed = found.keys() ^ self._found.problems.keys()
            self._found.problems = found
            for name in changed:
                for node in self._found.nodes_of.get(name, set()).copy():
                    self._place(node)
            self._judged = not changed
        return self._found

    def _place(self, name: str) -> None:
        before, node, found = self._places.pop(name, None), self._nodes.get(name), self._found
        self._judged = False
        if before is not None:
            self._count(before, -1)
            found.pool_of.pop(name, None)
            for pool in before.chosen:
                found.nodes_of[pool.name].discard(name)
                found.refused.pop((pool.name, name), None)
        if node is None:
            return
        after = self._places[name] = _placed(node, self._pools, found.problems)
        self._count(after, 1)
        if after.owner:
            found.pool_of[name] = after.owner
        for pool in after.chosen:
            found.nodes_of[pool.name].add(name)
        found.refused.update(((pool, name), why) for pool, why in after.refused.items())

    def _count(self, place: _Place, sign: int) -> None:
        self._open += sign * place.open
        for pool in place.due:
            pool.new += sign * (pool.name != place.holder)
            pool.open += sign * place.open
            pool.taken += sign * (place.open and pool.name == place.owner)

    def _problem(self, pool: _Pool, tenants: Collection[str], left: int) -> Problem | None:
        spec = pool.spec
        if pool.wrong:
            return Problem("Invalid", pool.wrong)
        if spec.tenant not in tenants:
            return Problem("NoSuchTenant", f'tenant "{spec.tenant}" does not exist')
        if not self._found.nodes_of[pool.name]:
            missing = f"none of {', '.join(spec.nodes[:5])} exists"
            return Problem("NoNodes", missing if spec.nodes else "no node matches")
        if spec.mode == "exclusive" and pool.new and left and pool.open == left:
            return Problem(
                "WouldEmptyCluster",
                f"the pool would take all {left} nodes that are left for everybody; "
                "leave out at least one",
            )
        return None


def _placed(node: views.NodeView, pools: Iterable[_Pool], troubled: Collection[str]) -> _Place:
    """Place a node.

    :param pools: the oldest first
    :param troubled: pools that get no nodes beyond those that they have: a mistake must not open
        nodes to others
    """
    chosen = [pool for pool in pools if pool.selects(node)]
    record = records.read(node) if chosen else None
    holder = record.pool if record is not None else ""
    if all(pool.name != holder for pool in chosen):
        holder = ""
    due, refused, owner = [], {}, ""
    for pool in chosen:
        other = holder or owner
        if other and other != pool.name:
            refused[pool.name] = Problem(
                "Overlap", f"node {node.name} is in pool {other}; a node is in one pool at most"
            )
        elif (taken := _foreign_taint(pool.spec, node)) is not None:
            refused[pool.name] = Problem(
                "TaintedForOther", f"node {node.name} carries the taint {taken}, of another tenant"
            )
        else:
            due.append(pool)
            if holder == pool.name or pool.name not in troubled:
                owner = pool.name
    return _Place(_open(node), holder, chosen, due, refused, owner)


def _open(node: views.NodeView) -> bool:
    hard = any(taint.effect in taints.HARD for taint in node.taints)
    return not node.unschedulable and not hard


def _foreign_taint(spec: node_pool.TenantNodePoolSpec, node: views.NodeView) -> taints.Taint | None:
    for taint in node.taints:
        if taint.key == spec.taint_key and taint.value != spec.tenant:
            return taint
    return None
