from __future__ import annotations

import re

import pytest

from tenantry.api.capsule import constants

NAMES = {
    name: value
    for name, value in vars(constants).items()
    if name.isupper() and isinstance(value, str)
}
KEY = re.compile(r"[a-z0-9.-]+/[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name.endswith(("_LABEL", "_ANNOTATION"))]
)
def test_keys_are_valid(name: str) -> None:
    value = NAMES[name]
    # Some annotations are followed by the name of a resource.
    if name in {
        "RESOURCE_QUOTA_ANNOTATION",
        "RESOURCE_USED_ANNOTATION",
        "OWNER_ROLES_ANNOTATION",
    }:
        value += "/pods_v1"
    elif value.endswith("-"):
        value += "cpu"
    assert KEY.fullmatch(value), value


def test_no_key_has_two_names() -> None:
    keys = [value for name, value in NAMES.items() if name.endswith(("_LABEL", "_ANNOTATION"))]

    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        # What stands on objects of clusters that run Capsule today.
        ("TENANT_LABEL", "capsule.clastix.io/tenant"),
        ("MANAGED_TENANT_LABEL", "projectcapsule.dev/tenant"),
        ("MANAGED_BY_LABEL", "projectcapsule.dev/managed-by"),
        ("OBJECT_TENANT_LABEL", "capsule.clastix.io/managed-by"),
        ("ROLE_BINDING_LABEL", "capsule.clastix.io/role-binding"),
        ("ROLE_BINDING_PREFIX", "capsule:managed:"),
        ("FINALIZER", "controller.projectcapsule.dev/finalize"),
        ("FIELD_MANAGER", "projectcapsule.dev/controller"),
        ("NODE_SELECTOR_ANNOTATION", "scheduler.alpha.kubernetes.io/node-selector"),
        ("CORDONED_LABEL", "projectcapsule.dev/cordoned"),
        ("PROMOTE_OWNER_LABEL", "owner.projectcapsule.dev/promote"),
        ("EVENT_CONTROLLER", "controller.projectcapsule.dev"),
        ("NAMESPACE_HIJACK_EVENT", "ReasonNamespacePatch"),
        ("RULE_AUDIT_EVENT", "NamespaceRuleAudit"),
    ],
)
def test_names_that_others_rely_on(name: str, value: str) -> None:
    assert NAMES[name] == value
