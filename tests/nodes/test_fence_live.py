"""A hostile tenant at a real API server: every way out of its nodes, and into those of others."""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from .stage import KINDS, Api, Object, Stage, metadata, pod, workload

pytestmark = pytest.mark.plane

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
MIRROR = "kubernetes.io/config.mirror"
DEDICATED = "tenantry.io/dedicated-to"
ANYTHING = [{"operator": "Exists"}]


class Rivals:
    """Two tenants: one with two nodes of its own, one without any."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.team, self.other = stage.tenant(), stage.tenant("other")
        self.pool = stage.dedicated()
        self.mine = stage.nodes[:2]

    def refused(self, body: Object, *, user: str = "", server: int = 0) -> str:
        """Return why a namespace's owner may not create this."""
        who = user or body["metadata"]["namespace"]
        return self.stage.refused(self.stage.create, body, user=who, server=server)


@pytest.fixture(scope="module")
def rivals(nodes_plane: Any, servers: list[Api], take: Callable[[int], list[str]]) -> Rivals:
    stage = Stage(nodes_plane, servers, "rivals")
    stage.nodes = take(3)
    return Rivals(stage)


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> str:
    """Return a name for what a test makes."""
    return f"x{abs(hash(request.node.nodeid)) % 10**12}"


def affinity(*terms: Object) -> Object:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def says(key: str, operator: str, *values: str) -> Object:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def test_a_tenants_pods_run_on_its_nodes_and_others_elsewhere(rivals: Rivals, unique: str) -> None:
    stage, team, other = rivals.stage, rivals.team, rivals.other
    made = stage.create(pod(unique, team), user=team)["spec"]
    assert made["nodeSelector"] == {"node-pool": team}
    assert {
        "key": "tenant-dedicated", "operator": "Equal", "value": team, "effect": "NoSchedule",
    } in made["tolerations"]  # fmt: skip
    stage.eventually(lambda: stage.on(unique, team) in rivals.mine, "on its nodes")
    # A priority, were it the cluster's highest, buys no place there.
    first = rivals.mine[0]
    urgent = {"priorityClassName": "system-node-critical"}
    stage.create(
        pod(unique, other, nodeSelector={"kubernetes.io/hostname": first}, **urgent), user=other
    )

    def waits() -> bool:
        conditions = stage.get("Pod", unique, other)["status"].get("conditions") or ()
        return any(one.get("reason") == "Unschedulable" for one in conditions)

    stage.eventually(waits, "no place for it")
    assert stage.on(unique, team) in rivals.mine


def test_it_is_the_same_with_and_without_the_plugin(rivals: Rivals, unique: str) -> None:
    """The first server has PodNodeSelector, the third has not."""
    stage, team = rivals.stage, rivals.team
    bodies = [pod(unique, team), pod(unique, rivals.other), workload("DaemonSet", unique, team)]
    for body in bodies:
        user = body["metadata"]["namespace"]
        made = [
            stage.create(copy.deepcopy(body), user=user, server=number, dry=True)["spec"]
            for number in range(3)
        ]
        for one in made:
            # A projected token's volume has a random name.
            one.pop("volumes", None)
            for container in one.get("containers") or ():
                container.pop("volumeMounts", None)
        assert made[0] == made[1] == made[2]
    leaving = pod(unique, team, nodeSelector={"node-pool": "other"})
    refusals = [rivals.refused(copy.deepcopy(leaving), server=number) for number in range(3)]
    assert all("403" in one for one in refusals)
    # Without the plugin it is us who refuse.
    assert "nodes of somebody else" in refusals[2]


def test_what_the_tenant_chooses_holds_with_and_without_the_plugin(
    rivals: Rivals, unique: str
) -> None:
    """Also a label that pools have for tenants: the administrator wrote it, not the tenant."""
    stage = rivals.stage
    chosen = {"node-pool": "gpu", "zone": "a"}

    def made(body: Object, server: int) -> Object:
        user = body["metadata"]["namespace"]
        found = stage.create(body, user=user, server=server, dry=True)["spec"]
        selector: Object = found.get("template", {"spec": found})["spec"].get("nodeSelector", {})
        return selector

    def chooses(tenant: str, server: int, wanted: Object) -> bool:
        return made(pod(unique, tenant), server) == wanted

    for tenant, own in ((rivals.other, {}), (rivals.team, {"node-pool": rivals.team})):
        wanted = {**chosen, **own}
        stage.patch("Tenant", tenant, "", {"spec": {"nodeSelector": wanted}})
        try:
            for server in range(3):
                at = functools.partial(chooses, tenant, server, wanted)
                stage.eventually(at, "as the tenant says")
                bad = pod(unique, tenant, nodeSelector={"zone": "b"})
                assert "403" in rivals.refused(bad, server=server)
                assert made(workload("DaemonSet", unique, tenant), server) == own
        finally:
            stage.patch("Tenant", tenant, "", {"spec": {"nodeSelector": None}})
            for server in range(3):
                # The other tests share the tenants.
                at = functools.partial(chooses, tenant, server, own)
                stage.eventually(at, "as before")


OUT: dict[str, tuple[Object, str]] = {
    "tolerate everything": ({"tolerations": ANYTHING}, "operator Exists without a key"),
    "tolerate all taints of one effect": (
        {"tolerations": [{"operator": "Exists", "effect": "NoSchedule"}]},
        "operator Exists without a key",
    ),
    "tolerate the key": (
        {"tolerations": [{"key": "tenant-dedicated", "operator": "Exists"}]},
        "tolerates nodes of other tenants",
    ),
    "tolerate another's value": (
        {"tolerations": [{"key": "tenant-dedicated", "value": "tenant01"}]},
        "tolerates nodes of other tenants",
    ),
    "name a node": ({"nodeName": "node-1"}, "only the scheduler places pods of tenants"),
    "select the nodes of another": ({"nodeSelector": {DEDICATED: "tenant01"}}, "somebody else"),
    "select the pool of another": (
        {"nodeSelector": {"tenantry.io/node-pool": "tenant01"}},
        "somebody else",
    ),
    "an alternative that leaves": (
        {"affinity": affinity(says("zone", "In", "a"), says(DEDICATED, "In", "tenant01"))},
        "leaves the tenant's nodes",
    ),
    "an alternative beside a field": (
        {
            "affinity": affinity(
                {
                    "matchFields": [
                        {"key": "metadata.name", "operator": "In", "values": ["gpu-worker-25"]}
                    ],
                    **says(DEDICATED, "In", "tenant01"),
                }
            )
        },
        "leaves the tenant's nodes",
    ),
    "play a kubelet": (
        {"metadata": {"annotations": {MIRROR: "x"}}, "nodeName": "node-1"},
        "only kubelets make mirror pods",
    ),
}


@pytest.mark.parametrize("what", OUT)
@pytest.mark.parametrize("whose", ["team", "other"])
def test_ways_out_are_refused(rivals: Rivals, unique: str, what: str, whose: str) -> None:
    spec, words = OUT[what]
    body = pod(unique, getattr(rivals, whose), **copy.deepcopy(spec))
    assert words in rivals.refused(body)


@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": affinity(says("node-pool", "NotIn", "TEAM"))},
        {"affinity": affinity(says("node-pool", "DoesNotExist"))},
        {"affinity": affinity(says("tenantry.io/node-pool", "DoesNotExist"))},
    ],
)
def test_away_from_ones_own_nodes(rivals: Rivals, unique: str, spec: Object) -> None:
    spec = copy.deepcopy(spec)
    terms = spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    one = terms[0]["matchExpressions"][0]
    one["values"] = [rivals.team for _ in one["values"]]
    assert "leaves the tenant's nodes" in rivals.refused(pod(unique, rivals.team, **spec))


def test_what_is_fenced_rather_than_refused(rivals: Rivals, unique: str) -> None:
    """Alternatives and fields narrow the fence; none of them replaces it."""
    stage, team, other = rivals.stage, rivals.team, rivals.other
    field = {"key": "metadata.name", "operator": "In", "values": ["gpu-worker-25"]}
    free = affinity({"matchFields": [field]}, says("zone", "In", "a"))
    made = stage.create(pod(unique, other, affinity=free), user=other, dry=True)["spec"]
    terms = made["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    closed = {"key": DEDICATED, "operator": "DoesNotExist"}
    assert all(closed in term["matchExpressions"] for term in terms)
    made = stage.create(pod(unique, team, affinity=free), user=team, dry=True)["spec"]
    assert made["nodeSelector"] == {"node-pool": team}
    # Devices, gates, other schedulers and any priority change nothing of it.
    for spec in (
        {"schedulingGates": [{"name": "example.com/wait"}]},
        {"schedulerName": "mine"},
        {"priorityClassName": "system-node-critical"},
        {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "any"}]},
    ):
        made = stage.create(pod(unique, team, **spec), user=team, dry=True)["spec"]
        assert made["nodeSelector"] == {"node-pool": team}, spec


KINDS_OF_PODS = ("ReplicaSet", "Deployment", "StatefulSet", "Job", "CronJob",
                 "ReplicationController")  # fmt: skip


def test_pods_of_every_controller_are_fenced(rivals: Rivals) -> None:
    """What is in a template does not matter: the cluster's controllers are asked like anybody."""
    stage, team = rivals.stage, rivals.team
    for kind in KINDS_OF_PODS:
        name = f"good-{kind.lower()}"
        stage.create(workload(kind, name, team), user=team)
        bad = workload(kind, f"bad-{kind.lower()}", team, tolerations=ANYTHING)
        stage.create(bad, user=team)
    # Nobody waits for the clock: a Job is made of a CronJob's template by hand, as kubectl does.
    for name in ("good-cronjob", "bad-cronjob"):
        inner = stage.get("CronJob", name, team)["spec"]["jobTemplate"]["spec"]
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata(name, team)}
        stage.create({**job, "spec": inner}, user=team)

    def pods(prefix: str) -> list[Object]:
        found = stage.items("Pod", team)
        return [one for one in found if one["metadata"]["name"].startswith(f"{prefix}-")]

    def good() -> list[Object]:
        found = pods("good")
        kinds = {one["metadata"]["name"].removeprefix("good-").partition("-")[0] for one in found}
        return found if len(kinds) == len(KINDS_OF_PODS) else []

    made = stage.eventually(good, "a pod of each")
    assert all(one["spec"]["nodeSelector"] == {"node-pool": team} for one in made)
    stage.eventually(
        lambda: all(stage.on(one["metadata"]["name"], team) in rivals.mine for one in made),
        "on the tenant's nodes",
    )

    def told() -> bool:
        return {
            one["involvedObject"]["kind"]
            for one in stage.items("Event", team)
            if one["reason"] == "FailedCreate" and "Exists without a key" in one["message"]
        } >= {"ReplicaSet", "StatefulSet", "Job", "ReplicationController"}

    stage.eventually(told, "refused")
    assert pods("bad") == []


def test_templates_of_daemon_sets_are_fenced_and_judged(rivals: Rivals, unique: str) -> None:
    stage, team = rivals.stage, rivals.team
    stage.create(workload("DaemonSet", unique, team), user=team)
    # Its controller wants pods on the tenant's nodes, and nowhere a pod that would wait for ever.
    status = stage.eventually(
        lambda: (one := stage.get("DaemonSet", unique, team)["status"])["numberReady"] == 2 and one,
        "on both nodes",
    )
    assert status["desiredNumberScheduled"] == 2
    bad = {"spec": {"template": {"spec": {"tolerations": ANYTHING}}}}
    assert "spec.template.spec.tolerations[0]" in stage.refused(
        stage.patch, "DaemonSet", unique, team, bad, user=team
    )
    body = workload("DaemonSet", f"{unique}-b", team, tolerations=ANYTHING)
    assert "spec.template.spec.tolerations[0]" in rivals.refused(body)


def test_a_template_that_changes_later(rivals: Rivals, unique: str) -> None:
    stage, team = rivals.stage, rivals.team
    stage.create(workload("Deployment", unique, team), user=team)
    change = {"spec": {"template": {"spec": {"nodeName": "node-1"}}}}
    stage.patch("Deployment", unique, team, change, user=team)
    stage.eventually(
        lambda: any(
            "only the scheduler places pods of tenants" in one.get("message", "")
            for found in stage.items("ReplicaSet", team)
            if found["metadata"]["name"].startswith(unique)
            for one in found["status"].get("conditions") or ()
        ),
        "its new pods are refused",
    )


def test_pods_that_exist_do_not_get_out(rivals: Rivals, unique: str) -> None:
    stage, team = rivals.stage, rivals.team
    gated = {"schedulingGates": [{"name": "example.com/wait"}]}
    made = stage.create(pod(unique, team, **gated), user=team)["spec"]

    def patched(change: Object, sub: str = "", how: str = "merge") -> str:
        return stage.refused(stage.patch, "Pod", unique, team, change, user=team, sub=sub, how=how)

    more = [*made["tolerations"], {"key": "tenant-dedicated", "operator": "Exists"}]
    assert "tolerates nodes of other tenants" in patched({"spec": {"tolerations": more}})
    assert "operator Exists without a key" in patched(
        {"spec": {"tolerations": [*made["tolerations"], *ANYTHING]}}
    )
    # Of a gated pod the API server lets more be changed; the fence is put back.
    stage.patch("Pod", unique, team, {"spec": {"nodeSelector": None}}, user=team)
    assert stage.get("Pod", unique, team)["spec"]["nodeSelector"] == {"node-pool": team}
    assert "422" in patched({"spec": {"nodeName": "node-1"}})
    assert "mirror" in patched({"metadata": {"annotations": {MIRROR: "x"}}})
    assert "leaves the tenant's nodes" in patched(
        {"spec": {"affinity": affinity(says(DEDICATED, "In", "tenant01"))}}
    )
    # By subresources, given the right to them: where a pod runs is not theirs to change.
    stage.allow(
        team, ["get", "patch", "update", "create"],
        "pods/status", "pods/resize", "pods/ephemeralcontainers", namespace=team,
    )  # fmt: skip
    debugger = {"name": "debug", "image": "registry.invalid/none"}
    for sub, body in (
        ("status", {"spec": {"nodeName": "node-1", "tolerations": more}}),
        ("resize", {"spec": {"nodeName": "node-1", "tolerations": more}}),
        (
            "ephemeralcontainers",
            {
                "spec": {
                    "nodeName": "node-1",
                    "tolerations": more,
                    "ephemeralContainers": [debugger],
                }
            },
        ),
    ):
        code = stage.attempted(
            stage.patch, "Pod", unique, team, body, user=team, sub=sub, how="strategic"
        )
        assert code in (200, 403, 422), (sub, code)
        after = stage.get("Pod", unique, team)["spec"]
        assert "nodeName" not in after, sub
        assert after["tolerations"] == made["tolerations"], sub
        assert after["nodeSelector"] == {"node-pool": team}, sub
    # Opening the gate leads to the tenant's nodes.
    stage.patch("Pod", unique, team, {"spec": {"schedulingGates": None}}, user=team)
    stage.eventually(lambda: stage.on(unique, team) in rivals.mine, "on its nodes")


def test_only_schedulers_bind_pods_of_tenants(rivals: Rivals, unique: str) -> None:
    stage, team = rivals.stage, rivals.team
    stage.create(pod(unique, team, schedulerName="mine"), user=team)
    stage.allow(team, ["create"], "pods/binding", "bindings", namespace=team)
    account = f"system:serviceaccount:{team}:kube-scheduler"
    stage.create(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": metadata("kube-scheduler", team),
        },
        user=team,
    )
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": metadata("its-scheduler", team),
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Role",
            "name": f"{stage.prefix}-pods-binding",
        },
        "subjects": [{"kind": "ServiceAccount", "name": "kube-scheduler", "namespace": team}],
    }
    stage.create(role)
    stage.may(account, "create", "pods/binding", team)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata(unique, team),
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
    }
    for user in (team, account):
        for path in (
            KINDS["Pod"].path(team, unique, "binding"),
            f"/api/v1/namespaces/{team}/bindings",
        ):
            error = stage.refused(stage.servers[0].call, "POST", path, binding, user=user)
            assert "only schedulers outside of tenants" in error, (user, path)
    assert stage.on(unique, team) == ""


def test_accounts_of_tenants_are_tenants(rivals: Rivals, unique: str) -> None:
    """Also one called like a part of the cluster, and with the owner's rights."""
    stage, team = rivals.stage, rivals.team
    account = f"system:serviceaccount:{team}:daemon-set-controller"
    stage.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": metadata(unique, team),
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "admin",
            },
            "subjects": [
                {"kind": "ServiceAccount", "name": "daemon-set-controller", "namespace": team}
            ],
        },
        user=team,
    )
    stage.may(account, "create", "pods", team)
    for spec in ({"nodeName": "node-1"}, {"tolerations": ANYTHING}):
        assert "forbidden" in rivals.refused(pod(unique, team, **spec), user=account)
    assert stage.create(pod(unique, team), user=account, dry=True)["spec"]["nodeSelector"]


def test_an_owner_reference_spares_no_pod(rivals: Rivals, unique: str) -> None:
    """A pod that claims to be a DaemonSet's is fenced as any, and not counted as the system's."""
    stage, other = rivals.stage, rivals.other
    owner = stage.create(workload("DaemonSet", unique, other, nodeSelector={"no": "where"}))
    reference = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "name": unique,
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    body = pod(unique, other, metadata={"ownerReferences": [reference]}, nodeName=rivals.mine[0])
    assert "only the scheduler places pods of tenants" in rivals.refused(body)
    body["spec"].pop("nodeName")
    made = stage.create(body, user=other, dry=True)["spec"]
    (term,) = made["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert {"key": DEDICATED, "operator": "DoesNotExist"} in term["matchExpressions"]


def test_evictions_move_nobody_in(rivals: Rivals, unique: str) -> None:
    """An owner may evict its own pods, and none of others; what comes instead is fenced."""
    stage, team, other = rivals.stage, rivals.team, rivals.other
    stage.create(pod(unique, team), user=team)
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": metadata(unique, team),
    }
    path = KINDS["Pod"].path(team, unique, "eviction")
    assert "403" in stage.refused(stage.servers[0].call, "POST", path, eviction, user=other)
    stage.servers[0].call("POST", path, eviction, user=team)


def test_who_may_write_nodes_changes_nothing_that_pools_rest_on(
    rivals: Rivals, take: Callable[[int], list[str]]
) -> None:
    stage, team = rivals.stage, rivals.team
    node, free = rivals.mine[0], stage.nodes[2]
    stage.allow(team, ["get", "create", "patch", "update"], "nodes", "nodes/status")
    fine: tuple[Object, ...] = (
        {"spec": {"unschedulable": True}},
        {"spec": {"unschedulable": None}},
        # Words of the record that are no keys of a pool.
        {"metadata": {"labels": {"example.com/rack": "7", "tenant": "x", "pool": "y"}}},
        {"metadata": {"labels": {"tenant": None, "pool": None}}},
    )
    for change in fine:
        stage.patch("Node", node, "", change, user=team)
    label, taint = "node-pool", {"key": "tenant-dedicated", "value": team, "effect": "NoSchedule"}
    record = "tenantry.io/node-pool-record"
    wrong: tuple[tuple[str, Object], ...] = (
        (node, {"spec": {"taints": None}}),
        (node, {"spec": {"taints": [{**taint, "value": "x"}]}}),
        (node, {"spec": {"taints": [taint, {"key": "mine", "effect": "NoSchedule"}]}}),
        (node, {"metadata": {"labels": {label: "x"}}}),
        (node, {"metadata": {"labels": {label: None}}}),
        (node, {"metadata": {"labels": {"tenantry.io/node-pool": None}}}),
        (node, {"metadata": {"labels": {DEDICATED: None}}}),
        (node, {"metadata": {"annotations": {record: None}}}),
        (node, {"metadata": {"annotations": {record: "{}"}}}),
        (free, {"spec": {"taints": [taint]}}),
        (free, {"metadata": {"labels": {label: team}}}),
        (free, {"metadata": {"labels": {DEDICATED: team}}}),
        (free, {"metadata": {"annotations": {record: "{}"}}}),
    )
    for name, change in wrong:
        for sub in ("", "status"):
            if sub and "spec" in change:
                continue  # the API server leaves the specification alone there
            error = stage.refused(stage.patch, "Node", name, "", change, user=team, sub=sub)
            assert "kept by TenantNodePools" in error, (name, change, sub)
    new = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "mine", "labels": {label: team}},
    }
    assert "kept by TenantNodePools" in stage.refused(stage.create, new, user=team)
    assert f"tenant-dedicated={team}:NoSchedule" in stage.taints(node)


def test_who_may_write_nodes_moves_none_between_pools(stage: Stage, unique: str) -> None:
    """By the labels that pools select by, and by keys of a pool's own on nodes of none."""
    team, (node, free, _) = stage.tenant(), stage.nodes
    rack, label, taint = f"{unique}.example/rack", f"{unique}-team", f"{unique}-only"
    stage.patch("Node", node, "", {"metadata": {"labels": {rack: "r7"}}})
    stage.dedicated(selector={"matchLabels": {rack: "r7"}}, labelKey=label, taintKey=taint)
    stage.allow(team, ["patch", "get", "update"], "nodes", "nodes/status")

    def patched(name: str, change: Object, sub: str = "", user: str = team) -> str:
        return stage.refused(stage.patch, "Node", name, "", change, user=user, sub=sub)

    def guarded() -> bool:
        # Another value each time: what is let through once is no change the next time.
        value = f"other-{next(count)}"
        text = patched(free, {"metadata": {"labels": {rack: value}}})
        return "select nodes by this label" in text

    count = itertools.count()
    stage.eventually(guarded, "guarded")
    for sub in ("", "status"):
        for name, value in ((node, None), (node, "r8"), (free, "r7")):
            text = patched(name, {"metadata": {"labels": {rack: value}}}, sub)
            assert "select nodes by this label" in text, (name, value, sub)
        for name, value in ((node, None), (free, team)):
            text = patched(name, {"metadata": {"labels": {label: value}}}, sub)
            assert "kept by TenantNodePools" in text, (name, value, sub)
    mine = [{"key": taint, "value": team, "effect": "NoSchedule"}]
    assert "kept by TenantNodePools" in patched(free, {"spec": {"taints": mine}})
    assert stage.taints(node) == [f"{taint}={team}:NoSchedule"]
    stage.patch("Node", free, "", {"metadata": {"labels": {f"{rack}s": "r7"}}}, user=team)
    # Who finds devices labels nodes with all that it finds; it is no tenant, nor is who keeps pools.
    finder = f"system:serviceaccount:{team}-system:finder"
    finding = Stage(stage.plane, stage.servers, f"{stage.prefix}-finder")
    finding.allow(finder, ["patch"], "nodes")
    stage.patch("Node", free, "", {"metadata": {"labels": {rack: "r6"}}}, user=finder)
    stage.allow(team, ["update"], "tenantnodepools", group="tenantry.io")
    stage.eventually(
        lambda: stage.patch("Node", free, "", {"metadata": {"labels": {rack: "r7"}}}, user=team),
        "the right to update pools",
    )
    stage.eventually(lambda: stage.taints(free), "the pool has it")
