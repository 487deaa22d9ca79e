"""RoleBindings with upstream's names: specs/capsule 2.4 and 3.3.

The hashes were computed by Go's `hash/fnv` over the fields as specs/capsule 2.4 lists them.
"""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.api import meta
from tenantry.api.capsule import common, configuration, rules, tenant
from tenantry.directory import identity, owners
from tenantry.tenancy import bindings

RBAC = "rbac.authorization.k8s.io"


def make_tenant(**spec: Any) -> tenant.Tenant:
    return tenant.Tenant(
        metadata=meta.ObjectMeta(name="oil", uid="u1"), spec=tenant.TenantSpec(**spec)
    )


def owner(kind: str, name: str, *roles: str, **metadata: Any) -> owners.Owner:
    return owners.Owner(identity.Subject(kind, name), roles, **metadata)


def subject(kind: str, name: str, **more: str) -> meta.Subject:
    return meta.Subject(kind=kind, name=name, **more)


def extra(*subjects: meta.Subject, role: str = "view", **more: Any) -> common.RoleBinding:
    return common.RoleBinding(cluster_role_name=role, subjects=list(subjects), **more)


def wanted(
    found: tenant.Tenant, *entries: owners.Owner, labels: dict[str, str] | None = None
) -> dict[str, dict[str, Any]]:
    return bindings.desired(found, "oil-dev", labels or {}, entries)


@pytest.mark.parametrize(
    ("entry", "digest", "stored"),
    [
        (
            owner("User", "alice", "admin"),
            "f93a4d3523f699fb",
            {"apiGroup": RBAC, "kind": "User", "name": "alice"},
        ),
        (
            owner("User", "alice", "capsule-namespace-deleter"),
            "286b623af2586c63",
            {"apiGroup": RBAC, "kind": "User", "name": "alice"},
        ),
        (
            owner("Group", "oil:admins", "admin"),
            "22c66a80b15a63a9",
            {"apiGroup": RBAC, "kind": "Group", "name": "oil:admins"},
        ),
        (
            owner("ServiceAccount", "system:serviceaccount:ci:robot", "admin"),
            "3cd8635d3604bfdc",
            {"kind": "ServiceAccount", "name": "robot", "namespace": "ci"},
        ),
        (
            owner("User", "jürgen", "view"),
            "fc70812a9e20280b",
            {"apiGroup": RBAC, "kind": "User", "name": "jürgen"},
        ),
        (
            # Not padded to sixteen digits.
            owner("User", "u2200", "admin"),
            "e375faf802e0728",
            {"apiGroup": RBAC, "kind": "User", "name": "u2200"},
        ),
    ],
)
def test_an_owners_binding(entry: owners.Owner, digest: str, stored: dict[str, str]) -> None:
    ((name, binding),) = wanted(make_tenant(), entry).items()
    assert name == f"capsule:managed:{digest}"
    assert binding == {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {
            "name": name,
            "namespace": "oil-dev",
            "labels": {
                "capsule.clastix.io/role-binding": digest,
                "projectcapsule.dev/managed-by": "controller",
                "projectcapsule.dev/tenant": "oil",
            },
            "ownerReferences": [
                {
                    "apiVersion": "capsule.clastix.io/v1beta2",
                    "kind": "Tenant",
                    "name": "oil",
                    "uid": "u1",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "roleRef": {
            "apiGroup": RBAC,
            "kind": "ClusterRole",
            "name": entry.cluster_roles[0],
        },
        "subjects": [stored],
    }


@pytest.mark.parametrize(
    ("subjects", "digest", "stored"),
    [
        pytest.param(
            [subject("User", "bob", api_group=RBAC)],
            "75e321a65ce985c1",
            [{"apiGroup": RBAC, "kind": "User", "name": "bob"}],
            id="written in full",
        ),
        pytest.param(
            # The hash is over what the author wrote, the object is what the API server stores.
            [subject("User", "bob")],
            "ccffc8cbf9d72de3",
            [{"apiGroup": RBAC, "kind": "User", "name": "bob"}],
            id="without group",
        ),
        pytest.param(
            [subject("User", "bob", api_group=RBAC), subject("ServiceAccount", "default")],
            "2efa042ada5d8447",
            [
                {"apiGroup": RBAC, "kind": "User", "name": "bob"},
                {"kind": "ServiceAccount", "name": "default"},
            ],
            id="an account of the namespace itself",
        ),
        pytest.param(
            [subject("ServiceAccount", "robot", namespace="ci")],
            None,
            [{"kind": "ServiceAccount", "name": "robot", "namespace": "ci"}],
            id="an account of another namespace",
        ),
        pytest.param([], "3ddfa603a023e09c", [], id="nobody"),
    ],
)
def test_additional_bindings(
    subjects: list[meta.Subject], digest: str | None, stored: list[dict[str, str]]
) -> None:
    ((name, binding),) = wanted(make_tenant(additional_role_bindings=[extra(*subjects)])).items()
    assert digest is None or name == f"capsule:managed:{digest}"
    assert binding["subjects"] == stored
    assert binding["roleRef"] == {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"}


def test_one_binding_per_owner_and_role_and_the_first_of_a_name_wins() -> None:
    bob = subject("User", "bob", api_group=RBAC)
    found = wanted(
        make_tenant(
            additional_role_bindings=[
                extra(bob, labels={"from": "second"}),
                extra(bob, role="edit"),
                extra(bob),
            ]
        ),
        owner("User", "alice", "admin", "view"),
        owner("User", "bob", "view", labels={"from": "first"}),
    )
    assert sorted(b["roleRef"]["name"] for b in found.values()) == ["admin", "edit", "view", "view"]
    bound = found["capsule:managed:75e321a65ce985c1"]
    assert bound["metadata"]["labels"]["from"] == "first"


def test_metadata_is_copied_but_ours_stands() -> None:
    labels = {"team": "a", "projectcapsule.dev/managed-by": "me"}
    ((_, binding),) = wanted(
        make_tenant(), owner("User", "alice", "admin", labels=labels, annotations={"note": "x"})
    ).items()
    assert binding["metadata"]["labels"]["team"] == "a"
    assert binding["metadata"]["labels"]["projectcapsule.dev/managed-by"] == "controller"
    assert binding["metadata"]["annotations"] == {"note": "x"}


def rule(selector: meta.LabelSelector | None, *found: common.RoleBinding) -> rules.Rule:
    return rules.Rule(
        namespace_selector=selector, permissions=rules.RulePermissions(bindings=list(found))
    )


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        (None, {}, True),
        (meta.LabelSelector(), {}, True),
        (meta.LabelSelector(match_labels={"env": "prod"}), {"env": "prod"}, True),
        (meta.LabelSelector(match_labels={"env": "prod"}), {"env": "dev"}, False),
        (
            meta.LabelSelector(
                match_expressions=[meta.LabelSelectorRequirement(key="a", operator="Nonsense")]
            ),
            {"a": "b"},
            False,
        ),
    ],
)
def test_rules_bind_in_the_namespaces_they_select(
    selector: meta.LabelSelector | None, labels: dict[str, str], expected: bool
) -> None:
    found = make_tenant(rules=[rules.Rule(), rule(selector, extra(subject("User", "bob")))])
    assert bool(wanted(found, labels=labels)) is expected


def test_who_may_create_namespaces() -> None:
    spec = configuration.CapsuleConfigurationSpec()
    people = [
        identity.Subject("User", "bob"),
        identity.Subject("Group", "projectcapsule.dev"),
        identity.Subject("User", "bob"),
        identity.Subject("ServiceAccount", "system:serviceaccount:ci:robot"),
    ]
    (provisioner, deleter), binding = bindings.provisioning(spec, people)
    labels = {"projectcapsule.dev/created-by": "rbac-controller"}
    assert provisioner["metadata"] == {"name": "capsule-namespace-provisioner", "labels": labels}
    assert provisioner["rules"] == [
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["create", "patch"]}
    ]
    assert deleter["metadata"] == {"name": "capsule-namespace-deleter", "labels": labels}
    assert deleter["rules"] == [
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["delete"]}
    ]
    assert binding["metadata"] == {"name": "capsule-namespace-provisioner", "labels": labels}
    assert binding["roleRef"]["name"] == "capsule-namespace-provisioner"
    assert binding["subjects"] == [
        {"apiGroup": RBAC, "kind": "Group", "name": "projectcapsule.dev"},
        {"kind": "ServiceAccount", "name": "robot", "namespace": "ci"},
        {"apiGroup": RBAC, "kind": "User", "name": "bob"},
    ]


def test_the_roles_go_by_the_configured_names() -> None:
    spec = configuration.CapsuleConfigurationSpec(
        rbac=configuration.Rbac(provisioner="p", deleter="d")
    )
    roles, binding = bindings.provisioning(spec, [])
    assert [role["metadata"]["name"] for role in roles] == ["p", "d"]
    assert binding["roleRef"]["name"] == "p"
    assert binding["subjects"] == []


def test_a_name_that_is_no_service_account_is_bound_as_it_stands() -> None:
    assert bindings.subject_of(identity.Subject("ServiceAccount", "odd")) == {
        "apiGroup": RBAC, "kind": "ServiceAccount", "name": "odd",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "labels", "ours"),
    [
        ("capsule:managed:1", {"role-binding": "1", "managed-by": "controller"}, True),
        # Capsule 0.11 (spec 1.15).
        ("capsule-oil-0-admin", {"role-binding": "1", "tenant": "oil"}, True),
        ("capsule-oil-0-admin", {"tenant": "oil"}, False),
        ("capsule-oil-0-admin", {"role-binding": "1"}, False),
        ("capsule-oil-0-admin", {"role-binding": "1", "tenant": "gas"}, False),
        ("mine", {"role-binding": "1", "tenant": "oil"}, False),
        ("mine", {"role-binding": "1"}, False),
        ("mine", {"managed-by": "controller"}, False),
        ("mine", {}, False),
    ],
)
def test_what_was_made_by_us(name: str, labels: dict[str, str], ours: bool) -> None:
    keys = {
        "role-binding": "capsule.clastix.io/role-binding",
        "managed-by": "projectcapsule.dev/managed-by",
        "tenant": "capsule.clastix.io/tenant",
    }
    found = {keys[key]: value for key, value in labels.items()}
    assert bindings.is_ours(name, found) is ours
