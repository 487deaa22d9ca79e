"""Tenant, TenantOwner and CapsuleConfiguration at admission: specs/capsule 5.7."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.api.capsule import configuration
from tenantry.directory import identity
from tenantry.runtime import admission
from tenantry.tenancy import evidence
from tenantry.tenancy.admission import kinds

KNOWN = evidence.Evidence(
    requester=identity.Requester("root"),
    requester_class=identity.Class.UNKNOWN,
    config=configuration.CapsuleConfigurationSpec(),
    tenants={},
    owners_of=lambda _: (),
)

KINDS = {
    "tenants": "Tenant",
    "tenantowners": "TenantOwner",
    "capsuleconfigurations": "CapsuleConfiguration",
}


def obj(spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "oil", **metadata}, "spec": spec or {}}


def judge(
    new: dict[str, Any] | None,
    old: dict[str, Any] | None = None,
    *,
    resource: str = "tenants",
    **more: Any,
) -> admission.Verdict:
    operation: Any = "CREATE" if old is None else "DELETE" if new is None else "UPDATE"
    review = admission.Review(
        **{
            "uid": "u",
            "operation": operation,
            "group": "capsule.clastix.io",
            "version": "v1beta2",
            "resource": resource,
            "kind": KINDS[resource],
            "name": "oil",
            "object": new,
            "old": old,
            **more,
        }
    )
    return admission.run((*kinds.MUTATING, *kinds.VALIDATING), review, KNOWN)


NAMED = {"kubernetes.io/metadata.name": "oil"}


@pytest.mark.parametrize(
    ("labels", "patch"),
    [
        (NAMED, []),
        (
            {"a": "b"},
            [
                {
                    "op": "add",
                    "path": "/metadata/labels/kubernetes.io~1metadata.name",
                    "value": "oil",
                }
            ],
        ),
        (
            {"kubernetes.io/metadata.name": "gas"},
            [
                {
                    "op": "replace",
                    "path": "/metadata/labels/kubernetes.io~1metadata.name",
                    "value": "oil",
                }
            ],
        ),
    ],
)
def test_a_tenant_is_labelled_with_its_name(
    labels: dict[str, str], patch: list[dict[str, Any]]
) -> None:
    assert list(judge(obj(labels=labels)).patch) == patch
    assert list(judge(obj(labels=labels), obj()).patch) == patch


def test_labels_are_made_where_there_are_none() -> None:
    (operation,) = judge(obj()).patch
    assert operation == {"op": "add", "path": "/metadata/labels", "value": NAMED}


def test_a_name_to_be_generated_waits() -> None:
    nameless = {"metadata": {"generateName": "oil-"}, "spec": {}}
    review = admission.Review(uid="u", operation="CREATE", resource="tenants", object=nameless)
    assert kinds.mutate_tenant(review, KNOWN) == admission.Allow()
    gone = admission.Review(uid="u", operation="DELETE", resource="tenants", old=nameless)
    assert kinds.mutate_tenant(gone, KNOWN) == admission.Allow()


BAD = {"owners": [{"kind": "User", "name": ""}]}
WORSE = {**BAD, "nodeSelector": {"bad key": "x"}}


def test_a_bad_tenant_is_refused_with_its_problem() -> None:
    verdict = judge(obj(BAD, labels=NAMED))
    assert not verdict.allowed
    assert verdict.message == (
        'Tenant "oil" is invalid: spec.owners[0].name: Invalid value: "": must not be empty'
    )
    assert not judge(obj(BAD), obj()).allowed


def test_problems_that_were_stored_before_do_not_lock_an_object() -> None:
    """Its finalizers can be removed, its labels changed, its problems repaired one by one."""
    assert judge(obj(BAD, annotations={"a": "b"}), obj(BAD)).allowed
    assert judge(obj(BAD), obj(WORSE)).allowed
    verdict = judge(obj(WORSE), obj(BAD))
    assert "spec.nodeSelector" in verdict.message
    assert "owners" not in verdict.message


def test_what_the_types_cannot_read_is_invalid() -> None:
    broken = obj({"owners": "alice"})
    verdict = judge(broken)
    assert (verdict.allowed, verdict.code, verdict.reason) == (False, 422, "Invalid")
    assert verdict.message.startswith("Tenant is invalid: ")
    # Such an object can be repaired.
    assert judge(obj(), broken).allowed
    assert not judge(obj(BAD), broken).allowed


def test_warnings_reach_the_user() -> None:
    twice = {"owners": [{"kind": "User", "name": "a"}, {"kind": "User", "name": "a"}]}
    verdict = judge(obj(twice))
    assert verdict.allowed
    assert len(verdict.warnings) == 1
    assert "Duplicate value" in verdict.warnings[0]


@pytest.mark.parametrize(
    ("old", "allowed"),
    [
        (obj(), True),
        (obj({"preventDeletion": False}), True),
        (obj({"preventDeletion": True}), False),
        (obj(annotations={"capsule.clastix.io/protected": ""}), False),
        (obj(annotations={"other": "true"}), True),
        ({"metadata": {"name": "oil"}}, True),
    ],
)
def test_a_protected_tenant_stays(old: dict[str, Any], allowed: bool) -> None:
    verdict = judge(None, old)
    assert verdict.allowed is allowed
    assert verdict.message == ("" if allowed else "tenant is protected and cannot be deleted")
    assert verdict.code == (200 if allowed else 403)


def test_tenant_owners() -> None:
    good = obj({"kind": "User", "name": "erin"})
    bad = obj({"kind": "ServiceAccount", "name": "erin"})
    assert judge(good, resource="tenantowners").allowed
    assert judge(None, bad, resource="tenantowners").allowed
    verdict = judge(bad, resource="tenantowners")
    assert verdict.message.startswith('TenantOwner "oil" is invalid: spec.name: ')
    assert judge(obj({"kind": "Robot", "name": "x"}), resource="tenantowners").code == 422


def test_configurations() -> None:
    good = obj({"userNames": ["dave"]})
    bad = obj({"protectedNamespaceRegex": "("})
    assert judge(good, resource="capsuleconfigurations").warnings == (
        "spec.userNames is deprecated; use spec.users",
    )
    assert judge(None, bad, resource="capsuleconfigurations").allowed
    verdict = judge(bad, resource="capsuleconfigurations")
    assert 'spec.protectedNamespaceRegex "(" is not a valid regular expression' in verdict.message
    assert judge(obj({"users": 3}), resource="capsuleconfigurations").code == 422


def test_status_and_other_groups_are_none_of_our_business() -> None:
    assert judge(obj(BAD), subresource="status") == admission.Verdict()
    assert judge(obj(BAD), group="example.com") == admission.Verdict()
