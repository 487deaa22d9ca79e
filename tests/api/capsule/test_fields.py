from __future__ import annotations

from typing import Any

import pytest

from tenantry.api.capsule import fields

ALICE = {"kind": "User", "name": "alice"}


@pytest.mark.parametrize(
    ("spec", "paths"),
    [
        ({}, []),
        ({"owners": [ALICE]}, ["owners[].kind", "owners[].name"]),
        ({"owners": [ALICE, {"kind": "Group", "name": "g", "labels": {"a": "b"}}]},
         ["owners[].kind", "owners[].labels", "owners[].name"]),
        ({"owners": [{**ALICE, "proxySettings": [{"kind": "Nodes", "operations": ["List"]}]}]},
         ["owners[].kind", "owners[].name", "owners[].proxySettings[].kind",
          "owners[].proxySettings[].operations"]),
        ({"namespaceOptions": {"quota": 3}}, ["namespaceOptions.quota"]),
        ({"nodeSelector": {"a": "b", "c": "d"}}, ["nodeSelector"]),
        ({"data": {"a": {"b": [1]}}}, ["data"]),
        ({"data": False}, ["data"]),
        ({"imagePullPolicies": ["Always", "Never"]}, ["imagePullPolicies"]),
        ({"serviceOptions": {"externalIPs": {"allowed": []}}},
         ["serviceOptions.externalIPs.allowed"]),
        ({"networkPolicies": {"items": [{"podSelector": {}}, {"ingress": []}]}},
         ["networkPolicies.items[]"]),
        ({"resourceQuotas": {"scope": "Namespace", "items": [{"hard": {"cpu": 1}}]}},
         ["resourceQuotas.items[]", "resourceQuotas.scope"]),
        ({"rules": [{"namespaceSelector": {}}]}, ["rules[].namespaceSelector"]),
        ({"rules": [{"enforce": {"metadata": [{"kinds": ["Pod"], "labels": {"a": {}}}]}}]},
         ["rules[].enforce.metadata[].kinds", "rules[].enforce.metadata[].labels"]),
        ({"rules": [{"enforce": {"services": {"nodePorts": {"ports": [{"from": 1, "to": 2}]}}}}]},
         ["rules[].enforce.services.nodePorts.ports[].from",
          "rules[].enforce.services.nodePorts.ports[].to"]),
    ],
)  # fmt: skip
def test_paths(spec: dict[str, Any], paths: list[str]) -> None:
    assert fields.set_paths(spec) == paths


@pytest.mark.parametrize(
    "spec",
    [
        {"cordoned": False, "preventDeletion": False},
        {"permissions": {"allowOwnerPromotion": True}},
        {"ingressOptions": {"hostnameCollisionScope": "Disabled"}},
        {"resourceQuotas": {"scope": "Tenant"}},
        {"serviceOptions": {"allowedServices": {"nodePort": True, "loadBalancer": True}}},
        {"rules": [{"enforce": {"action": "deny"}}, {}]},
        {"rules": [], "owners": [], "nodeSelector": {}},
        {"storageClasses": {}, "data": None, "namespaceOptions": None},
    ],
)
def test_what_the_schema_fills_in_is_not_set(spec: dict[str, Any]) -> None:
    assert fields.set_paths(spec) == []


def test_defaults_of_owners_do_not_count_but_other_roles_do() -> None:
    usual = {**ALICE, "clusterRoles": ["admin", "capsule-namespace-deleter"]}

    assert "owners[].clusterRoles" not in fields.set_paths({"owners": [usual]})
    assert "owners[].clusterRoles" in fields.set_paths({"owners": [{**usual, "clusterRoles": []}]})


def test_a_switch_that_may_be_absent_counts_either_way() -> None:
    assert fields.set_paths({"forceTenantPrefix": False}) == ["forceTenantPrefix"]


@pytest.mark.parametrize(
    ("spec", "paths"),
    [
        ({"brandNew": {"a": 1}}, ["brandNew"]),
        ({"owners": "alice"}, ["owners"]),
        ({"owners": ["alice", {"nick": "al"}]}, ["owners[]", "owners[].nick"]),
        ({"namespaceOptions": 3}, ["namespaceOptions"]),
    ],
)
def test_what_the_schema_does_not_know_is_named_and_never_an_error(
    spec: dict[str, Any], paths: list[str]
) -> None:
    assert fields.set_paths(spec) == paths
