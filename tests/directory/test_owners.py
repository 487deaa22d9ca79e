"""Who owns a tenant, from which source, with which roles: specs/capsule 3.2."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.api import meta
from tenantry.api.capsule import common, configuration, tenant, tenant_owner
from tenantry.directory import identity, owners


def make_tenant(*entries: tenant.Owner, **permissions: Any) -> tenant.Tenant:
    return tenant.Tenant(
        metadata=meta.ObjectMeta(name="oil"),
        spec=tenant.TenantSpec(owners=list(entries), permissions=tenant.Permissions(**permissions)),
    )


def make_owner(labels: dict[str, str], name: str = "erin", **spec: Any) -> tenant_owner.TenantOwner:
    return tenant_owner.TenantOwner(
        metadata=meta.ObjectMeta(name=name, labels=labels),
        spec=tenant_owner.TenantOwnerSpec(kind="User", name=name, **spec),
    )


def config(**spec: Any) -> configuration.CapsuleConfigurationSpec:
    return configuration.CapsuleConfigurationSpec(**spec)


PROMOTED = owners.Promotion("oil-dev", "robot")
ALICE = tenant.Owner(kind="User", name="alice")


def roles(entries: tuple[owners.Owner, ...]) -> dict[str, tuple[str, ...]]:
    return {f"{e.subject.kind}:{e.subject.name}": e.cluster_roles for e in entries}


def test_an_owner_gets_the_default_roles() -> None:
    assert roles(owners.owners(make_tenant(ALICE), config())) == {
        "User:alice": ("admin", "capsule-namespace-deleter")
    }


def test_sources_come_in_order_and_one_subject_has_one_entry() -> None:
    found = owners.owners(
        make_tenant(
            tenant.Owner(kind="User", name="alice", cluster_roles=["view", "edit"]),
            tenant.Owner(kind="Group", name="alice", cluster_roles=["view"]),
            tenant.Owner(kind="User", name="alice", cluster_roles=["edit", "admin"]),
            allow_owner_promotion=True,
        ),
        config(
            allow_service_account_promotion=True,
            administrators=[
                common.User(kind="User", name="boss"),
                common.User(kind="User", name="alice"),
            ],
        ),
        [make_owner({"projectcapsule.dev/tenant": "oil"}, cluster_roles=["dba"])],
        [PROMOTED],
    )
    assert list(roles(found).items()) == [
        ("User:alice", ("view", "edit", "admin", "capsule-namespace-deleter")),
        ("Group:alice", ("view",)),
        (
            "ServiceAccount:system:serviceaccount:oil-dev:robot",
            ("capsule-namespace-provisioner", "capsule-namespace-deleter"),
        ),
        ("User:boss", ("capsule-namespace-deleter",)),
        ("User:erin", ("dba",)),
    ]


def test_metadata_of_the_first_entry_wins() -> None:
    found = owners.owners(
        make_tenant(
            tenant.Owner(kind="User", name="a", labels={"x": "1"}, annotations={"p": "1"}),
            tenant.Owner(kind="User", name="a", labels={"x": "2", "y": "2"}),
        ),
        config(),
    )
    assert found[0].labels == {"x": "1", "y": "2"}
    assert found[0].annotations == {"p": "1"}


@pytest.mark.parametrize(
    ("globally", "here", "expected"),
    [(True, True, True), (True, False, False), (False, True, False), (False, False, False)],
)
def test_promotion_needs_both_words(globally: bool, here: bool, expected: bool) -> None:
    owned = make_tenant(ALICE, allow_owner_promotion=here)
    spec = config(allow_service_account_promotion=globally)
    assert owners.promotion_allowed(owned, spec) is expected
    found = owners.owners(owned, spec, (), [PROMOTED])
    assert (PROMOTED.subject in {entry.subject for entry in found}) is expected


def selector(**labels: str) -> meta.LabelSelector:
    return meta.LabelSelector(match_labels=labels)


def requirement(operator: str) -> meta.LabelSelector:
    row = meta.LabelSelectorRequirement(key="team", operator=operator)
    return meta.LabelSelector(match_expressions=[row])


@pytest.mark.parametrize(
    ("labels", "match_owners", "expected"),
    [
        pytest.param({"projectcapsule.dev/tenant": "oil"}, [], True, id="by its label"),
        pytest.param({"projectcapsule.dev/tenant": "gas"}, [], False, id="label of another"),
        pytest.param({"team": "a"}, [selector(team="a")], True, id="selected"),
        pytest.param({"team": "b"}, [selector(team="a")], False, id="not selected"),
        pytest.param({"team": "b"}, [selector(team="a"), selector(team="b")], True, id="either"),
        pytest.param({"team": "b"}, [], False, id="nothing selects"),
        pytest.param({"team": "b"}, [meta.LabelSelector()], True, id="empty selector"),
        pytest.param({}, [meta.LabelSelector()], False, id="without labels never"),
        pytest.param({}, [requirement("DoesNotExist")], False, id="not even by absence"),
        pytest.param({"a": "b"}, [requirement("DoesNotExist")], True, id="by absence"),
        pytest.param({"team": "a"}, [requirement("Nonsense")], False, id="invalid, stored before"),
        pytest.param(
            {"projectcapsule.dev/tenant": "gas", "team": "a"}, [selector(team="a")], True,
            id="selected by another too",
        ),
    ],
)  # fmt: skip
def test_which_tenant_owners_belong(
    labels: dict[str, str], match_owners: list[meta.LabelSelector], expected: bool
) -> None:
    owned = make_tenant(match_owners=match_owners)
    assert owners.selects(owned, make_owner(labels)) is expected
    found = owners.owners(owned, config(), [make_owner(labels)])
    assert bool(found) is expected


def test_ownership_is_by_name_or_group() -> None:
    entries = owners.owners(
        make_tenant(ALICE, tenant.Owner(kind="Group", name="oil-team")), config()
    )
    assert owners.is_owner(entries, identity.Requester("alice"))
    assert owners.is_owner(entries, identity.Requester("x", frozenset({"oil-team"})))
    assert not owners.is_owner(entries, identity.Requester("oil-team"))
    assert not owners.is_owner((), identity.Requester("alice"))
