"""The life of a node in a pool, from what stands on the node."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tenantry.api.tenantry import constants, node_pool
from tenantry.nodes import (
    borrowing,
    claims,
    lifecycle,
    occupants,
    readiness,
    records,
    taints,
    views,
)
from tenantry.runtime import jsonpatch

Object = dict[str, Any]


def pool(name: str = "pool", tenant: str = "team", **spec: Any) -> node_pool.TenantNodePool:
    metadata = spec.pop("metadata", {})
    body = {"metadata": {"name": name, **metadata}, "spec": {"tenant": tenant, **spec}}
    return msgspec.convert(body, node_pool.TenantNodePool, strict=False)


def node(name: str = "n1", **more: Any) -> Object:
    return {"metadata": {"name": name, "resourceVersion": "1", **more.pop("metadata", {})},
            "spec": more}  # fmt: skip


def view(found: Object) -> views.NodeView:
    return views.node_view(msgspec.json.encode(found))


def pod(name: str, namespace: str = "other", **more: Any) -> views.PodView:
    return views.PodView(namespace=namespace, name=name, node="n1", phase="Running", **more)


def step(found: Object, wanted: node_pool.TenantNodePool, *pods: views.PodView) -> lifecycle.Step:
    tenants = {"team": "team", "other": "other"}
    who = occupants.of(pods, wanted.spec.tenant, wanted.spec.taint_key, tenants.get)
    return lifecycle.advance(view(found), wanted, found=who)


def after(found: Object, taken: lifecycle.Step | None) -> Object:
    assert taken is not None
    result: Object = jsonpatch.apply(found, taken.operations)
    return result


DEDICATED = [{"key": "tenant-dedicated", "value": "team", "effect": "NoSchedule"}]


def test_shared_draining_dedicated_released() -> None:
    fresh, drain, foreign = node(), pool(drain=True), pod("a")
    taken = step(fresh, pool(), foreign)
    assert (taken.state, taken.reason, taken.operations) == ("shared", "Occupied", ())
    assert "other/a" in taken.message

    first = step(fresh, drain, foreign)
    # Nobody is evicted before the taint is there: who is could come back at once.
    assert (first.state, first.evict) == ("draining", ())
    draining = after(fresh, first)
    assert draining["spec"]["taints"] == DEDICATED
    assert "labels" not in draining["metadata"]
    second = step(draining, drain, foreign)
    assert (second.state, second.operations, second.evict) == ("draining", (), (foreign,))

    third = step(draining, drain)
    assert third.state == "dedicated"
    dedicated = after(draining, third)
    assert dedicated["metadata"]["labels"] == {
        "node-pool": "team",
        "tenantry.io/node-pool": "pool",
        "tenantry.io/dedicated-to": "team",
    }
    settled = step(dedicated, drain)
    assert (settled.state, settled.operations) == ("dedicated", ())

    last = lifecycle.released(view(dedicated))
    assert last is not None
    assert last.state == "released"
    released = after(dedicated, last)
    assert released["spec"] == {}
    assert released["metadata"].get("labels", {}) == {}
    assert lifecycle.released(view(released)) is None


def test_a_drain_that_is_called_off_lets_nobody_new_in() -> None:
    draining = after(node(), step(node(), pool(drain=True), pod("a")))
    taken = step(draining, pool(), pod("a"))
    assert (taken.state, taken.reason, taken.operations) == ("draining", "Occupied", ())


def test_a_foreign_pod_that_slipped_in_does_not_open_a_node_again() -> None:
    dedicated = after(node(), step(node(), pool()))
    taken = step(dedicated, pool(), pod("late"))
    assert (taken.state, taken.operations, taken.evict) == ("dedicated", (), ())
    assert step(dedicated, pool(drain=True), pod("late")).evict == (pod("late"),)


def test_no_execute_comes_only_when_others_are_gone() -> None:
    wanted = pool(drain=True, noExecute=True)
    draining = after(node(), step(node(), wanted, pod("a")))
    assert [one["effect"] for one in draining["spec"]["taints"]] == ["NoSchedule"]
    dedicated = after(draining, step(draining, wanted))
    assert [one["effect"] for one in dedicated["spec"]["taints"]] == ["NoSchedule", "NoExecute"]


def test_no_execute_ends_no_pods_of_the_tenant_that_are_older_than_the_pool() -> None:
    wanted, old = pool(noExecute=True), pod("old", "team")
    taken = step(node(), wanted, old)
    gentle = after(node(), taken)
    assert taken.state == "dedicated"
    assert taken.message == "NoExecute waits for pods that do not tolerate it: team/old"
    assert [one["effect"] for one in gentle["spec"]["taints"]] == ["NoSchedule"]
    assert step(gentle, wanted, old).operations == ()
    bearing = taints.toleration({"key": "tenant-dedicated", "operator": "Exists"})
    new = pod("new", "team", tolerations=(bearing,))
    closed = after(gentle, step(gentle, wanted, new))
    assert [one["effect"] for one in closed["spec"]["taints"]] == ["NoSchedule", "NoExecute"]
    # Once there it stays, whoever comes.
    assert step(closed, wanted, old, new).operations == ()
    assert after(closed, lifecycle.released(view(closed)))["spec"].get("taints") is None


@pytest.mark.parametrize(
    "kept",
    [
        pod("static", "kube-system", mirror=True),
        pod("ds", "kube-system", owner_kind="DaemonSet"),
        pod("own", "team"),
        views.PodView(namespace="other", name="done", node="n1", phase="Succeeded"),
    ],
)
def test_who_does_not_hold_a_node(kept: views.PodView) -> None:
    assert step(node(), pool(), kept).state == "dedicated"


@pytest.mark.parametrize(
    "kept",
    [
        pod("ds", "other", owner_kind="DaemonSet"),
        pod("plain", "default"),
        pod("p", "other"),
        pod("mirror", "other", mirror=True),
    ],
)
def test_who_does(kept: views.PodView) -> None:
    assert step(node(), pool(), kept).reason == "Occupied"


def test_nodes_tainted_by_hand() -> None:
    found = node(taints=[{"key": "x", "effect": "NoSchedule"}, *DEDICATED])
    assert step(found, pool()).reason == "TaintedByHand"
    adopted = after(found, step(found, pool(adopt=True)))
    assert adopted["spec"]["taints"] == found["spec"]["taints"]
    released = after(adopted, lifecycle.released(view(adopted)))
    assert released["spec"] == found["spec"]


def test_modes_without_a_taint() -> None:
    for mode, reason in (("shared", "Preferred"), ("borrow", "Borrowable")):
        taken = step(node(), pool(mode=mode), pod("a"))
        assert (taken.state, taken.reason) == ("shared", reason)
        assert after(node(), taken)["spec"] == {}
        assert after(node(), taken)["metadata"]["labels"]["node-pool"] == "team"


KEYS = st.sampled_from(["node-pool", "tenantry.io/node-pool", "zone", "gpu"])
TAINTS = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["x", "y", "tenant-dedicated"]),
            "effect": st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
        },
        optional={"value": st.sampled_from(["team", "z"]), "timeAdded": st.just("2026-01-01")},
    ),
    max_size=3,
    unique_by=lambda one: (one["key"], one["effect"]),
)


# What is put back at the end of the list must not look like a change.
@example(
    {},
    [
        {"key": "tenant-dedicated", "effect": "NoExecute"},
        {"key": "tenant-dedicated", "effect": "NoSchedule", "value": "team"},
    ],
    True,
    False,
)
@given(
    st.dictionaries(KEYS, st.sampled_from(["team", "old", ""]), max_size=3),
    TAINTS,
    st.booleans(),
    st.booleans(),
)
def test_a_release_restores_exactly_what_was_there(
    labels: dict[str, str], taints: list[Object], no_execute: bool, through_draining: bool
) -> None:
    found = node(metadata={"labels": labels, "annotations": {"a": "b"}}, taints=taints)
    wanted = pool(noExecute=no_execute)
    current = found
    stages = [records.wanted(wanted, tainted=True)]
    if through_draining:
        stages.insert(0, records.wanted(wanted, tainted=True, draining=True))
    for target in stages:
        current = jsonpatch.apply(current, records.patch(view(current), target))
        assert records.patch(view(current), target) == []
    current = jsonpatch.apply(current, records.patch(view(current), None))
    assert current["metadata"]["labels"] == labels
    assert current["metadata"]["annotations"] == {"a": "b"}
    key = lambda one: (one["key"], one["effect"])  # noqa: E731
    plain = [{k: v for k, v in one.items() if k != "timeAdded"} for one in taints]
    left = [
        {k: v for k, v in one.items() if k != "timeAdded"}
        for one in current["spec"].get("taints") or ()
    ]
    assert sorted(left, key=key) == sorted(plain, key=key)


def test_what_is_removed_from_a_node_is_put_back() -> None:
    dedicated = after(node(), step(node(), pool()))
    bare = json.loads(json.dumps(dedicated))
    bare["spec"] = {}
    bare["metadata"]["labels"] = {"node-pool": "hand"}
    mended = after(bare, step(bare, pool()))
    assert mended["spec"] == dedicated["spec"]
    assert mended["metadata"]["labels"] == dedicated["metadata"]["labels"]


def test_a_record_that_cannot_be_read_is_written_anew() -> None:
    dedicated = after(node(), step(node(), pool()))
    dedicated["metadata"]["annotations"][constants.RECORD_ANNOTATION] = "{"
    taken = step(dedicated, pool(adopt=True))
    assert records.read(view(after(dedicated, taken))) is not None


def nodes(*names: str, **more: Any) -> dict[str, views.NodeView]:
    return {name: view(node(name, **more)) for name in names}


def divided(
    pools: list[node_pool.TenantNodePool], known: dict[str, views.NodeView], tenants: set[str]
) -> claims.Claims:
    division = claims.Division()
    for one in pools:
        division.pool_changed(one.metadata.name, one)
    for name, found in known.items():
        division.node_changed(name, found)
    return division.claims(tenants)


def test_a_node_is_in_one_pool_and_the_older_has_it() -> None:
    old = pool("b", nodes=["n1"], metadata={"creationTimestamp": "2026-01-01T00:00:00Z"})
    new = pool("a", "other", nodes=["n1"], metadata={"creationTimestamp": "2026-02-01T00:00:00Z"})
    found = divided([new, old], nodes("n1", "n2"), {"team", "other"})
    assert found.pool_of == {"n1": "b"}
    assert found.refused["a", "n1"].reason == "Overlap"


def test_who_has_a_node_keeps_it() -> None:
    held = after(node(), step(node(), pool("late")))
    known = {"n1": view(held), "n2": view(node("n2"))}
    old = pool(
        "early", "other", nodes=["n1"], metadata={"creationTimestamp": "2020-01-01T00:00:00Z"}
    )
    late = pool("late", nodes=["n1"], metadata={"creationTimestamp": "2026-01-01T00:00:00Z"})
    assert divided([old, late], known, {"team", "other"}).pool_of == {"n1": "late"}


def test_a_pool_does_not_empty_a_cluster() -> None:
    greedy = pool(nodes=["n1", "n2"])
    assert divided([greedy], nodes("n1", "n2"), {"team"}).problems["pool"].reason == (
        "WouldEmptyCluster"
    )
    assert divided([greedy], nodes("n1", "n2", "n3"), {"team"}).problems == {}
    # Two pools together neither.
    two = [pool("a", nodes=["n1"]), pool("b", nodes=["n2"])]
    found = divided(two, nodes("n1", "n2"), {"team"})
    assert (found.pool_of, set(found.problems)) == ({"n1": "a"}, {"b"})


def test_missing_tenants_nodes_and_taints_of_others() -> None:
    known = nodes("n1", "n2")
    assert divided([pool(nodes=["n1"])], known, set()).problems["pool"].reason == ("NoSuchTenant")
    found = divided([pool(nodes=["gone"])], known, {"team"})
    assert found.problems["pool"].message == "none of gone exists"
    taken = nodes("n1", taints=[{**DEDICATED[0], "value": "rival"}]) | nodes("n2")
    found = divided([pool(nodes=["n1"])], taken, {"team"})
    assert found.refused["pool", "n1"].reason == "TaintedForOther"
    assert found.pool_of == {}


def test_what_a_dedicated_node_lacks() -> None:
    wanted = node_pool.Readiness(gpu_resource="nvidia.com/gpu", labels=["gpu.product"])
    bare = views.NodeView(name="n", labels={}, allocatable={"nvidia.com/gpu": "0"})
    found = readiness.score(bare, wanted, expected=["a/device", "a/label"], running={"a/label"})
    assert found.percent == 25
    assert found.missing == (
        "DaemonSet a/device",
        "allocatable nvidia.com/gpu",
        "label gpu.product",
    )
    full = views.NodeView(
        name="n", labels={"gpu.product": "x"}, allocatable={"nvidia.com/gpu": "8"}
    )
    found = readiness.score(full, wanted, expected=["a/device"], running={"a/device"})
    assert found == readiness.Score(100, ())


def test_borrowed_nodes_are_called_one_by_one() -> None:
    lent = {
        "n1": occupants.Occupants(foreign=(pod("a"), pod("b"))),
        "n2": occupants.Occupants(foreign=(pod("c"),)),
    }
    assert borrowing.called(lent, lent, waiting=0, before=()) == set()
    assert borrowing.called(lent, lent, waiting=2, before=()) == {"n2"}
    # While others still leave the first, no second is called.
    assert borrowing.called(lent, lent, waiting=2, before={"n2"}) == {"n2"}
    empty = {**lent, "n2": occupants.Occupants(own=(pod("d", "team"),))}
    assert borrowing.called(empty, empty, waiting=1, before={"n2"}) == {"n1", "n2"}
    assert borrowing.called(empty, empty, waiting=0, before={"n2"}) == {"n2"}
    gone = {**lent, "n2": occupants.Occupants()}
    assert borrowing.called(gone, gone, waiting=0, before={"n2"}) == set()
