"""Pools, fence and findings against a real API server, scheduler and controllers."""

from __future__ import annotations

import json
from typing import Any

import pytest

Object = dict[str, Any]


def pod(name: str, namespace: str, **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "main", "image": "registry.invalid/none"}], **spec},
    }


def on(stage: Any, name: str, namespace: str) -> str:
    found: str = stage.get("pod", name, "-n", namespace)["spec"].get("nodeName", "")
    return found


@pytest.mark.plane
def test_a_pool_dedicates_its_nodes_and_releases_them_exactly(stage: Any) -> None:
    team = stage.tenant()
    first = stage.nodes[0]
    stage.kubectl("label", "node", first, "node-pool=old")
    before = stage.node(first)
    name = stage.pool()
    stage.eventually(lambda: stage.states(name) == {"dedicated"}, "dedicated")
    assert f"tenant-dedicated={team}:NoSchedule" in stage.taints(first)
    labels = stage.node(first)["metadata"]["labels"]
    assert labels["node-pool"] == team
    assert labels["tenantry.io/node-pool"] == name
    stage.eventually(lambda: stage.condition(name, "Ready")["status"] == "True", "Ready")
    row = stage.kubectl("get", "tnp", name).splitlines()
    assert row[0].split() == [
        "NAME", "TENANT", "MODE", "NODES", "DEDICATED", "READY", "COMPLETE", "EXCLUSIVE", "STATUS",
        "AGE",
    ]  # fmt: skip
    assert row[1].split()[:8] == [name, team, "exclusive", "2", "2", "True", "True", "True"]

    stage.kubectl("delete", "tnp", name)
    stage.eventually(lambda: not stage.taints(first), "released")
    after = stage.node(first)
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert after["spec"].get("taints") == before["spec"].get("taints")
    assert "tenantry.io/node-pool-record" not in (after["metadata"].get("annotations") or {})


@pytest.mark.plane
def test_the_fence_holds_a_tenants_pods_on_its_nodes(stage: Any) -> None:
    team, other = stage.tenant(), stage.tenant("other")
    name = stage.pool()
    stage.eventually(lambda: stage.states(name) == {"dedicated"}, "dedicated")
    mine = set(stage.nodes[:2])

    stage.kubectl("create", "-f", "-", stdin=pod("a", team), user=team)
    found = stage.get("pod", "a", "-n", team)["spec"]
    assert found["nodeSelector"] == {"node-pool": team}
    assert {
        "key": "tenant-dedicated", "operator": "Equal", "value": team, "effect": "NoSchedule",
    } in found["tolerations"]  # fmt: skip
    stage.eventually(lambda: on(stage, "a", team) in mine, "on its nodes")

    # Somebody else's, also with a high priority, goes elsewhere.
    urgent = pod("b", other)
    stage.kubectl("create", "-f", "-", stdin=urgent, user=other)
    stage.eventually(lambda: on(stage, "b", other), "scheduled")
    assert on(stage, "b", other) not in mine

    for spec, words in (
        ({"tolerations": [{"operator": "Exists"}]}, "operator Exists without a key"),
        (
            {"tolerations": [{"key": "tenant-dedicated", "operator": "Exists"}]},
            f'accepted is operator Equal with value "{other}"',
        ),
        (
            {"tolerations": [{"key": "tenant-dedicated", "value": team, "effect": "NoSchedule"}]},
            "tolerates nodes of other tenants",
        ),
        ({"nodeName": stage.nodes[0]}, "only the scheduler places pods of tenants"),
        ({"nodeSelector": {"node-pool": team}}, "has no nodes of its own"),
    ):
        error = stage.refused("create", "-f", "-", stdin=pod("x", other, **spec), user=other)
        assert words in error, error
    terms = [{"matchExpressions": [{"key": "node-pool", "operator": "NotIn", "values": [team]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    leaving = pod("y", team, affinity={"nodeAffinity": required})
    assert "leaves the tenant's nodes" in stage.refused(
        "create", "-f", "-", stdin=leaving, user=team
    )
    elsewhere = pod("z", team, nodeSelector={"node-pool": other})
    # The plugin, which comes first, says it in its own words.
    assert "forbidden" in stage.refused("create", "-f", "-", stdin=elsewhere, user=team)

    # A pod update can add tolerations; that of others is refused too.
    more = [*found["tolerations"], {"key": "tenant-dedicated", "operator": "Exists"}]
    change = json.dumps({"spec": {"tolerations": more}})
    assert "tolerates nodes of other tenants" in stage.refused(
        "patch", "pod", "a", "-n", team, "--type=merge", "-p", change, user=team
    )
    # And a Deployment of somebody else's gets no pod with a foreign toleration.
    template = {
        "metadata": {"labels": {"app": "d"}},
        "spec": {**pod("d", other)["spec"], "tolerations": [{"operator": "Exists"}]},
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": other},
        "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": template},
    }
    stage.kubectl("create", "-f", "-", stdin=deployment, user=other)
    told = stage.eventually(
        lambda: [
            one["message"]
            for one in stage.get("replicasets", "-n", other)["items"][0]["status"]["conditions"]
        ],
        "the refusal",
    )
    assert "operator Exists without a key" in told[0]


@pytest.mark.plane
def test_only_schedulers_bind_pods_of_tenants(stage: Any) -> None:
    team = stage.tenant()
    stage.kubectl("create", "-f", "-", stdin=pod("a", team, schedulerName="nobody"), user=team)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "a", "namespace": team},
        "target": {"apiVersion": "v1", "kind": "Node", "name": stage.nodes[0]},
    }
    role = ("create", "role", "binder", "-n", team, "--verb=create", "--resource=pods/binding")
    stage.kubectl(*role)
    stage.kubectl("create", "rolebinding", "b", "-n", team, "--role=binder", f"--user={team}")
    path = f"/api/v1/namespaces/{team}/pods/a/binding"
    ask = ("auth", "can-i", "create", "pods/binding", "-n", team, f"--as={team}")
    stage.eventually(lambda: not stage.plane.run(*ask, check=False).returncode, "the right")
    error = stage.refused("create", "--raw", path, "-f", "-", stdin=binding, user=team)
    assert "only schedulers outside of tenants" in error


@pytest.mark.plane
def test_pods_of_others_hold_a_node_until_they_are_drained(stage: Any) -> None:
    stage.tenant()
    other = stage.tenant("other")
    node = stage.nodes[0]
    here = {"nodeSelector": {"kubernetes.io/hostname": node}}
    stage.kubectl("create", "-f", "-", stdin=pod("b", other, **here), user=other)
    stage.eventually(lambda: on(stage, "b", other) == node, "it runs there")
    name = stage.pool(nodes=[node])
    entry = stage.eventually(
        lambda: (one := stage.entries(name)[node])["reason"] == "Occupied" and one, "occupied"
    )
    assert entry["state"] == "shared"
    assert f"{other}/b" in entry["message"]
    assert stage.taints(node) == []
    stage.pool(nodes=[node], drain=True)
    stage.eventually(lambda: stage.states(name) == {"dedicated"}, "drained and dedicated")
    assert stage.kubectl("get", "pods", "-n", other, "-o", "name") == ""


@pytest.mark.plane
def test_a_foreign_pod_and_a_pod_outside_are_found(stage: Any) -> None:
    team = stage.tenant()
    early = stage.nodes[2]
    here = {"nodeSelector": {"kubernetes.io/hostname": early}}
    stage.kubectl("create", "-f", "-", stdin=pod("early", team, **here), user=team)
    stage.eventually(lambda: on(stage, "early", team) == early, "it runs")
    name = stage.pool()
    stage.eventually(lambda: stage.states(name) == {"dedicated"}, "dedicated")
    place = stage.namespace(stage.name("plain"))
    stage.kubectl("create", "-f", "-", stdin=pod("intruder", place, nodeName=stage.nodes[0]))
    found = stage.eventually(
        lambda: len(all_ := stage.status(name).get("violations") or []) == 2 and all_, "both found"
    )
    assert [(one["kind"], one["pod"], one["node"]) for one in found] == [
        ("ForeignPod", "intruder", stage.nodes[0]),
        ("PodOutside", "early", early),
    ]
    assert stage.condition(name, "Exclusive")["status"] == "False"
    told = stage.eventually(
        lambda: [
            one["reason"]
            for one in stage.get("events", "-n", "default")["items"]
            if one["involvedObject"].get("name") == name
        ],
        "events",
    )
    assert {"ForeignPod", "PodOutside"} <= set(told)


@pytest.mark.plane
def test_what_hands_and_tenants_do_to_nodes(stage: Any) -> None:
    team = stage.tenant()
    node = stage.nodes[0]
    name = stage.pool()
    stage.eventually(lambda: stage.states(name) == {"dedicated"}, "dedicated")
    # An administrator may take the taint or a label away; it is put back.
    stage.kubectl("taint", "node", node, "tenant-dedicated-")
    stage.eventually(lambda: stage.taints(node) == [f"tenant-dedicated={team}:NoSchedule"], "back")
    stage.kubectl("label", "node", node, "node-pool-", "tenantry.io/node-pool-")
    stage.eventually(
        lambda: stage.node(node)["metadata"]["labels"].get("node-pool") == team, "label back"
    )
    # A tenant that may write nodes may cordon one, and nothing that a pool rests on.
    stage.kubectl(
        "create", "clusterrole", stage.name("nodes"), "--verb=get,patch,update", "--resource=nodes"
    )
    role = f"--clusterrole={stage.name('nodes')}"
    stage.kubectl("create", "clusterrolebinding", stage.name("nodes"), role, f"--user={team}")
    ask = ("auth", "can-i", "patch", "nodes", f"--as={team}")
    stage.eventually(lambda: not stage.plane.run(*ask, check=False).returncode, "the right")
    stage.kubectl("cordon", node, user=team)
    stage.kubectl("uncordon", node, user=team)
    for line in (
        ("taint", "node", node, "tenant-dedicated-"),
        ("taint", "node", stage.nodes[2], f"tenant-dedicated={team}:NoSchedule"),
        ("label", "node", node, "node-pool=x", "--overwrite"),
        ("label", "node", stage.nodes[2], f"node-pool={team}"),
        ("label", "node", node, "tenantry.io/node-pool-"),
        ("annotate", "node", node, "tenantry.io/node-pool-record-"),
    ):
        assert "kept by TenantNodePools" in stage.refused(*line, user=team), line


@pytest.mark.plane
def test_bad_pools_are_refused_or_told(stage: Any) -> None:
    team, other = stage.tenant(), stage.tenant("other")
    name = stage.pool()
    stage.eventually(lambda: stage.states(name) == {"dedicated"}, "dedicated")

    def made(**spec: Any) -> Object:
        return {
            "apiVersion": "tenantry.io/v1alpha1",
            "kind": "TenantNodePool",
            "metadata": {"name": stage.name("bad")},
            "spec": {"tenant": other, **spec},
        }

    for spec, words in (
        ({"nodes": stage.nodes[:1]}, f'it is in pool "{name}"'),
        ({}, "give spec.nodes, spec.selector or both"),
        ({"selector": {}}, "it would select every node"),
        ({"nodes": ["Not_A_Node"]}, "must be a node's name"),
        ({"nodes": ["n"], "taintKey": "node.kubernetes.io/x"}, "spec.taintKey"),
        ({"nodes": ["n"], "mode": "mine"}, 'Unsupported value: "mine"'),
    ):
        assert words in stage.refused("create", "-f", "-", stdin=made(**spec))
    change = json.dumps({"spec": {"tenant": other}})
    assert "it cannot be changed" in stage.refused(
        "patch", "tnp", name, "--type=merge", "-p", change
    )
    assert stage.taints(stage.nodes[0]) == [f"tenant-dedicated={team}:NoSchedule"]
    # A pool by selector that covers the same node does not get it, and says who has it.
    hostname = {"kubernetes.io/hostname": stage.nodes[0]}
    rival = stage.pool("rival", tenant="other", selector={"matchLabels": hostname})
    stage.eventually(
        lambda: stage.entries(rival)[stage.nodes[0]]["reason"] == "Overlap", "overlap told"
    )
    # All nodes of the cluster at once are too many.
    greedy = stage.pool(
        "greedy", tenant="other", selector={"matchLabels": {"kubernetes.io/os": "linux"}}
    )
    stage.eventually(
        lambda: stage.condition(greedy, "Ready")["reason"] == "WouldEmptyCluster", "refused"
    )
    stage.kubectl("delete", "tnp", greedy)
    nobody = stage.pool("nobody", tenant="no-such", nodes=[stage.nodes[2]])
    stage.eventually(lambda: stage.condition(nobody, "Ready")["reason"] == "NoSuchTenant", "told")
    assert stage.taints(stage.nodes[2]) == []
    stage.tenant("no-such")
    stage.eventually(lambda: stage.states(nobody) == {"dedicated"}, "once the tenant exists")


@pytest.mark.plane
def test_nodes_tainted_by_hand_are_recognised_and_adopted(stage: Any) -> None:
    team = stage.tenant()
    node = stage.nodes[0]
    stage.kubectl("taint", "node", node, f"tenant-dedicated={team}:NoSchedule")
    name = stage.pool(nodes=[node])
    stage.eventually(lambda: stage.entries(name)[node]["reason"] == "TaintedByHand", "recognised")
    stage.pool(nodes=[node], adopt=True)
    stage.eventually(lambda: stage.states(name) == {"dedicated"}, "adopted")
    stage.kubectl("delete", "tnp", name)
    stage.eventually(lambda: "node-pool" not in stage.node(node)["metadata"]["labels"], "released")
    # What somebody put there by hand was there before, and stays.
    assert stage.taints(node) == [f"tenant-dedicated={team}:NoSchedule"]


@pytest.mark.plane
def test_pools_reach_the_annotation_of_namespaces(stage: Any) -> None:
    team = stage.tenant()
    key = "scheduler.alpha.kubernetes.io/node-selector"

    def annotation() -> str | None:
        found = stage.get("namespace", team)["metadata"].get("annotations") or {}
        value: str | None = found.get(key)
        return value

    assert annotation() is None
    name = stage.pool()
    stage.eventually(lambda: annotation() == f"node-pool={team}", "written")
    change = json.dumps({"metadata": {"annotations": {key: "node-pool=other"}}})
    # The mutation puts back what an owner changes; nothing else is ever stored.
    stage.kubectl("patch", "namespace", team, "--type=merge", "-p", change, user=team)
    assert annotation() == f"node-pool={team}"
    stage.kubectl("delete", "tnp", name)
    stage.eventually(lambda: annotation() is None, "taken back")


@pytest.mark.plane
def test_several_pools_make_an_affinity(stage: Any) -> None:
    team = stage.tenant()
    train = stage.pool("train", nodes=[stage.nodes[0]], purpose="training")
    load = stage.pool("load", nodes=[stage.nodes[1]], purpose="model download")
    for name in (train, load):
        stage.eventually(lambda name=name: stage.states(name) == {"dedicated"}, "dedicated")
    chosen = {"tenantry.io/node-pool": load}
    stage.kubectl("create", "-f", "-", stdin=pod("a", team, nodeSelector=chosen), user=team)
    spec = stage.get("pod", "a", "-n", team)["spec"]
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"] == [
        {
            "matchExpressions": [
                {"key": "tenantry.io/node-pool", "operator": "In", "values": [load, train]}
            ]
        }
    ]
    stage.eventually(lambda: on(stage, "a", team) == stage.nodes[1], "in the pool it asked for")


@pytest.mark.plane
def test_borrowed_nodes_come_back_when_they_are_needed(stage: Any) -> None:
    team, other = stage.tenant(), stage.tenant("other")
    node = stage.nodes[0]
    name = stage.pool(nodes=[node], mode="borrow")
    stage.eventually(
        lambda: stage.entries(name)[node]["reason"] == "Borrowable", "it can be borrowed"
    )
    gpu = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    container = {"name": "main", "image": "registry.invalid/none", **gpu}
    here = {"kubernetes.io/hostname": node}
    lent = pod("b", other, containers=[container], nodeSelector=here, affinity={})
    stage.kubectl("create", "-f", "-", stdin=lent, user=other)
    stage.eventually(lambda: on(stage, "b", other) == node, "borrowed")
    stage.kubectl("create", "-f", "-", stdin=pod("a", team, containers=[container]), user=team)
    stage.eventually(lambda: on(stage, "a", team) == node, "given back")
    assert stage.kubectl("get", "pods", "-n", other, "-o", "name") == ""


@pytest.mark.plane
def test_a_drain_respects_disruption_budgets(stage: Any) -> None:
    stage.tenant()
    other = stage.tenant("other")
    node = stage.nodes[0]
    held = pod("b", other, nodeSelector={"kubernetes.io/hostname": node})
    held["metadata"]["labels"] = {"app": "b"}
    stage.kubectl("create", "-f", "-", stdin=held, user=other)
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": other},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "b"}}},
    }
    stage.kubectl("create", "-f", "-", stdin=budget)
    stage.eventually(
        lambda: (
            stage.get("pdb", "b", "-n", other)["status"]["currentHealthy"] == 1
            and on(stage, "b", other) == node
        ),
        "the budget counts it",
    )
    name = stage.pool(nodes=[node], drain=True)
    entry = stage.eventually(
        lambda: (one := stage.entries(name)[node])["state"] == "draining" and one, "draining"
    )
    assert f"waiting for {other}/b" in entry["message"]
    assert stage.get("pod", "b", "-n", other)["metadata"].get("deletionTimestamp") is None
    stage.kubectl("delete", "pdb", "b", "-n", other)
    stage.eventually(lambda: stage.states(name) == {"dedicated"}, "drained", seconds=40)


@pytest.mark.plane
def test_a_priority_buys_no_place_on_a_dedicated_node(stage: Any) -> None:
    team, other = stage.tenant(), stage.tenant("other")
    name = stage.pool(nodes=stage.nodes[:1])
    stage.eventually(lambda: stage.states(name) == {"dedicated"}, "dedicated")
    urgent = stage.name("urgent")
    stage.kubectl("create", "priorityclass", urgent, "--value=1000000")
    here = {"kubernetes.io/hostname": stage.nodes[0]}
    stage.kubectl("create", "-f", "-", stdin=pod("a", team), user=team)
    stage.eventually(lambda: on(stage, "a", team) == stage.nodes[0], "it runs")
    rude = pod("b", other, nodeSelector=here, priorityClassName=urgent)
    stage.kubectl("create", "-f", "-", stdin=rude, user=other)

    def unschedulable() -> bool:
        conditions = stage.get("pod", "b", "-n", other)["status"]["conditions"]
        return any(one.get("reason") == "Unschedulable" for one in conditions)

    stage.eventually(unschedulable, "it waits")
    assert on(stage, "a", team) == stage.nodes[0]


@pytest.mark.plane
def test_a_node_that_vanishes_leaves_the_pool_in_order(stage: Any) -> None:
    stage.tenant()
    name = stage.pool()
    stage.eventually(lambda: stage.states(name) == {"dedicated"}, "dedicated")
    stage.kubectl("delete", "node", stage.nodes[1])
    stage.eventually(lambda: list(stage.entries(name)) == stage.nodes[:1], "one is left")
    stage.eventually(lambda: stage.condition(name, "Ready")["status"] == "True", "Ready")
    stage.kubectl("delete", "node", stage.nodes[0])
    stage.eventually(lambda: stage.condition(name, "Ready")["reason"] == "NoNodes", "told")
