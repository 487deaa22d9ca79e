"""What lies inside a tenant's namespaces: cordoning, managed objects, promotion (specs 5.6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.directory import identity, owners
from tenantry.runtime import admission
from tenantry.tenancy import evidence

MANAGED = (
    "Labeling resources as controller managed can only be done by the controller or administrators"
)
OCCUPIED = "the namespace is not empty yet; until then its owners keep their access to clean it up"
PROMOTION_DISABLED = (
    "service account owner promotion is disabled. Contact your system administrators"
)
PROMOTION_DISABLED_HERE = (
    "service account owner promotion is disabled for this tenant. "
    "Contact your system administrators"
)

_PROMOTIONS = (constants.PROMOTE_OWNER_LABEL, constants.PROMOTE_LABEL)

Decision = admission.Decision


def _labels(obj: Mapping[str, Any] | None) -> Mapping[str, str]:
    labels: Mapping[str, str] = ((obj or {}).get("metadata") or {}).get("labels") or {}
    return labels


def _in_namespace(review: admission.Review) -> bool:
    is_namespace = review.is_about(resources.NAMESPACES)
    return bool(review.namespace) and not is_namespace


def cordon(review: admission.Review, known: evidence.Evidence) -> Decision:
    """Refuse any write of a tenant's people in a frozen namespace."""
    if not known.cordoned or known.requester_class is not identity.Class.CAPSULE:
        return admission.Allow()
    what = f"{review.group}/{review.version}/{review.kind}/{review.name}"
    return admission.Deny(
        f"The current namespace '{review.namespace}' is cordoned. The attempted operation "
        f"{review.operation} for {what} is not permitted during cordoning status."
    )


def _is_managed(review: admission.Review) -> bool:
    return any(
        _labels(obj).get(constants.MANAGED_BY_LABEL) == constants.MANAGED_BY_CONTROLLER
        for obj in (review.object, review.old)
    )


def protect_managed(review: admission.Review, known: evidence.Evidence) -> Decision:
    """Keep everybody but us off the objects that we write, and off the label that says so."""
    if known.requester_class is identity.Class.ADMIN:
        return admission.Allow()
    if review.operation == "DELETE" and known.requester.name in identity.NAMESPACE_CONTROLLERS:
        return admission.Deny(OCCUPIED) if known.occupied else admission.Allow()
    from_cluster = identity.KUBE_SYSTEM_SERVICE_ACCOUNTS in known.requester.groups
    if from_cluster and review.operation != "CREATE":
        # The garbage collector and the namespace controller clean up; the quota and disruption
        # controllers write status. What they create, they create for others, who may have put
        # the label in a template.
        return admission.Allow()
    if review.operation == "DELETE" and known.leaving:
        # Whoever empties a namespace that is going (the controller manager may act under a name
        # of its own) must be able to finish.
        return admission.Allow()
    return admission.Deny(MANAGED)


def concerns_promotion(review: admission.Review) -> bool:
    """Tell whether a ServiceAccount is, was or shall be promoted, so that owners are asked about."""
    if not review.is_about(resources.SERVICE_ACCOUNTS):
        return False
    before, after = _labels(review.old), _labels(review.object)
    return any(before.get(key) != after.get(key) for key in _PROMOTIONS)


def promote(review: admission.Review, known: evidence.Evidence) -> Decision:
    """Let only owners by specification promote or demote a service account of their tenant.

    A promoted account is no owner in this sense, else promotion would spread by itself.
    """
    owner = known.tenants.get(known.tenant_name or "")
    if owner is None or known.requester_class is identity.Class.ADMIN:
        return admission.Allow()
    if any(key in _labels(review.object) for key in _PROMOTIONS):
        if not known.config.allow_service_account_promotion:
            return admission.Deny(PROMOTION_DISABLED)
        if not owner.spec.permissions.allow_owner_promotion:
            return admission.Deny(PROMOTION_DISABLED_HERE)
    if not owners.is_owner(known.owners_of(owner), known.requester):
        return admission.Deny(
            f"{known.requester.name} not allowed to promote serviceaccount to tenant owner"
        )
    return admission.Allow()


CORDONING = admission.Step(name="content.cordon", matches=_in_namespace, decide=cordon)
MANAGING = admission.Step(name="content.managed", matches=_is_managed, decide=protect_managed)
PROMOTING = admission.Step(name="content.promote", matches=concerns_promotion, decide=promote)
