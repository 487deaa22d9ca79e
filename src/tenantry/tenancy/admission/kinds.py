"""The tenancy's own kinds: Tenant, TenantOwner, CapsuleConfiguration, RuleStatus (specs/capsule 5.7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from tenantry.api.capsule import configuration, constants, rule_status, tenant, tenant_owner
from tenantry.api.capsule import resources as capsule
from tenantry.api.resources import Resource
from tenantry.runtime import admission, jsonpatch
from tenantry.tenancy import evidence, validation

PROTECTED = "tenant is protected and cannot be deleted"

T = TypeVar("T")
Decision = admission.Decision
Known = evidence.Evidence


def _of(resource: Resource) -> Callable[[admission.Review], bool]:
    return lambda review: review.is_about(resource) and not review.subresource


def _decoded(review: admission.Review, obj: object, kind: type[T]) -> T | admission.Deny:
    try:
        return msgspec.convert(obj, kind, strict=False)
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
    return _judged(review, tenant.Tenant, validation.tenant_problems, validation.tenant_warnings)


def validate_tenant_owner(review: admission.Review, _: Known) -> Decision:
    """Refuse a subject that nobody can be."""
    if review.operation == "DELETE":
        return admission.Allow()
    return _judged(review, tenant_owner.TenantOwner, validation.tenant_owner_problems)


def validate_configuration(review: admission.Review, _: Known) -> Decision:
    """Refuse a configuration that would lock people out or crash somebody."""
    if review.operation == "DELETE":
        return admission.Allow()
    return _judged(
        review,
        configuration.CapsuleConfiguration,
        validation.configuration_problems,
        validation.configuration_warnings,
    )


def validate_rule_status(review: admission.Review, _: Known) -> Decision:
    """Refuse rules that mean nothing, as in a Tenant; only the controller's own are in force."""
    if review.operation == "DELETE":
        return admission.Allow()
    return _judged(review, rule_status.RuleStatus, validation.rule_status_problems)


def _judged(
    review: admission.Review,
    kind: type[T],
    problems_of: Callable[[T], list[str]],
    warnings_of: Callable[[T], list[str]] = lambda _: [],
) -> Decision:
    """Refuse the problems that this request brings.

    What was stored before stays: an object made under other rules can be changed elsewhere,
    and its finalizers removed.
    """
    found = _decoded(review, review.object, kind)
    if isinstance(found, admission.Deny):
        return found
    problems = problems_of(found)
    if problems and review.old is not None:
        stored = _decoded(review, review.old, kind)
        before = [] if isinstance(stored, admission.Deny) else problems_of(stored)
        problems = [problem for problem in problems if problem not in before]
    if problems:
        return admission.Deny(validation.message(review.kind, review.name, problems))
    return admission.Allow(tuple(warnings_of(found)))


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
    admission.Step(
        name="rulestatuses.valid",
        matches=_of(capsule.RULE_STATUSES),
        decide=validate_rule_status,
    ),
)
