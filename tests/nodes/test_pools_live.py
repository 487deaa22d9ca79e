"""Pools and findings against a real API server, scheduler and controllers."""

from __future__ import annotations

import pytest

from .stage import POOL, SELECTOR, Object, Refused, Stage, metadata, pod

pytestmark = pytest.mark.plane


def test_a_pool_dedicates_its_nodes_and_releases_them_exactly(stage: Stage) -> None:
    team = stage.tenant()
    first = stage.nodes[0]
    stage.patch("Node", first, "", {"metadata": {"labels": {"node-pool": "old"}}})
    before = stage.node(first)
    name = stage.dedicated()
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
    assert stage.metrics() == {
        f'tenantry_node_pool_nodes{{pool="{name}",state="{state}"}}': 2.0 * (state == "dedicated")
        for state in ("shared", "draining", "dedicated", "released")
    } | {
        f'tenantry_node_pool_violations{{pool="{name}",kind="{kind}"}}': 0.0
        for kind in ("ForeignPod", "PodOutside")
    } | {f'tenantry_node_pool_complete_nodes{{pool="{name}"}}': 2.0}

    stage.delete(POOL, name)
    stage.eventually(lambda: not stage.taints(first), "released")
    after = stage.node(first)
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert after["spec"].get("taints") == before["spec"].get("taints")
    assert "tenantry.io/node-pool-record" not in (after["metadata"].get("annotations") or {})
    stage.eventually(lambda: not stage.metrics(), "its metrics end with it")


def test_pods_of_others_hold_a_node_until_they_are_drained_within_their_budgets(
    stage: Stage,
) -> None:
    stage.tenant()
    other, node = stage.tenant("other"), stage.nodes[0]
    here = {"kubernetes.io/hostname": node}
    stage.create(pod("b", other, nodeSelector=here, metadata={"labels": {"app": "b"}}), user=other)
    stage.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata("b", other),
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "b"}}},
        }
    )
    stage.eventually(
        lambda: (
            stage.get("PodDisruptionBudget", "b", other)["status"]["currentHealthy"] == 1
            and stage.on("b", other) == node
        ),
        "it runs there, and the budget counts it",
    )
    name = stage.pool(nodes=[node])
    entry = stage.eventually(
        lambda: (one := stage.entries(name)[node])["reason"] == "Occupied" and one, "occupied"
    )
    assert entry["state"] == "shared"
    assert f"{other}/b" in entry["message"]
    assert stage.taints(node) == []

    stage.pool(nodes=[node], drain=True)
    entry = stage.eventually(
        lambda: (one := stage.entries(name)[node])["state"] == "draining" and one, "draining"
    )
    assert f"waiting for {other}/b" in entry["message"]
    assert "deletionTimestamp" not in stage.get("Pod", "b", other)["metadata"]
    stage.delete("PodDisruptionBudget", "b", other)
    stage.eventually(lambda: stage.states(name) == {"dedicated"}, "drained", seconds=40)
    assert stage.items("Pod", other) == []


def test_foreign_pods_and_pods_outside_are_found(stage: Stage) -> None:
    team, early = stage.tenant(), stage.nodes[2]
    # From before there was a pool, and so a fence.
    stage.create(pod("early", team, nodeSelector={"kubernetes.io/hostname": early}), user=team)
    stage.eventually(lambda: stage.on("early", team) == early, "it runs")
    name = stage.dedicated()
    place = stage.namespace(stage.name("plain"))
    stage.create(pod("intruder", place, nodeName=stage.nodes[0]))
    found = stage.eventually(
        lambda: len(all_ := stage.status(name).get("violations") or []) == 2 and all_, "both found"
    )
    assert [(one["kind"], one["pod"], one["node"]) for one in found] == [
        ("ForeignPod", "intruder", stage.nodes[0]),
        ("PodOutside", "early", early),
    ]
    assert stage.condition(name, "Exclusive")["status"] == "False"
    metrics = stage.metrics()
    assert metrics[f'tenantry_node_pool_violations{{pool="{name}",kind="ForeignPod"}}'] == 1
    assert metrics[f'tenantry_node_pool_violations{{pool="{name}",kind="PodOutside"}}'] == 1
    stage.eventually(
        lambda: {"ForeignPod", "PodOutside"} <= {
            one["reason"]
            for one in stage.items("Event", "default")
            if one["involvedObject"].get("name") == name
        },
        "events",
    )  # fmt: skip


def test_what_hands_do_to_nodes_is_put_back(stage: Stage) -> None:
    team, node = stage.tenant(), stage.nodes[0]
    labels = stage.node(node)["metadata"]["labels"]
    stage.dedicated()
    stage.kubectl("taint", "node", node, "tenant-dedicated-")
    stage.eventually(lambda: stage.taints(node) == [f"tenant-dedicated={team}:NoSchedule"], "back")
    stage.kubectl("label", "node", node, "node-pool-", "tenantry.io/node-pool-")
    stage.eventually(
        lambda: stage.node(node)["metadata"]["labels"].get("node-pool") == team, "label back"
    )
    # As a cloud provider does that makes the node anew: nothing is left of what was on it.
    stage.delete("Node", node)
    new = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": labels}}
    stage.create(new)
    stage.eventually(
        lambda: f"tenant-dedicated={team}:NoSchedule" in stage.taints(node), "the new one too"
    )


def test_bad_pools_are_refused_or_told(stage: Stage) -> None:
    team, other = stage.tenant(), stage.tenant("other")
    name = stage.dedicated()

    def made(**spec: object) -> Object:
        return {
            "apiVersion": "tenantry.io/v1alpha1",
            "kind": POOL,
            "metadata": {"name": stage.name("bad")},
            "spec": {"tenant": other, **spec},
        }

    for spec, words in (
        ({"nodes": stage.nodes[:1]}, f'it is in pool "{name}"'),
        ({}, "give spec.nodes, spec.selector or both"),
        ({"selector": {}}, "it would select every node"),
        ({"nodes": ["Not_A_Node"]}, "must be a node's name"),
        ({"nodes": ["n", "n"]}, 'spec.nodes[1]: Duplicate value: "n"'),
        ({"nodes": ["n"], "tenant": "Not A Tenant"}, "spec.tenant: Invalid value"),
        ({"nodes": ["n"], "taintKey": "node.kubernetes.io/x"}, "spec.taintKey"),
        ({"nodes": ["n"], "labelKey": "tenantry.io/node-pool"}, "spec.labelKey"),
        ({"nodes": ["n"], "mode": "mine"}, 'Unsupported value: "mine"'),
    ):
        assert words in stage.refused(stage.create, made(**spec))
    change = {"spec": {"tenant": other}}
    assert "it cannot be changed" in stage.refused(stage.patch, POOL, name, "", change)
    # Pools are the administrators'; a tenant's owner may not even see them.
    for method in ("GET", "POST"):
        with pytest.raises(Refused, match="403"):
            body = made(nodes=["n"]) if method == "POST" else None
            stage.call(method, POOL, "", "", body, user=other)
    assert stage.taints(stage.nodes[0]) == [f"tenant-dedicated={team}:NoSchedule"]

    # A pool by selector that covers the same node does not get it, and says who has it.
    hostname = {"kubernetes.io/hostname": stage.nodes[0]}
    rival = stage.pool("rival", tenant="other", selector={"matchLabels": hostname})
    stage.eventually(
        lambda: stage.entries(rival)[stage.nodes[0]]["reason"] == "Overlap", "overlap told"
    )
    # All nodes of the cluster at once are too many.
    everything = {"matchLabels": {"kubernetes.io/os": "linux"}}
    greedy = stage.pool("greedy", tenant="other", selector=everything)
    stage.eventually(
        lambda: stage.condition(greedy, "Ready")["reason"] == "WouldEmptyCluster", "refused"
    )
    stage.delete(POOL, greedy)
    nobody = stage.pool("nobody", tenant="no-such", nodes=[stage.nodes[2]])
    stage.eventually(lambda: stage.condition(nobody, "Ready")["reason"] == "NoSuchTenant", "told")
    assert stage.taints(stage.nodes[2]) == []
    stage.tenant("no-such")
    stage.eventually(lambda: stage.states(nobody) == {"dedicated"}, "once the tenant exists")


def test_nodes_tainted_by_hand_are_recognised_and_adopted(stage: Stage) -> None:
    team, node = stage.tenant(), stage.nodes[0]
    stage.kubectl("taint", "node", node, f"tenant-dedicated={team}:NoSchedule")
    name = stage.pool(nodes=[node])
    stage.eventually(lambda: stage.entries(name)[node]["reason"] == "TaintedByHand", "recognised")
    stage.dedicated(nodes=[node], adopt=True)
    stage.delete(POOL, name)
    stage.eventually(lambda: "node-pool" not in stage.node(node)["metadata"]["labels"], "released")
    # What somebody put there by hand was there before, and stays.
    assert stage.taints(node) == [f"tenant-dedicated={team}:NoSchedule"]


def test_keys_of_a_pools_own_and_no_execute(stage: Stage) -> None:
    team, other, node = stage.tenant(), stage.tenant("other"), stage.nodes[0]
    key = f"example.com/{stage.prefix}"
    name = stage.dedicated(nodes=[node], taintKey=key, labelKey=f"{key}-pool", noExecute=True)
    assert sorted(stage.taints(node)) == [f"{key}={team}:NoExecute", f"{key}={team}:NoSchedule"]
    assert stage.node(node)["metadata"]["labels"][f"{key}-pool"] == team
    stage.create(pod("a", team), user=team)
    stage.eventually(lambda: stage.on("a", team) == node, "its pods bear both")
    bears = {"tolerations": [{"key": key, "operator": "Exists"}]}
    assert f"{key} with operator Exists" in stage.refused(
        stage.create, pod("b", other, **bears), user=other
    )
    stage.delete(POOL, name)
    stage.eventually(lambda: not stage.taints(node), "released")


def test_pools_reach_the_annotation_of_namespaces(stage: Stage) -> None:
    team = stage.tenant()

    def annotation() -> str | None:
        found = stage.get("Namespace", team)["metadata"].get("annotations") or {}
        value: str | None = found.get(SELECTOR)
        return value

    assert annotation() is None
    name = stage.dedicated()
    stage.eventually(lambda: annotation() == f"node-pool={team}", "written")
    # By every verb: it is put back before anything is stored, or the request is refused.
    change = {"metadata": {"annotations": {SELECTOR: "node-pool=other"}}}
    gone = {"metadata": {"annotations": {SELECTOR: None}}}
    for asked in (change, gone):
        for how in ("merge", "strategic"):
            stage.patch("Namespace", team, "", asked, user=team, how=how)
            assert annotation() == f"node-pool={team}"
    pointer = "/metadata/annotations/" + SELECTOR.replace("/", "~1")
    stage.patch("Namespace", team, "", [{"op": "remove", "path": pointer}], user=team, how="json")
    assert annotation() == f"node-pool={team}"
    head = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": team, **change["metadata"]},
    }
    stage.apply(head, user=team)
    assert annotation() == f"node-pool={team}"
    stage.allow(team, ["update", "patch"], "namespaces", "namespaces/status", "namespaces/finalize")
    current = stage.get("Namespace", team)
    current["metadata"]["annotations"][SELECTOR] = "node-pool=other"
    del current["metadata"]["resourceVersion"]
    for method, body in (("PUT", current), ("PATCH", change)):
        for sub in ("", "status", "finalize"):
            code = stage.attempted(
                stage.call,
                method,
                "Namespace",
                team,
                "",
                body,
                user=team,
                sub=sub,
                patch="merge" if method == "PATCH" else "",
            )
            # Let through and put right, or refused; /finalize knows no PATCH.
            assert code in (200, 403, 422) or (code, method) == (405, "PATCH"), (method, sub)
            assert annotation() == f"node-pool={team}", (method, sub)
    # A namespace that brings one of its own along has the tenant's.
    body = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": stage.name("new"),
            "labels": {"capsule.clastix.io/tenant": team},
            **change["metadata"],
        },
    }
    stage.create(body, user=team)
    made = stage.get("Namespace", stage.name("new"))["metadata"]["annotations"]
    assert made[SELECTOR] == f"node-pool={team}"
    stage.delete(POOL, name)
    stage.eventually(lambda: annotation() is None, "taken back")


def test_several_pools_make_an_affinity(stage: Stage) -> None:
    team = stage.tenant()
    train = stage.dedicated("train", nodes=[stage.nodes[0]], purpose="training")
    load = stage.dedicated("load", nodes=[stage.nodes[1]], purpose="model download")
    stage.create(pod("a", team, nodeSelector={"tenantry.io/node-pool": load}), user=team)
    spec = stage.get("Pod", "a", team)["spec"]
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"] == [
        {
            "matchExpressions": [
                {"key": "tenantry.io/node-pool", "operator": "In", "values": [load, train]}
            ]
        }
    ]
    stage.eventually(lambda: stage.on("a", team) == stage.nodes[1], "in the pool it asked for")


def test_borrowed_nodes_come_back_when_they_are_needed(stage: Stage) -> None:
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
    stage.create(lent, user=other)
    stage.eventually(lambda: stage.on("b", other) == node, "borrowed")
    stage.create(pod("a", team, containers=[container]), user=team)
    stage.eventually(lambda: stage.on("a", team) == node, "given back")
    assert stage.items("Pod", other) == []


def test_shared_nodes_are_preferred_and_open(stage: Stage) -> None:
    team, other, node = stage.tenant(), stage.tenant("other"), stage.nodes[0]
    name = stage.pool(nodes=[node], mode="shared")
    stage.eventually(lambda: stage.entries(name)[node]["reason"] == "Preferred", "preferred")
    assert stage.taints(node) == []
    stage.create(pod("a", team), user=team)
    stage.create(pod("b", other, nodeSelector={"kubernetes.io/hostname": node}), user=other)
    stage.eventually(lambda: {stage.on("a", team), stage.on("b", other)} == {node}, "both there")


def test_a_node_that_vanishes_leaves_the_pool_in_order(stage: Stage) -> None:
    stage.tenant()
    name = stage.dedicated()
    stage.delete("Node", stage.nodes[1])
    stage.eventually(lambda: list(stage.entries(name)) == stage.nodes[:1], "one is left")
    stage.eventually(lambda: stage.condition(name, "Ready")["status"] == "True", "Ready")
    stage.delete("Node", stage.nodes[0])
    stage.eventually(lambda: stage.condition(name, "Ready")["reason"] == "NoNodes", "told")


def test_a_settled_pool_writes_nothing(stage: Stage) -> None:
    stage.tenant()
    name = stage.dedicated()
    stage.eventually(lambda: stage.condition(name, "Complete")["status"] == "True", "complete")
    before = stage.get(POOL, name)["metadata"]["resourceVersion"]
    records = [written(stage, node) for node in stage.nodes[:2]]
    # Another pool comes and goes, which wakes every controller.
    rival = stage.dedicated("rival", nodes=[stage.nodes[2]])
    stage.delete(POOL, rival)
    stage.eventually(lambda: not stage.taints(stage.nodes[2]), "released")
    assert stage.get(POOL, name)["metadata"]["resourceVersion"] == before
    assert [written(stage, node) for node in stage.nodes[:2]] == records


def written(stage: Stage, name: str) -> list[Object]:
    """Return what we ever wrote on a node, with the times."""
    found = stage.node(name)["metadata"]["managedFields"]
    ours = [one for one in found if one["manager"] == "tenantry/nodes"]
    assert ours
    return ours
