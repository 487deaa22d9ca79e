"""Seed 000 chapter 6 on its own nodes: the listing, and the DaemonSets of specs/governance 10.1."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tenantry.nodes import daemonsets, listing, repair, taints, views
from tenantry.runtime import jsonpatch

from . import seed
from .seed import FIVE, FIXTURES

TAINT = taints.Taint("tenant-dedicated", "tenant01")

Object = dict[str, Any]


@pytest.fixture(scope="module")
def nodes() -> list[views.NodeView]:
    return [views.node_view(msgspec.json.encode(one)) for one in seed.nodes()]


def daemon_set(namespace: str, name: str, **template: Any) -> daemonsets.View:
    body: Object = {
        "metadata": {"namespace": namespace, "name": name, "uid": name, "resourceVersion": "7"},
        "spec": {"template": {"spec": {"containers": [], **template}}},
    }
    return daemonsets.view(msgspec.json.encode(body))


def listed() -> list[tuple[daemonsets.View, int]]:
    return [
        (daemon_set(namespace, name, **seed.TEMPLATES[name]), desired)
        for namespace, name, desired in seed.rows()
    ]


def audited(nodes: list[views.NodeView], found: list[daemonsets.View]) -> list[daemonsets.Audit]:
    index = daemonsets.Nodes(nodes, {"tenant-dedicated"})
    everywhere = [node.name for node in nodes]
    return daemonsets.audit(found, index, lambda _: everywhere)


def test_the_five_nodes_are_printed_as_the_document_prints_them(
    nodes: list[views.NodeView],
) -> None:
    expected = (FIXTURES / "expected-dedicated-nodes.txt").read_bytes()
    text = "\n".join(listing.lines(nodes, {"tenant-dedicated"})) + "\n"
    assert text.encode() == expected


def test_blocked_are_those_of_the_table_on_exactly_the_five(
    nodes: list[views.NodeView],
) -> None:
    assert len(nodes) == 102
    found = {one.name: one for one in audited(nodes, [one for one, _ in listed()])}
    for one, desired in listed():
        assert found[one.name].eligible == desired, one.name
    blocked = {name: one for name, one in found.items() if one.blocked}
    assert {name: one.severity for name, one in blocked.items()} == seed.BLOCKED
    assert {one.blocked for one in blocked.values()} == {FIVE}
    assert {name: one.importance for name, one in found.items()} == {
        "csi-nfs-node": "storage",
        "kube-flannel-ds": "network",
        "kube-multus-ds": "network",
        "kube-proxy": "network",
        "rdma-shared-dp-ds": "network",
        "whereabouts-whereabouts-chart": "network",
        "mars-gpu-device": "gpu",
        "mars-gpu-label": "gpu",
        "metallb-speaker": "network",
        "mars-ht-exporter": "monitoring",
        "prometheus-stack-prometheus-node-exporter": "monitoring",
        "nfd-node-feature-discovery-worker": "gpu",
    }


def stored(one: daemonsets.View) -> Object:
    return {
        "metadata": {
            "namespace": one.namespace,
            "name": one.name,
            "uid": one.uid,
            "resourceVersion": one.resource_version,
            **({"annotations": one.annotations} if one.annotations else {}),
        },
        "spec": {"template": {"spec": one.template}},
    }


def repaired(one: daemonsets.View, **how: Any) -> daemonsets.View:
    decided = repair.plan(one, needed=[TAINT], tenant=None, allow={one.namespace}, **how)
    assert decided.action == "patch", decided.reason
    return daemonsets.view(msgspec.json.encode(jsonpatch.apply(stored(one), decided.operations)))


def test_the_documents_patch_loses_a_toleration_and_ours_keeps_it(
    nodes: list[views.NodeView],
) -> None:
    before = next(one for one, _ in listed() if one.name == "mars-gpu-device")
    operations = json.loads((FIXTURES / "patch-mars-gpu-device.json").read_text())
    theirs = jsonpatch.apply(stored(before), operations)["spec"]["template"]["spec"]
    ours = repaired(before).template
    added = operations[0]["value"][0]
    assert theirs["tolerations"] == [added]
    assert ours["tolerations"] == [*before.template["tolerations"], added]


def test_after_the_repair_all_reach_the_five(nodes: list[views.NodeView]) -> None:
    blocked = {one.name for one in audited(nodes, [one for one, _ in listed()]) if one.blocked}
    after = [repaired(one) if one.name in blocked else one for one, _ in listed()]
    assert not [one.name for one in audited(nodes, after) if one.blocked]
    for one in after:
        again = repair.plan(one, needed=[TAINT], tenant=None, allow={one.namespace})
        assert (again.action, again.operations) == ("none", ())


@pytest.mark.parametrize("name", ["mars-gpu-device", "metallb-speaker"])
def test_a_repair_is_taken_back_exactly(name: str) -> None:
    before = next(one for one, _ in listed() if one.name == name)
    after = repaired(before)
    undone = jsonpatch.apply(stored(after), repair.undo(after, {"tenant-dedicated"}))
    assert undone["spec"] == stored(before)["spec"]
    assert not undone["metadata"].get("annotations")
    assert repair.undo(before, {"tenant-dedicated"}) == []


def test_what_others_add_after_a_repair_stays_when_it_is_undone() -> None:
    before = daemon_set("kube-system", "a", tolerations=[{"key": "x", "operator": "Exists"}])
    after = repaired(before)
    later = stored(after)
    later["spec"]["template"]["spec"]["tolerations"].append({"key": "y", "operator": "Exists"})
    view = daemonsets.view(msgspec.json.encode(later))
    undone = jsonpatch.apply(later, repair.undo(view, {"tenant-dedicated"}))
    assert undone["spec"]["template"]["spec"]["tolerations"] == [
        {"key": "x", "operator": "Exists"},
        {"key": "y", "operator": "Exists"},
    ]


def test_an_upgrade_that_removes_the_toleration_is_repaired_again() -> None:
    before = daemon_set("kube-system", "a", tolerations=[{"key": "x", "operator": "Exists"}])
    after = repaired(before)
    upgraded = stored(after)
    upgraded["spec"]["template"]["spec"]["tolerations"] = [{"key": "z", "operator": "Exists"}]
    view = daemonsets.view(msgspec.json.encode(upgraded))
    again = repaired(view)
    assert again.template["tolerations"] == [
        {"key": "z", "operator": "Exists"},
        {"key": "tenant-dedicated", "operator": "Exists", "effect": "NoSchedule"},
    ]
    assert again.annotations == after.annotations


@pytest.mark.parametrize(
    ("change", "tenant", "allow", "words"),
    [
        ({}, "team", {"kube-system"}, "it is tenant team's"),
        ({}, None, set(), "not on the allow list; allow kube-system or kube-system/a"),
        ({}, None, {"kube-system/b"}, "not on the allow list"),
        (
            {"ownerReferences": [{"kind": "ClusterPolicy", "name": "gpu", "controller": True}]},
            None,
            {"kube-system"},
            "change spec.daemonsets.tolerations of the ClusterPolicy",
        ),
        (
            {"annotations": {"meta.helm.sh/release-name": "prom"}},
            None,
            {"kube-system"},
            "undone by Helm release prom",
        ),
        (
            {"labels": {"argocd.argoproj.io/instance": "infra"}},
            None,
            {"kube-system"},
            "undone by Argo CD application infra",
        ),
        (
            {"labels": {"kustomize.toolkit.fluxcd.io/name": "infra"}},
            None,
            {"kube-system"},
            "undone by Flux kustomization infra",
        ),
    ],
)
def test_what_is_reported_and_not_patched(
    change: Object, tenant: str | None, allow: set[str], words: str
) -> None:
    body: Object = {
        "metadata": {"namespace": "kube-system", "name": "a", "uid": "a", **change},
        "spec": {"template": {"spec": {}}},
    }
    one = daemonsets.view(msgspec.json.encode(body))
    decided = repair.plan(one, needed=[TAINT], tenant=tenant, allow=allow)
    assert decided.action == "reported"
    assert words in decided.reason
    assert decided.operations == ()
    anyway = repair.plan(one, needed=[TAINT], tenant=tenant, allow=allow, anyway=True)
    # Who else writes it can be overridden; whose it is and the allow list cannot.
    assert (anyway.action == "patch") is ("undone by" in words or "ClusterPolicy" in words)


def test_a_second_taint_still_excludes_a_node() -> None:
    both = views.NodeView(name="n", taints=(TAINT, taints.Taint("other", "x")))
    (found,) = audited([both], [daemon_set("kube-system", "a")])
    assert (found.wanted, found.eligible, found.blocked) == (0, 0, ())


def test_a_soft_taint_excludes_nothing() -> None:
    soft = views.NodeView(name="n", taints=(taints.Taint("x", "", "PreferNoSchedule"),))
    (found,) = audited([soft], [daemon_set("kube-system", "a")])
    assert found.eligible == 1


@pytest.mark.parametrize(
    ("key", "effect", "host", "eligible"),
    [
        ("node.kubernetes.io/unschedulable", "NoSchedule", False, 1),
        ("node.kubernetes.io/not-ready", "NoExecute", False, 1),
        ("node.kubernetes.io/not-ready", "NoSchedule", False, 0),
        ("node.kubernetes.io/network-unavailable", "NoSchedule", False, 0),
        ("node.kubernetes.io/network-unavailable", "NoSchedule", True, 1),
    ],
)
def test_what_the_controller_tolerates_by_itself(
    key: str, effect: str, host: bool, eligible: int
) -> None:
    node = views.NodeView(name="n", taints=(taints.Taint(key, "", effect),))
    (found,) = audited([node], [daemon_set("kube-system", "a", hostNetwork=host)])
    assert found.eligible == eligible


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"key": "a", "operator": "In", "values": ["1", "3"]}, ["n1", "n3"]),
        ({"key": "a", "operator": "NotIn", "values": ["1"]}, ["n0", "n2", "n3"]),
        ({"key": "a", "operator": "Exists"}, ["n1", "n2", "n3"]),
        ({"key": "a", "operator": "DoesNotExist"}, ["n0"]),
        ({"key": "a", "operator": "Gt", "values": ["1"]}, ["n2", "n3"]),
        ({"key": "a", "operator": "Lt", "values": ["3"]}, ["n1", "n2"]),
        ({"key": "a", "operator": "Gt", "values": ["x"]}, []),
        ({"key": "a", "operator": "Unknown", "values": ["1"]}, []),
    ],
)
def test_node_affinity(expression: Object, expected: list[str]) -> None:
    index = daemonsets.Nodes(
        [
            views.NodeView(name=f"n{number}", labels={"a": str(number)} if number else {})
            for number in range(4)
        ],
        (),
    )

    def selected(term: Object) -> list[str]:
        terms = {"nodeSelectorTerms": [term]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        return index.named(index.selected({"affinity": {"nodeAffinity": required}}))

    assert selected({"matchExpressions": [expression]}) == expected
    assert selected({}) == []
    name = {"key": "metadata.name", "operator": "In", "values": ["n2"]}
    assert selected({"matchFields": [name]}) == ["n2"]
