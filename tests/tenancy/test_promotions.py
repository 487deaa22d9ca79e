"""Roles by rule for promoted service accounts: who gets what, and where."""

from __future__ import annotations

from typing import Any

import msgspec

from tenantry.api.capsule import tenant
from tenantry.directory import state as directory
from tenantry.tenancy import promotions


def a_tenant(*rules: dict[str, Any]) -> tenant.Tenant:
    plain = {"metadata": {"name": "oil", "uid": "u1"}, "spec": {"rules": list(rules)}}
    return msgspec.convert(plain, tenant.Tenant)


def space(name: str, **labels: str) -> directory.NamespaceView:
    return directory.NamespaceView(
        name=name, uid=name, resource_version="1", labels=labels, annotations={}, tenant="oil",
        tenant_uid="u1", terminating=False, raw=b"",
    )  # fmt: skip


def account(namespace: str, name: str, **labels: str) -> promotions.Account:
    return promotions.Account(namespace=namespace, name=name, labels=labels)


def rule(*roles: str, selector: Any = None, spaces: Any = None) -> dict[str, Any]:
    entry = {"clusterRoles": list(roles), **({"selector": selector} if selector else {})}
    found: dict[str, Any] = {"permissions": {"promotions": [entry]}}
    if spaces:
        found["namespaceSelector"] = spaces
    return found


PROD, TEST = space("prod", env="prod"), space("test", env="test")
ROBOT, OTHER = account("prod", "robot", kind="ci"), account("test", "other")


def granted(*rules: dict[str, Any]) -> set[tuple[str, str, frozenset[str]]]:
    found = promotions.granted(a_tenant(*rules), [PROD, TEST], [ROBOT, OTHER])
    return {(one.name, role, targets) for one, role, targets in found}


def test_all_accounts_in_all_namespaces() -> None:
    both = frozenset({"prod", "test"})
    assert granted(rule("view", "edit")) == {
        ("robot", "view", both), ("robot", "edit", both), ("other", "view", both),
        ("other", "edit", both),
    }  # fmt: skip
    assert granted() == set()


def test_selectors_of_accounts_and_namespaces() -> None:
    chosen = {"matchLabels": {"kind": "ci"}}
    assert granted(rule("view", selector=chosen)) == {
        ("robot", "view", frozenset({"prod", "test"}))
    }
    # An account of another namespace gets nothing from a rule that is not for it.
    prod = {"matchLabels": {"env": "prod"}}
    assert granted(rule("view", spaces=prod)) == {("robot", "view", frozenset({"prod"}))}


def test_what_is_bound_and_reported() -> None:
    rules = (rule("view"), rule("view", "edit", spaces={"matchLabels": {"env": "prod"}}))
    found = list(promotions.granted(a_tenant(*rules), [PROD, TEST], [ROBOT]))
    assert promotions.bindings(found, "prod") == [
        (ROBOT.subject, "view"), (ROBOT.subject, "edit"),
    ]  # fmt: skip
    assert promotions.bindings(found, "test") == [(ROBOT.subject, "view")]
    assert promotions.reported(found) == [
        {
            "kind": "ServiceAccount",
            "name": "system:serviceaccount:prod:robot",
            "clusterRoles": ["view", "edit"],
            "targets": ["prod", "test"],
        }
    ]
