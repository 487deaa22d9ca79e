"""The division that is kept up, against one that looks at everything each time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from hypothesis import stateful
from hypothesis import strategies as st

from tenantry.api.tenantry import constants, node_pool
from tenantry.nodes import claims, records, taints, views

Object = dict[str, Any]


def pool(name: str, created: str, spec: Object, *, leaving: bool) -> node_pool.TenantNodePool:
    metadata = {"name": name, "creationTimestamp": created}
    if leaving:
        metadata["deletionTimestamp"] = "2026-03-01T00:00:00Z"
    body = {"metadata": metadata, "spec": spec}
    return msgspec.convert(body, node_pool.TenantNodePool, strict=False)


def everything(
    pools: Collection[node_pool.TenantNodePool],
    nodes: Mapping[str, views.NodeView],
    tenants: Collection[str],
) -> claims.Claims:
    """Divide in one go: the rules, pool after pool, without regard to what it costs."""
    found = claims.Claims()
    alive = [one for one in pools if not one.metadata.deletion_timestamp]
    alive.sort(key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name))
    for one in alive:
        test = claims.selects(one.spec)
        found.nodes_of[one.metadata.name] = {name for name in nodes if test(nodes[name])}
    holder = {
        name: record.pool
        for name, node in nodes.items()
        if (record := records.read(node)) and name in found.nodes_of.get(record.pool, ())
    }
    left = {
        name
        for name, node in nodes.items()
        if not node.unschedulable and not any(one.effect in taints.HARD for one in node.taints)
    }
    for one in alive:
        name, spec = one.metadata.name, one.spec
        mine = set()
        for node in found.nodes_of[name]:
            owner = holder.get(node) or found.pool_of.get(node)
            rivals = [
                taint
                for taint in nodes[node].taints
                if taint.key == spec.taint_key and taint.value != spec.tenant
            ]
            if owner is not None and owner != name:
                text = f"node {node} is in pool {owner}; a node is in one pool at most"
                found.refused[name, node] = claims.Problem("Overlap", text)
            elif rivals:
                text = f"node {node} carries the taint {rivals[0]}, of another tenant"
                found.refused[name, node] = claims.Problem("TaintedForOther", text)
            else:
                mine.add(node)
        has = {node for node in mine if holder.get(node) == name}
        problem = None
        if wrong := claims.problems(spec):
            problem = claims.Problem("Invalid", "; ".join(wrong))
        elif spec.tenant not in tenants:
            problem = claims.Problem("NoSuchTenant", f'tenant "{spec.tenant}" does not exist')
        elif not found.nodes_of[name]:
            text = f"none of {', '.join(spec.nodes)} exists" if spec.nodes else "no node matches"
            problem = claims.Problem("NoNodes", text)
        elif spec.mode == "exclusive" and mine - has and left and left <= mine:
            text = (
                f"the pool would take all {len(left)} nodes that are left for everybody; "
                "leave out at least one"
            )
            problem = claims.Problem("WouldEmptyCluster", text)
        if problem is not None:
            found.problems[name] = problem
            mine = has
        found.pool_of.update(dict.fromkeys(mine, name))
        if spec.mode == "exclusive":
            left -= mine
    return found


NODES = st.sampled_from([f"n{number}" for number in range(5)])
POOLS = st.sampled_from(["a", "b", "c"])
TENANTS = st.sampled_from(["red", "blue"])
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
SELECTORS = st.sampled_from(
    [
        {"matchLabels": {"zone": "1"}},
        {"matchExpressions": [{"key": "zone", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["1"]}]},
        {"matchExpressions": [{"key": "zone", "operator": "Sometimes"}]},
        {},
    ]
)
SPECS = st.fixed_dictionaries(
    {"tenant": TENANTS, "mode": st.sampled_from(["exclusive", "exclusive", "shared", "borrow"])},
    optional={
        "nodes": st.lists(NODES, min_size=1, max_size=3, unique=True),
        "selector": SELECTORS,
        "taintKey": st.just("own"),
    },
)
MARKS = st.builds(
    taints.Taint, st.sampled_from(["tenant-dedicated", "own", "other"]), TENANTS, EFFECTS
)
RECORDS = st.one_of(
    st.just(""),
    st.just(""),
    st.just("{"),
    POOLS.map(lambda one: msgspec.json.encode({"pool": one, "tenant": "red"}).decode()),
)


class Divided(stateful.RuleBasedStateMachine):
    """Nodes, pools and tenants come, change and go in any order.

    At one division one looks after each step, at the other now and then.
    """

    def __init__(self) -> None:
        super().__init__()
        self.division, self.lazy = claims.Division(), claims.Division()
        self.pools: dict[str, node_pool.TenantNodePool] = {}
        self.nodes: dict[str, views.NodeView] = {}
        self.tenants = {"red", "blue"}

    def change_node(self, name: str, node: views.NodeView | None) -> None:
        self.nodes.pop(name, None)
        if node is not None:
            self.nodes[name] = node
        for one in (self.division, self.lazy):
            one.node_changed(name, node)

    def change_pool(self, name: str, found: node_pool.TenantNodePool | None) -> None:
        self.pools.pop(name, None)
        if found is not None:
            self.pools[name] = found
        for one in (self.division, self.lazy):
            one.pool_changed(name, found)

    @stateful.initialize(zones=st.lists(st.sampled_from(["", "1", "2"]), min_size=1, max_size=5))
    def begin(self, zones: list[str]) -> None:
        for number, zone in enumerate(zones):
            labels = {"zone": zone} if zone else {}
            self.change_node(f"n{number}", views.NodeView(name=f"n{number}", labels=labels))

    @stateful.rule(
        name=NODES,
        labels=st.dictionaries(st.just("zone"), st.sampled_from(["1", "2"])),
        marks=st.one_of(st.just([]), st.lists(MARKS, max_size=2)),
        record=RECORDS,
        unschedulable=st.booleans(),
    )
    def put_node(self, name: str, marks: list[taints.Taint], **more: Any) -> None:
        self.change_node(name, views.NodeView(name=name, taints=tuple(marks), **more))

    @stateful.rule(name=NODES, tainted=st.booleans())
    def settle(self, name: str, *, tainted: bool) -> None:
        """Let a node carry what its pool wants, as the controller does."""
        node = self.nodes.get(name)
        owner = self.division.claims(self.tenants).pool_of.get(name)
        if node is None or owner is None:
            return
        wanted = records.wanted(self.pools[owner], tainted=tainted)
        record = msgspec.json.encode({"pool": owner, "tenant": wanted.tenant}).decode()
        after = msgspec.structs.replace(node, taints=wanted.marks, record=record)
        self.change_node(name, after)

    @stateful.rule(name=NODES)
    def remove_node(self, name: str) -> None:
        self.change_node(name, None)

    @stateful.rule(
        name=POOLS,
        spec=SPECS,
        created=st.sampled_from(["2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"]),
        leaving=st.sampled_from([False, False, False, True]),
    )
    def put_pool(self, name: str, spec: Object, created: str, *, leaving: bool) -> None:
        self.change_pool(name, pool(name, created, spec, leaving=leaving))

    @stateful.rule(name=POOLS)
    def remove_pool(self, name: str) -> None:
        self.change_pool(name, None)

    @stateful.rule(tenant=TENANTS)
    def tenant_comes_or_goes(self, tenant: str) -> None:
        self.tenants ^= {tenant}
        for one in (self.division, self.lazy):
            one.tenants_changed()

    @stateful.rule()
    def looks(self) -> None:
        whole = everything(self.pools.values(), self.nodes, self.tenants)
        assert self.lazy.claims(self.tenants) == whole

    @stateful.invariant()
    def is_as_in_one_go(self) -> None:
        whole = everything(self.pools.values(), self.nodes, self.tenants)
        assert self.division.claims(self.tenants) == whole

    def teardown(self) -> None:
        self.looks()


TestDivided = Divided.TestCase


class Counting(views.NodeView, frozen=True, gc=False, kw_only=True):
    """A node that says when it is looked at."""

    looked: list[str]

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name == "labels":
            super().__getattribute__("looked").append(name)
        return value


def test_the_change_of_a_node_looks_at_no_other() -> None:
    spec: Object = {"tenant": "red", "selector": {"matchLabels": {"zone": "1"}}}
    division, looked = claims.Division(), list[str]()
    for number in range(3):
        name = f"pool-{number}"
        division.pool_changed(name, pool(name, "2026-01-01T00:00:00Z", spec, leaving=False))
    labels = {"zone": "1"}
    for number in range(50):
        name = f"n{number}"
        division.node_changed(name, Counting(name=name, labels=labels, looked=looked))
    division.node_changed("rest", views.NodeView(name="rest"))
    assert len(division.claims({"red"}).pool_of) == 50
    looked.clear()
    record = msgspec.json.encode({"pool": "pool-0", "tenant": "red"}).decode()
    marks = (taints.Taint(constants.TAINT_KEY, "red"),)
    changed = Counting(name="n7", labels=labels, record=record, taints=marks, looked=looked)
    division.node_changed("n7", changed)
    division.tenants_changed()
    assert division.claims({"red"}).pool_of["n7"] == "pool-0"
    assert len(looked) == 3, "once for each pool"


def test_what_is_left_for_everybody() -> None:
    """Shared nodes are; closed ones never were; and a problem may give another pool one."""
    both = ("n1", "n2")
    opened = {name: views.NodeView(name=name) for name in both}
    closed = {name: views.NodeView(name=name, unschedulable=True) for name in both}
    for mode, known, wanted, problems in (
        ("shared", opened, [["n1"], ["n2"]], set()),
        ("exclusive", closed, [["n1"], ["n2"]], set()),
        ("exclusive", opened, [["n1", "n2"], ["n1"], ["n2"]], {"p0", "p2"}),
    ):
        division = claims.Division()
        for name in both:
            division.node_changed(name, known[name])
        for number, names in enumerate(wanted):
            spec = {"tenant": "red", "nodes": names, "mode": "exclusive" if number else mode}
            made = pool(f"p{number}", "2026-01-01T00:00:00Z", spec, leaving=False)
            division.pool_changed(f"p{number}", made)
        assert set(division.claims({"red"}).problems) == problems
