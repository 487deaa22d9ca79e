"""What may be in a tenant's pods, and what is put there."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tenantry.api.tenantry import node_pool
from tenantry.nodes import evidence, fence
from tenantry.nodes.admission import pods
from tenantry.runtime import admission

Object = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def pool(name: str, tenant: str = "team", **spec: Any) -> node_pool.TenantNodePool:
    body = {"metadata": {"name": name}, "spec": {"tenant": tenant, "nodes": ["n"], **spec}}
    return msgspec.convert(body, node_pool.TenantNodePool, strict=False)


ONE = [pool("p")]
TWO = [pool("p"), pool("q")]


def affinity(*terms: Object) -> Object:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def expression(key: str, operator: str, *values: str) -> Object:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def test_one_pool_is_a_selector_and_a_toleration() -> None:
    assert fence.fenced({}, fence.fence(ONE, "team")) == {
        "nodeSelector": {"node-pool": "team"},
        "tolerations": [
            {
                "key": "tenant-dedicated",
                "operator": "Equal",
                "value": "team",
                "effect": "NoSchedule",
            }
        ],
    }


@pytest.mark.parametrize("plugin", [True, False])
def test_it_is_the_same_with_and_without_the_plugin(plugin: bool) -> None:
    around = fence.fence(TWO, "team")
    # The plugin adds the namespace's selector before webhooks are asked.
    given = {"nodeSelector": {"node-pool": "team"}} if plugin else {}
    assert fence.fenced(given, around) == fence.fenced({}, around)


CHOSEN = {"node-pool": "gpu", "zone": "a"}


@pytest.mark.parametrize("plugin", [True, False])
@pytest.mark.parametrize("pools", [[], [pool("p", "other")], ONE, TWO], ids=len)
def test_what_the_tenant_chooses_is_let_in_and_put_there(
    pools: list[node_pool.TenantNodePool], plugin: bool
) -> None:
    """Also a label that pools have for tenants, of another value: the administrator wrote it."""
    around = fence.choosing(fence.fence(pools, "team"), CHOSEN)
    made = fence.fenced({"nodeSelector": CHOSEN} if plugin else {}, around)
    assert made["nodeSelector"] == CHOSEN
    assert fence.problem(made, around) == ""
    other = {**made, "nodeSelector": {**CHOSEN, "zone": "b"}}
    assert fence.problem(other, around) == "spec.nodeSelector[zone]: Required value: a"
    other = {**made, "nodeSelector": {**CHOSEN, "node-pool": "cpu"}}
    assert "nodes of somebody else" in fence.problem(other, around)
    if around.pools:
        # It does not lead out of the pools.
        terms = made["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
        assert terms == [expression("tenantry.io/node-pool", "In", *around.pools)]


def test_what_the_tenant_chooses_beside_its_pools() -> None:
    around = fence.choosing(fence.fence(ONE, "team"), {"zone": "a"})
    assert fence.fenced({}, around)["nodeSelector"] == {"node-pool": "team", "zone": "a"}
    assert "affinity" not in fence.fenced({}, around)
    # In a template it would stay as it was, and the pods of a changed tenant be refused.
    made = fence.fenced({}, around, template=True)
    assert made["nodeSelector"] == {"node-pool": "team"}
    assert fence.problem(made, around, template=True) == ""


def test_it_is_put_once() -> None:
    for pools in (ONE, TWO, [pool("p", mode="shared")]):
        around = fence.fence(pools, "team")
        once = fence.fenced({}, around)
        assert fence.fenced(once, around) == once
        assert fence.problem(once, around) == ""


def test_every_alternative_of_an_affinity_is_narrowed() -> None:
    around = fence.fence(TWO, "team")
    mine = {"key": "tenantry.io/node-pool", "operator": "In", "values": ["p", "q"]}
    zone = expression("zone", "In", "a")
    name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    found = fence.fenced({"affinity": affinity(zone, name, {})}, around)["affinity"]
    assert found["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == [
        {"matchExpressions": [*zone["matchExpressions"], mine]},
        {**name, "matchExpressions": [mine]},
        # It matched no node before, and matches none now.
        {},
    ]


def test_shared_pools_are_preferred_only() -> None:
    found = fence.fenced({}, fence.fence([pool("p", mode="shared")], "team"))
    assert list(found) == ["affinity"]
    assert REQUIRED not in found["affinity"]["nodeAffinity"]


def test_tenants_without_pools_stay_off_the_nodes_of_others() -> None:
    found = fence.fenced({}, fence.fence(ONE, "other"))
    (term,) = found["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": "tenantry.io/dedicated-to", "operator": "DoesNotExist"}
    ]
    assert fence.fenced({}, fence.fence([], "other")) == {}


def test_pools_with_different_labels_are_an_affinity() -> None:
    pools = [pool("p"), pool("q", labelKey="example.com/pool")]
    assert fence.node_selector(pools, "team") == {}
    assert "nodeSelector" not in fence.fenced({}, fence.fence(pools, "team"))


def test_a_pool_that_goes_fences_nothing() -> None:
    going = msgspec.convert(
        {
            "metadata": {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"tenant": "team"},
        },
        node_pool.TenantNodePool,
    )
    assert fence.fenced({}, fence.fence([going], "team")) == {}


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"operator": "Exists", "effect": "NoSchedule"},
        {"operator": "Exists", "effect": "NoExecute"},
        {"key": "tenant-dedicated", "operator": "Exists"},
        {"key": "tenant-dedicated", "operator": "Equal", "value": "rival"},
        {"key": "tenant-dedicated", "value": ""},
        {"key": "tenant-dedicated"},
        # A tenant may be called by a number, and others than Equal compare numbers.
        {"key": "tenant-dedicated", "operator": "Gt", "value": "team"},
        {"key": "tenant-dedicated", "operator": "Lt", "value": "9"},
        {"key": "example.com/own", "operator": "Exists", "effect": "NoSchedule"},
    ],
)
def test_foreign_tolerations(toleration: Object) -> None:
    pools = [*ONE, pool("r", "rival", taintKey="example.com/own")]
    for tenant in ("team", "nobody"):
        around = fence.fence(pools, tenant)
        spec = fence.fenced({"tolerations": [toleration]}, around)
        assert "spec.tolerations[0]: Forbidden" in fence.problem(spec, around)


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": "tenant-dedicated", "value": "team", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"operator": "Exists", "effect": "PreferNoSchedule"},
    ],
)
def test_tolerations_that_are_fine(toleration: Object) -> None:
    around = fence.fence(ONE, "team")
    assert fence.problem(fence.fenced({"tolerations": [toleration]}, around), around) == ""


@pytest.mark.parametrize(
    ("spec", "tenant"),
    [
        ({"nodeSelector": {"node-pool": "rival"}}, "team"),
        ({"nodeSelector": {"tenantry.io/node-pool": "r"}}, "team"),
        ({"nodeSelector": {"tenantry.io/dedicated-to": "rival"}}, "team"),
        ({"nodeSelector": {"node-pool": "team"}}, "nobody"),
        ({"affinity": affinity(expression("node-pool", "In", "rival"))}, "team"),
        ({"affinity": affinity(expression("node-pool", "In", "team", "rival"))}, "team"),
        ({"affinity": affinity(expression("node-pool", "NotIn", "team"))}, "team"),
        ({"affinity": affinity(expression("node-pool", "DoesNotExist"))}, "team"),
        ({"affinity": affinity(expression("node-pool", "Gt", "1"))}, "team"),
        ({"affinity": affinity(expression("node-pool", "Exists"))}, "nobody"),
        ({"affinity": affinity(expression("tenantry.io/node-pool", "In", "r"))}, "team"),
    ],
)
def test_what_leaves_the_pool(spec: Object, tenant: str) -> None:
    around = fence.fence([*ONE, pool("r", "rival")], tenant)
    found = fence.problem(fence.fenced(spec, around), around)
    assert "Forbidden" in found


def review(obj: Object, old: Object | None = None, **more: Any) -> admission.Review:
    return admission.Review(
        uid="u",
        operation="UPDATE" if old else "CREATE",
        resource=more.pop("resource", "pods"),
        kind="Pod",
        name="a",
        namespace="ns",
        object=obj,
        old=old,
        **more,
    )


def known(*, system: bool = False, tenant: str = "team") -> evidence.Evidence:
    return evidence.Evidence(around=fence.fence(ONE, tenant), system=system)


def inside(spec: Object) -> Object:
    return {"metadata": {"name": "a"}, "spec": fence.fenced(spec, fence.fence(ONE, "team"))}


def test_node_name_is_for_the_system_only() -> None:
    pod = inside({"nodeName": "n"})
    denied = pods.validate_pod(review(pod), known())
    assert isinstance(denied, admission.Deny)
    assert "spec.nodeName" in denied.message
    assert isinstance(pods.validate_pod(review(pod), known(system=True)), admission.Allow)


def test_a_mirror_annotation_alone_makes_nobody_a_kubelet() -> None:
    pod = inside({"nodeName": "n"})
    pod["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    assert isinstance(pods.validate_pod(review(pod), known()), admission.Deny)
    assert isinstance(pods.validate_pod(review(pod), known(system=True)), admission.Allow)


def test_only_kubelets_make_mirror_pods_even_where_nothing_is_required() -> None:
    around = fence.fence([pool("p", mode="shared")], "team")
    pod = {
        "metadata": {"name": "a", "annotations": {"kubernetes.io/config.mirror": "x"}},
        "spec": {},
    }
    for system in (False, True):
        found = pods.validate_pod(review(pod), evidence.Evidence(around=around, system=system))
        assert isinstance(found, admission.Allow) is system
    denied = pods.validate_pod(review(pod), evidence.Evidence(around=around))
    assert isinstance(denied, admission.Deny)
    assert "only kubelets make mirror pods" in denied.message


def test_what_was_stored_before_is_not_held_against_an_update() -> None:
    old: Object = {"metadata": {"name": "a"}, "spec": {"tolerations": [{"operator": "Exists"}]}}
    new = {"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": old["spec"]}
    assert isinstance(pods.validate_pod(review(new, old), known()), admission.Allow)
    more = [*old["spec"]["tolerations"], {"key": "tenant-dedicated", "operator": "Exists"}]
    added = {"metadata": {"name": "a"}, "spec": {"tolerations": more}}
    assert isinstance(pods.validate_pod(review(added, old), known()), admission.Deny)


def test_outside_of_tenants_nothing_is_said() -> None:
    pod = {"metadata": {"name": "a"}, "spec": {"tolerations": [{"operator": "Exists"}]}}
    for decide in (pods.mutate_pod, pods.validate_pod):
        assert isinstance(decide(review(pod), evidence.Evidence()), admission.Allow)


def test_bindings() -> None:
    binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}}
    asked = review(binding, subresource="binding")
    assert isinstance(pods.validate_binding(asked, known()), admission.Deny)
    assert isinstance(pods.validate_binding(asked, known(system=True)), admission.Allow)


def test_a_daemon_set_of_a_tenant_is_fenced_in_its_template() -> None:
    found = {"metadata": {"name": "d"}, "spec": {"template": {"spec": {}}}}
    asked = review(found, resource="daemonsets", group="apps")
    verdict = admission.run(pods.MUTATING, asked, known())
    assert {one["path"] for one in verdict.patch} == {
        "/spec/template/spec/nodeSelector",
        "/spec/template/spec/tolerations",
    }
    denied = pods.validate_daemon_set(
        review(
            {
                "metadata": {"name": "d"},
                "spec": {"template": {"spec": {"tolerations": [{"operator": "Exists"}]}}},
            },
            resource="daemonsets",
            group="apps",
        ),
        known(),
    )
    assert isinstance(denied, admission.Deny)
    assert "spec.template.spec.tolerations[0]" in denied.message
