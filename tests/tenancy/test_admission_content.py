"""Cordoning, managed objects and promotion: specs/capsule 5.6."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.api import meta
from tenantry.api.capsule import configuration, tenant
from tenantry.directory import identity, owners
from tenantry.runtime import admission
from tenantry.tenancy import evidence
from tenantry.tenancy.admission import content

ADMIN, CAPSULE, UNKNOWN = identity.Class.ADMIN, identity.Class.CAPSULE, identity.Class.UNKNOWN
ALICE, BOB = identity.Requester("alice"), identity.Requester("bob")
KUBE_SYSTEM = identity.Requester(
    "system:serviceaccount:kube-system:generic-garbage-collector",
    frozenset({"system:serviceaccounts", "system:serviceaccounts:kube-system"}),
)
STEPS = (content.CORDONING, content.MANAGING, content.PROMOTING)


def known(
    requester: identity.Requester = ALICE,
    klass: identity.Class = CAPSULE,
    *,
    cordoned: bool = False,
    leaving: bool = False,
    promotion: tuple[bool, bool] = (True, True),
    tenant_name: str | None = "oil",
    found: bool = True,
) -> evidence.Evidence:
    globally, here = promotion
    config = configuration.CapsuleConfigurationSpec(allow_service_account_promotion=globally)
    oil = tenant.Tenant(
        metadata=meta.ObjectMeta(name="oil"),
        spec=tenant.TenantSpec(
            owners=[tenant.Owner(kind="User", name="alice")],
            permissions=tenant.Permissions(allow_owner_promotion=here),
        ),
    )
    return evidence.Evidence(
        requester=requester,
        requester_class=klass,
        config=config,
        tenants={"oil": oil} if found else {},
        owners_of=lambda owned: owners.owners(owned, config),
        tenant_name=tenant_name,
        cordoned=cordoned,
        leaving=leaving,
    )


def labelled(**labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "x", "labels": {k.replace("__", "/"): v for k, v in labels.items()}}
    }


PLAIN: dict[str, Any] = {"metadata": {"name": "x"}}
MANAGED = {"metadata": {"name": "x", "labels": {"projectcapsule.dev/managed-by": "controller"}}}


def judge(
    evidence_: evidence.Evidence,
    new: dict[str, Any] | None = None,
    old: dict[str, Any] | None = None,
    **more: Any,
) -> str:
    operation: Any = "CREATE" if old is None else "DELETE" if new is None else "UPDATE"
    review = admission.Review(
        **{
            "uid": "u",
            "operation": operation,
            "resource": "configmaps",
            "kind": "ConfigMap",
            "namespace": "oil-dev",
            "name": "x",
            "object": new,
            "old": old,
            **more,
        }
    )
    verdict = admission.run(STEPS, review, evidence_)
    assert verdict.code == (200 if verdict.allowed else 403)
    return verdict.message


# Cordoning.


@pytest.mark.parametrize("klass", [ADMIN, UNKNOWN])
def test_a_frozen_namespace_is_frozen_for_its_users_alone(klass: identity.Class) -> None:
    frozen = known(cordoned=True)
    assert judge(frozen, PLAIN) == (
        "The current namespace 'oil-dev' is cordoned. The attempted operation CREATE for "
        "/v1/ConfigMap/x is not permitted during cordoning status."
    )
    assert "operation UPDATE" in judge(frozen, PLAIN, PLAIN)
    assert "operation DELETE" in judge(frozen, None, PLAIN)
    assert judge(known(), PLAIN) == ""
    assert judge(known(klass=klass, cordoned=True), PLAIN) == ""


def test_cordoning_names_what_was_attempted() -> None:
    message = judge(
        known(cordoned=True), PLAIN, group="apps", version="v1", resource="deployments",
        kind="Deployment",
    )  # fmt: skip
    assert "for apps/v1/Deployment/x is" in message


def test_cordoning_is_about_what_lies_inside_namespaces() -> None:
    frozen = known(cordoned=True)
    assert judge(frozen, PLAIN, resource="namespaces", kind="Namespace") == ""
    assert judge(frozen, PLAIN, resource="nodes", namespace="") == ""
    # A kind of somebody's own that happens to be called so is no namespace.
    assert judge(frozen, PLAIN, resource="namespaces", group="example.com") != ""


# Objects that the platform manages.


@pytest.mark.parametrize(
    ("new", "old"),
    [
        pytest.param(MANAGED, None, id="made"),
        pytest.param(MANAGED, MANAGED, id="changed"),
        pytest.param(MANAGED, PLAIN, id="label added"),
        pytest.param(PLAIN, MANAGED, id="label removed"),
        pytest.param(None, MANAGED, id="deleted"),
    ],
)
def test_managed_objects_are_ours(new: dict[str, Any] | None, old: dict[str, Any] | None) -> None:
    assert judge(known(), new, old) == content.MANAGED
    assert judge(known(klass=UNKNOWN), new, old) == content.MANAGED
    assert judge(known(klass=ADMIN), new, old) == ""


def test_other_objects_and_other_values_are_free() -> None:
    other = {"metadata": {"labels": {"projectcapsule.dev/managed-by": "somebody"}}}
    assert judge(known(), PLAIN, PLAIN) == ""
    assert judge(known(), other, other) == ""


def test_the_clusters_own_controllers_may_clean_up() -> None:
    cleaner = known(KUBE_SYSTEM, UNKNOWN)
    assert judge(cleaner, None, MANAGED) == ""
    assert judge(cleaner, MANAGED, MANAGED) == ""


def test_with_its_namespace_a_managed_object_may_go() -> None:
    """The controller manager need not act under service accounts of kube-system."""
    going = known(identity.Requester("system:kube-controller-manager"), UNKNOWN, leaving=True)
    assert judge(going, None, MANAGED) == ""
    assert judge(going, PLAIN, MANAGED) == content.MANAGED
    assert judge(going, MANAGED, None) == content.MANAGED


# Promotion of service accounts.

OWNER_LABEL, ROLE_LABEL = "owner.projectcapsule.dev/promote", "projectcapsule.dev/promote"


def account(key: str = OWNER_LABEL, value: str = "true") -> dict[str, Any]:
    return {"metadata": {"name": "x", "labels": {key: value}}}


def promote(
    evidence_: evidence.Evidence,
    new: dict[str, Any] | None,
    old: dict[str, Any] | None = None,
    **more: Any,
) -> str:
    return judge(evidence_, new, old, resource="serviceaccounts", kind="ServiceAccount", **more)


DENIED = "bob not allowed to promote serviceaccount to tenant owner"


@pytest.mark.parametrize("key", [OWNER_LABEL, ROLE_LABEL])
@pytest.mark.parametrize(
    ("evidence_", "expected"),
    [
        pytest.param(known(), "", id="owner"),
        pytest.param(known(BOB), DENIED, id="another user"),
        pytest.param(known(BOB, UNKNOWN), DENIED, id="nobody"),
        pytest.param(known(BOB, ADMIN), "", id="administrator"),
        pytest.param(known(promotion=(False, True)), content.PROMOTION_DISABLED, id="off"),
        pytest.param(
            known(promotion=(True, False)), content.PROMOTION_DISABLED_HERE, id="off here"
        ),
        pytest.param(known(promotion=(False, False)), content.PROMOTION_DISABLED, id="off twice"),
        pytest.param(known(tenant_name=None), "", id="outside of any tenant"),
        pytest.param(known(found=False), "", id="tenant is gone"),
    ],
)
def test_who_may_promote(key: str, evidence_: evidence.Evidence, expected: str) -> None:
    assert promote(evidence_, account(key)) == expected
    assert promote(evidence_, account(key), PLAIN) == expected


def test_a_promoted_account_does_not_promote_others() -> None:
    robot = identity.Requester("system:serviceaccount:oil-dev:robot")
    assert promote(known(robot), account()).startswith(f"{robot.name} not allowed")


def test_demotion_is_an_owners_right_too_also_when_promotion_is_off() -> None:
    assert promote(known(BOB), PLAIN, account()) == DENIED
    assert promote(known(), PLAIN, account()) == ""
    assert promote(known(promotion=(False, False)), PLAIN, account()) == ""


def test_what_does_not_change_the_promotion_is_free() -> None:
    assert promote(known(BOB), account(), account()) == ""
    assert promote(known(BOB), PLAIN, PLAIN) == ""
    assert promote(known(BOB), account("other", "true")) == ""
    assert judge(known(BOB), account(), PLAIN) == ""
    assert promote(known(BOB), account(), PLAIN, group="example.com") == ""
