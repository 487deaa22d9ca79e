"""Storage and devices that a tenant may claim (specs/capsule 5.6)."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.runtime import admission, jsonpatch
from tenantry.tenancy import evidence
from tenantry.tenancy.policy import classes, compiling, devices

NO_VOLUME = "cannot create a PVC referring to a not yet existing PV"
UNLABELLED = (
    "PersistentVolume {name} is missing the Tenant label ({label}), "
    "preventing a potential cross-tenant mount"
)
FOREIGN = "Preventing a cross-tenant mount for PersistentVolume {name}"
SELECTOR = (
    "the selector of a PVC must contain exactly one requirement on the label {label}, with "
    "operator In and the value {tenant}"
)

Decision = admission.Decision
Object = dict[str, Any]


def is_claim(review: admission.Review) -> bool:
    """Tell whether a review is about a PersistentVolumeClaim itself."""
    return (
        review.is_about(resources.PERSISTENT_VOLUME_CLAIMS)
        and not review.subresource
        and review.operation in {"CREATE", "UPDATE"}
    )


def _spec(obj: Mapping[str, Any] | None) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = (obj or {}).get("spec") or {}
    return spec


def _binds_statically(review: admission.Review) -> bool:
    """Tell whether a claim asks for volumes that exist, and may still choose.

    Claims that leave the choice to a provisioner are left alone: a selector would stop it.
    """
    spec, old = _spec(review.object), _spec(review.old)
    if review.old is None:
        return bool(spec.get("selector") or spec.get("volumeName"))
    return bool(spec.get("selector")) and not old.get("volumeName")


def mutate_claim(review: admission.Review, known: evidence.Evidence) -> Decision:
    """Let a claim that selects volumes see those of its tenant only."""
    if known.policy is None or not _binds_statically(review):
        return admission.Allow()
    if review.old is not None and _spec(review.old).get("selector") == _spec(review.object).get(
        "selector"
    ):
        return admission.Allow()
    before = review.object or {}
    after = copy.deepcopy(before)
    selector = after["spec"].setdefault("selector", {})
    labels = selector.get("matchLabels") or {}
    labels.pop(constants.TENANT_LABEL, None)
    if not labels:
        selector.pop("matchLabels", None)
    kept = [
        one
        for one in selector.get("matchExpressions") or ()
        if one.get("key") != constants.TENANT_LABEL
    ]
    mine = {"key": constants.TENANT_LABEL, "operator": "In", "values": [known.policy.tenant]}
    selector["matchExpressions"] = [*kept, mine]
    return admission.Patch(jsonpatch.difference(before, after))


def validate_claim(review: admission.Review, known: evidence.Evidence) -> Decision:
    """Judge class and volume of a claim."""
    policy = known.policy
    if policy is None:
        return admission.Allow()
    if review.old is None:
        denial = _class(review, known, policy)
        if denial is not None:
            return denial
    return _volume(review, known, policy) or admission.Allow()


def _class(
    review: admission.Review, known: evidence.Evidence, policy: compiling.Policy
) -> admission.Deny | None:
    rule = classes.of_kind(policy.classes, classes.STORAGE)
    if rule.allowed is None:
        return None
    name = _spec(review.object).get("storageClassName") or ""
    if not name:
        return admission.Deny(rule.missing, event=constants.MISSING_STORAGE_EVENT)
    use = classes.Use(name, known.around.find(classes.STORAGE, name))
    found = rule.allowed.check(use, "spec.storageClassName", known.who)
    return admission.Deny(found.refusal, event=found.event) if found.refusal else None


def _volume(
    review: admission.Review, known: evidence.Evidence, policy: compiling.Policy
) -> admission.Deny | None:
    spec, old = _spec(review.object), _spec(review.old)
    name = spec.get("volumeName") or ""
    if review.old is not None and old.get("volumeName"):
        # Bound, or bound to be: what it names cannot be changed any more.
        return None
    selector = spec.get("selector")
    if selector and selector != old.get("selector") and not _selects(selector, policy.tenant):
        return admission.Deny(
            SELECTOR.format(label=constants.TENANT_LABEL, tenant=policy.tenant),
            event=constants.CROSS_TENANT_EVENT,
        )
    if not name:
        return None
    found = known.around.volume(name)
    if found is None:
        return admission.Deny(NO_VOLUME, event=constants.CROSS_TENANT_EVENT)
    uid = ((review.old or {}).get("metadata") or {}).get("uid")
    if uid and not found.tenant and found.claim is not None and found.claim.uid == uid:
        # Made for this very claim, or nobody's: its label follows.
        return None
    if not found.tenant:
        return admission.Deny(
            UNLABELLED.format(name=name, label=constants.TENANT_LABEL),
            event=constants.CROSS_TENANT_EVENT,
        )
    if found.tenant != policy.tenant:
        return admission.Deny(FOREIGN.format(name=name), event=constants.CROSS_TENANT_EVENT)
    return None


def _selects(selector: Mapping[str, Any], tenant: str) -> bool:
    if constants.TENANT_LABEL in (selector.get("matchLabels") or {}):
        return False
    found = [
        one
        for one in selector.get("matchExpressions") or ()
        if one.get("key") == constants.TENANT_LABEL
    ]
    return (
        len(found) == 1 and found[0].get("operator") == "In" and found[0].get("values") == [tenant]
    )


# ---- devices ------------------------------------------------------------------------------------


def _is_device_claim(review: admission.Review) -> bool:
    return (
        review.group == devices.GROUP
        and review.resource in devices.PLURALS
        and not review.subresource
        and review.operation in {"CREATE", "UPDATE"}
    )


def validate_devices(review: admission.Review, known: evidence.Evidence) -> Decision:
    """Judge every device class that a claim, or a template of claims, asks for."""
    policy = known.policy
    rule = classes.of_kind(policy.classes, classes.DEVICE) if policy is not None else None
    if rule is None or rule.allowed is None:
        return admission.Allow()
    before = {name for _, name in devices.named(review.old or {})}
    for path, name in _new(review.object or {}, before):
        found = known.around.find(classes.DEVICE, name)
        if found is None:
            return admission.Deny(
                f'Device Class {name} is forbidden for the current Tenant: no DeviceClass "{name}" '
                f"exists; {rule.words}",
                event=constants.MISSING_DEVICE_CLASS_EVENT,
            )
        judged = rule.allowed.check(classes.Use(name, found), path, known.who)
        if judged.refusal:
            return admission.Deny(judged.refusal, event=judged.event)
    return admission.Allow()


def _new(obj: Mapping[str, Any], before: set[str]) -> Iterator[tuple[str, str]]:
    return ((path, name) for path, name in devices.named(obj) if name not in before)


MUTATING = (admission.Step(name="claims.volume", matches=is_claim, decide=mutate_claim),)
VALIDATING = (
    admission.Step(name="claims.policy", matches=is_claim, decide=validate_claim),
    admission.Step(name="devices.policy", matches=_is_device_claim, decide=validate_devices),
)
