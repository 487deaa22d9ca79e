"""The tenancy's own kinds: Tenant, TenantOwner, CapsuleConfiguration (specs/capsule 5.7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from tenantry.api.capsule import configuration, constants, tenant, tenant_owner
from tenantry.api.capsule import resources as capsule
from tenantry.api.resources import Resource
from tenantry.runtime import admission, jsonpatch
from tenantry.tenancy import evidence, validation

PROTECTED = "tenant is protected and cannot be deleted"

T = TypeVar("T")
Decision = admission.Decision
Known = evidence.Evidence


def _of(resource: Resource) -> Callable[[admission.Review], bool]:
    return lambda review: (
        review.group == resource.group
        and review.resource == resource.plural
        and not review.subresource
    )


def _decoded(review: admission.Review, kind: type[T]) -> T | admission.Deny:
    try:
        return msgspec.convert(review.object, kind, strict=False)
    except msgspec.ValidationError as problem:
        return admission.Deny(f"{review.kind} is invalid: {problem}", code=422, reason="Invalid")


def mutate_tenant(review: admission.Review, _: Known) -> Decision:
    """Let selectors find a tenant by its name."""
    if review.object is None:
        return admission.Allow()
    found = review.object.get("metadata") or {}
    name = found.get("name")
    if not name or (found.get("labels") or {}).get(constants.NAME_LABEL) == name:
        return admission.Allow()
    labels = {**(found.get("labels") or {}), constants.NAME_LABEL: name}
    after = {**review.object, "metadata": {**found, "labels": labels}}
    return admission.Patch(jsonpatch.difference(review.object, after))


def validate_tenant(review: admission.Review, _: Known) -> Decision:
    """Refuse what the schema cannot, and the deletion of a protected tenant."""
    if review.operation == "DELETE":
        old = review.old or {}
        annotations = (old.get("metadata") or {}).get("annotations") or {}
        protected = (old.get("spec") or {}).get("preventDeletion")
        if protected or constants.PROTECTED_ANNOTATION in annotations:
            return admission.Deny(PROTECTED)
        return admission.Allow()
    found = _decoded(review, tenant.Tenant)
    if isinstance(found, admission.Deny):
        return found
    problems = validation.tenant_problems(found, creating=review.operation == "CREATE")
    return _judged(review, problems, validation.tenant_warnings(found))


def validate_tenant_owner(review: admission.Review, _: Known) -> Decision:
    """Refuse a subject that nobody can be."""
    if review.operation == "DELETE":
        return admission.Allow()
    found = _decoded(review, tenant_owner.TenantOwner)
    if isinstance(found, admission.Deny):
        return found
    return _judged(review, validation.tenant_owner_problems(found), [])


def validate_configuration(review: admission.Review, _: Known) -> Decision:
    """Refuse a configuration that would lock people out or crash somebody."""
    if review.operation == "DELETE":
        return admission.Allow()
    found = _decoded(review, configuration.CapsuleConfiguration)
    if isinstance(found, admission.Deny):
        return found
    problems = validation.configuration_problems(found)
    return _judged(review, problems, validation.configuration_warnings(found))


def _judged(review: admission.Review, problems: list[str], warnings: list[str]) -> Decision:
    if problems:
        return admission.Deny(validation.message(review.kind, review.name, problems))
    return admission.Allow(tuple(warnings))


MUTATING = (
    admission.Step(name="tenants.label", matches=_of(capsule.TENANTS), decide=mutate_tenant),
)
VALIDATING = (
    admission.Step(name="tenants.valid", matches=_of(capsule.TENANTS), decide=validate_tenant),
    admission.Step(
        name="tenantowners.valid",
        matches=_of(capsule.TENANT_OWNERS),
        decide=validate_tenant_owner,
    ),
    admission.Step(
        name="configurations.valid",
        matches=_of(capsule.CONFIGURATIONS),
        decide=validate_configuration,
    ),
)
