"""What the roles may do: enough, and nothing that would make one of them cluster-admin."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.apps import permissions
from tenantry.runtime import permissions as needs

MANIFESTS = permissions.manifests()


def kind(name: str) -> list[dict[str, Any]]:
    return [obj for obj in MANIFESTS if obj["kind"] == name]


def allowed(obj: dict[str, Any], group: str, resource: str, verb: str) -> bool:
    return any(
        group in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"]
        for rule in obj["rules"]
        if "resourceNames" not in rule
    )


def role(name: str, kind_: str = "ClusterRole") -> dict[str, Any]:
    (found,) = [obj for obj in kind(kind_) if obj["metadata"]["name"] == name]
    return found


def test_what_others_refer_to_comes_first() -> None:
    kinds = [obj["kind"] for obj in MANIFESTS]
    assert kinds[0] == "Namespace"
    assert kinds.index("ServiceAccount") < kinds.index("ClusterRoleBinding")
    for binding in (*kind("ClusterRoleBinding"), *kind("RoleBinding")):
        bound = binding["roleRef"]
        target = [
            obj
            for obj in MANIFESTS
            if obj["kind"] == bound["kind"] and obj["metadata"]["name"] == bound["name"]
        ]
        assert len(target) == 1
        assert MANIFESTS.index(target[0]) < MANIFESTS.index(binding)


def test_every_object_has_a_name_of_its_own() -> None:
    keys = [(obj["kind"], obj["metadata"]["name"]) for obj in MANIFESTS]
    assert len(keys) == len(set(keys))


def test_each_role_has_an_account_of_its_own() -> None:
    accounts = {obj["metadata"]["name"] for obj in kind("ServiceAccount")}
    assert accounts >= {"capsule", "tenantry-webhook"}
    for name, account in (
        ("tenantry:controller", "capsule"),
        ("tenantry:webhook", "tenantry-webhook"),
    ):
        for binding in (*kind("ClusterRoleBinding"), *kind("RoleBinding")):
            if binding["roleRef"]["name"] == name:
                assert binding["subjects"] == [
                    {"kind": "ServiceAccount", "name": account, "namespace": "capsule-system"}
                ]


#: Of whatever key: RBAC takes a star for all resources, but not for all subresources of one.
EXTRAS = {"apiGroups": ["authentication.k8s.io"], "resources": ["*"], "verbs": ["impersonate"]}


@pytest.mark.parametrize("obj", [o for o in MANIFESTS if "rules" in o])
def test_no_role_is_cluster_admin_by_another_name(obj: dict[str, Any]) -> None:
    for rule in obj["rules"]:
        assert rule == EXTRAS or "*" not in [
            *rule["apiGroups"],
            *rule["resources"],
            *rule["verbs"],
        ]
        assert "escalate" not in rule["verbs"]
        # The gateway asks the API server in the name of those who ask it.
        assert "impersonate" not in rule["verbs"] or obj["metadata"]["name"] == "tenantry:gateway"
        if "bind" in rule["verbs"]:
            assert rule["resourceNames"]
            assert "cluster-admin" not in rule["resourceNames"]
        if obj["kind"] == "ClusterRole":
            assert "secrets" not in rule["resources"]
            assert "leases" not in rule["resources"]


def test_secrets_are_read_by_name_and_at_home_only() -> None:
    home = role("tenantry:webhook", "Role")
    assert home["metadata"]["namespace"] == "capsule-system"
    reading = [rule for rule in home["rules"] if "get" in rule["verbs"]]
    secrets = [rule for rule in reading if "secrets" in rule["resources"]]
    assert [rule["resourceNames"] for rule in secrets] == [["capsule-tls", "tenantry-webhook-tls"]]
    assert not allowed(role("tenantry:controller", "Role"), "", "secrets", "get")


@pytest.mark.parametrize(
    ("name", "group", "resource", "verbs"),
    [
        (
            "controller",
            "rbac.authorization.k8s.io",
            "rolebindings",
            "create delete list patch watch",
        ),
        ("controller", "capsule.clastix.io", "tenants/status", "patch"),
        ("controller", "capsule.clastix.io", "tenants/finalizers", "update"),
        ("controller", "", "namespaces", "create delete list patch watch"),
        ("webhook", "capsule.clastix.io", "tenants", "get list watch"),
        ("webhook", "admissionregistration.k8s.io", "validatingadmissionpolicies", "create"),
    ],
)
def test_what_each_role_cannot_do_without(name: str, group: str, resource: str, verbs: str) -> None:
    found = role(f"tenantry:{name}")
    assert [v for v in verbs.split() if not allowed(found, group, resource, v)] == []


def test_no_hooks_but_our_own_can_be_changed() -> None:
    found = [
        rule
        for rule in role("tenantry:webhook")["rules"]
        if rule["apiGroups"] == ["admissionregistration.k8s.io"] and "patch" in rule["verbs"]
    ]
    configured = [
        "capsule-dynamic-webhook",
        "capsule-mutating-webhook-configuration",
        "capsule-validating-webhook-configuration",
    ]
    assert [(rule["resources"][0], rule["resourceNames"], rule["verbs"]) for rule in found] == [
        ("mutatingwebhookconfigurations", configured, ["delete", "get", "patch"]),
        ("mutatingwebhookconfigurations", ["tenantry"], ["patch"]),
        (
            "validatingadmissionpolicies",
            ["tenantry-namespace-ownership", "tenantry-node-pools"],
            ["patch"],
        ),
        (
            "validatingadmissionpolicybindings",
            ["tenantry-namespace-ownership", "tenantry-node-pools"],
            ["patch"],
        ),
        ("validatingwebhookconfigurations", configured, ["delete", "get", "patch"]),
        ("validatingwebhookconfigurations", ["tenantry"], ["patch"]),
    ]


def test_leases_are_replaced_not_patched() -> None:
    (leases,) = (
        rule
        for rule in role("tenantry:controller", "Role")["rules"]
        if rule["resources"] == ["leases"]
    )
    assert leases["verbs"] == ["create", "get", "update"]


def test_the_webhook_writes_nothing_of_the_tenants() -> None:
    found = role("tenantry:webhook")
    for rule in found["rules"]:
        if rule["resources"] == ["capsuleconfigurations/status"]:
            # What became of the webhooks that the configuration defines.
            assert rule["verbs"] == ["patch"]
        elif set(rule["verbs"]) - {"get", "list", "watch"}:
            assert rule["apiGroups"] in (
                ["admissionregistration.k8s.io"],
                ["events.k8s.io"],
                ["apiextensions.k8s.io"],
            )
        if rule["apiGroups"] == ["apiextensions.k8s.io"]:
            assert rule["resourceNames"] == ["tenants.capsule.clastix.io"]


def test_administrators_say_what_more_may_be_handed_out() -> None:
    assert role("tenantry:aggregate")["aggregationRule"] == {
        "clusterRoleSelectors": [
            {"matchLabels": {"projectcapsule.dev/aggregate-to-controller": "true"}}
        ]
    }


def test_another_namespace_moves_everything_of_ours() -> None:
    text = str(permissions.manifests("elsewhere"))
    assert "capsule-system" not in text
    assert permissions.manifests("elsewhere")[0]["metadata"]["name"] == "elsewhere"


def test_every_declared_need_is_granted() -> None:
    for account, declared in permissions.ROLES.items():
        name = "controller" if account == "capsule" else account.removeprefix("tenantry-")
        everywhere, own = needs.split(declared)
        for kind_, part in (("ClusterRole", everywhere), ("Role", own)):
            granted = role(f"tenantry:{name}", kind_)["rules"]
            assert granted == needs.rules(part)
