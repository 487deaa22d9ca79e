"""Who the requester is: the order of specs/capsule 3.1."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.api import meta
from tenantry.api.capsule import common, configuration, tenant_owner
from tenantry.directory import identity

ADMIN, CAPSULE, UNKNOWN = identity.Class.ADMIN, identity.Class.CAPSULE, identity.Class.UNKNOWN
SELF = "system:serviceaccount:capsule-system:capsule"
ALL = "system:serviceaccounts"


def user(kind: Any, name: str) -> common.User:
    return common.User(kind=kind, name=name)


SPEC = configuration.CapsuleConfigurationSpec(
    users=[
        user("Group", "projectcapsule.dev"),
        user("User", "carol"),
        user("ServiceAccount", "system:serviceaccount:ci:robot"),
    ],
    user_names=["dave"],
    user_groups=["old-group"],
    administrators=[
        user("User", "boss"),
        user("Group", "platform"),
        user("ServiceAccount", "system:serviceaccount:argo:admin"),
    ],
    ignore_user_with_groups=["ignored"],
)

TENANT_NAMESPACES = {"oil-dev": "oil"}


def who(name: str, *groups: str) -> identity.Requester:
    return identity.Requester(name, frozenset(groups))


def account(namespace: str, name: str = "default", *groups: str) -> identity.Requester:
    return who(f"system:serviceaccount:{namespace}:{name}", ALL, f"{ALL}:{namespace}", *groups)


@pytest.mark.parametrize(
    ("requester", "expected"),
    [
        # 1. The controller, whatever else is true of it.
        pytest.param(who(SELF), ADMIN, id="controller"),
        pytest.param(who(SELF, ALL, "ignored"), ADMIN, id="controller before ignored groups"),
        # 2. Ignored groups beat administrators and users.
        pytest.param(who("boss", "ignored"), UNKNOWN, id="ignored administrator"),
        pytest.param(who("alice", "projectcapsule.dev", "ignored"), UNKNOWN, id="ignored user"),
        # 3. Administrators, by name, group and service account.
        pytest.param(who("boss"), ADMIN, id="administrator"),
        pytest.param(who("x", "platform"), ADMIN, id="administrator by group"),
        pytest.param(who("boss", "projectcapsule.dev"), ADMIN, id="administrator and user"),
        pytest.param(account("argo", "admin"), ADMIN, id="administrator account"),
        # 4. Capsule users.
        pytest.param(who("alice", "projectcapsule.dev"), CAPSULE, id="group"),
        pytest.param(who("carol"), CAPSULE, id="user"),
        pytest.param(who("dave"), CAPSULE, id="deprecated name"),
        pytest.param(who("x", "old-group"), CAPSULE, id="deprecated group"),
        pytest.param(account("ci", "robot"), CAPSULE, id="listed account"),
        pytest.param(account("oil-dev"), CAPSULE, id="account in a tenant's namespace"),
        pytest.param(account("default"), UNKNOWN, id="account elsewhere"),
        pytest.param(
            account("default", "x", "projectcapsule.dev"), CAPSULE, id="account with a user group"
        ),
        # The control plane is never in, even if a group of everybody is configured (issue 234).
        pytest.param(
            account("kube-system", "x", "projectcapsule.dev"), UNKNOWN, id="kube-system account"
        ),
        pytest.param(
            who("x", "projectcapsule.dev", "system:serviceaccounts:kube-system"),
            UNKNOWN,
            id="kube-system group",
        ),
        pytest.param(
            who("system:serviceaccount:kube-system:x", "projectcapsule.dev"),
            UNKNOWN,
            id="kube-system by name",
        ),
        # Nobody.
        pytest.param(who("root", "system:masters"), UNKNOWN, id="cluster administrator"),
        pytest.param(who(""), UNKNOWN, id="anonymous"),
        pytest.param(who("projectcapsule.dev"), UNKNOWN, id="a group's name as a user"),
        pytest.param(who("x", "carol"), UNKNOWN, id="a user's name as a group"),
        pytest.param(who("Carol"), UNKNOWN, id="case counts"),
    ],
)
def test_classify(requester: identity.Requester, expected: identity.Class) -> None:
    roster = identity.roster(SPEC, (), [SELF])
    assert roster.classify(requester, TENANT_NAMESPACES.get) is expected


def test_namespaces_are_asked_for_only_where_it_matters() -> None:
    asked: list[str] = []

    def tenant_of(namespace: str) -> str | None:
        asked.append(namespace)
        return None

    roster = identity.roster(SPEC, (), [SELF])
    for requester in (who(SELF), who("boss"), who("alice"), account("kube-system")):
        roster.classify(requester, tenant_of)
    assert asked == []
    roster.classify(account("web"), tenant_of)
    assert asked == ["web"]


def test_without_knowledge_of_namespaces_no_account_is_at_home() -> None:
    assert identity.roster(SPEC, (), ()).classify(account("oil-dev")) is UNKNOWN


def owner(name: str, *, aggregate: bool) -> tenant_owner.TenantOwner:
    return tenant_owner.TenantOwner(
        metadata=meta.ObjectMeta(name=name),
        spec=tenant_owner.TenantOwnerSpec(kind="User", name=name, aggregate=aggregate),
    )


def test_a_tenant_owner_is_a_user_when_it_says_so() -> None:
    owners = [owner("erin", aggregate=True), owner("frank", aggregate=False)]
    roster = identity.roster(configuration.CapsuleConfigurationSpec(), owners, ())
    assert roster.classify(who("erin")) is CAPSULE
    assert roster.classify(who("frank")) is UNKNOWN


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("system:serviceaccount:ns:sa", ("ns", "sa")),
        ("system:serviceaccount:ns:a.b-c", ("ns", "a.b-c")),
        ("alice", None),
        ("system:serviceaccount:", None),
        ("system:serviceaccount:ns", None),
        ("system:serviceaccount:ns:", None),
        ("system:serviceaccount::sa", None),
        ("system:serviceaccount:ns:a:b", None),
        ("system:serviceaccounts:ns:sa", None),
        ("System:serviceaccount:ns:sa", None),
        ("system:serviceaccount:../nodes:sa", None),
        ("system:serviceaccount:ns:../../x", None),
        ("system:serviceaccount:a.b:sa", None),
    ],
)
def test_splitting_service_accounts(name: str, expected: tuple[str, str] | None) -> None:
    assert identity.split_service_account(name) == expected
    assert who(name).service_account == expected


@pytest.mark.parametrize(
    ("subject", "matching", "other"),
    [
        (identity.Subject("User", "a"), who("a"), who("b", "a")),
        (identity.Subject("Group", "a"), who("b", "a"), who("a")),
        (
            identity.Subject("ServiceAccount", "system:serviceaccount:n:s"),
            who("system:serviceaccount:n:s"),
            who("s"),
        ),
    ],
)
def test_subjects(
    subject: identity.Subject, matching: identity.Requester, other: identity.Requester
) -> None:
    assert subject.matches(matching)
    assert not subject.matches(other)
