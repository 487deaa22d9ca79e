"""Labels and annotations of whatever lies inside a tenant's namespaces (specs/capsule 5.8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.directory import identity
from tenantry.runtime import admission, jsonpatch
from tenantry.tenancy import evidence, markings
from tenantry.tenancy.admission import judging
from tenantry.tenancy.policy import keys, labelling

Decision = admission.Decision
Object = Mapping[str, Any]


def _is_content(review: admission.Review) -> bool:
    namespace = review.is_about(resources.NAMESPACES)
    return (
        bool(review.namespace)
        and not namespace
        and not review.subresource
        and review.operation in {"CREATE", "UPDATE"}
    )


def _is_exempt(review: admission.Review, known: evidence.Evidence) -> bool:
    """Tell whether an object is none of a tenant's: ours, or what the cluster puts everywhere.

    The second mark of managed objects is anybody's to write, so it counts for administrators only.
    """
    mark = keys.of(review.object, keys.LABELS).get(constants.MANAGED_BY_LABEL)
    if mark == constants.MANAGED_BY_CONTROLLER:
        return True
    if mark == constants.MANAGED_BY_RESOURCES:
        return known.requester_class is identity.Class.ADMIN
    return _is_furniture(review, known)


def _is_furniture(review: admission.Review, known: evidence.Evidence) -> bool:
    """Tell whether the cluster puts an object everywhere, such as the default ServiceAccount.

    Without that no pod would ever start. What is made for an object of the tenant's (it has an
    owner) is the tenant's.
    """
    references = ((review.object or {}).get("metadata") or {}).get("ownerReferences")
    return identity.KUBE_SYSTEM_SERVICE_ACCOUNTS in known.requester.groups and not references


def _subject(review: admission.Review) -> labelling.Subject:
    return labelling.Subject(
        group=review.group, kind=review.kind, obj=review.object or {}, old=review.old
    )


def mutate(review: admission.Review, known: evidence.Evidence) -> Decision:
    """Write what rules default and manage, and what the deprecated fields add."""
    policy = known.policy
    if policy is None:
        return admission.Allow()
    result: dict[str, dict[str, str]]
    if _is_furniture(review, known):
        # The controller gives it to all that is there, but does not look again at what comes late.
        result = markings.by_place(markings.wanted(policy), review.group, review.kind)
    elif _is_exempt(review, known):
        return admission.Allow()
    else:
        result = labelling.written(policy.metadata, _subject(review), known.who)
        for part, values in policy.added_to(review.group, review.kind).items():
            result[part] = {**result.get(part, {}), **values}
    if not any(result.values()):
        return admission.Allow()
    before = review.object or {}
    found = dict(before.get("metadata") or {})
    for part, values in result.items():
        if values:
            found[part] = {**(found.get(part) or {}), **values}
    return admission.Patch(jsonpatch.difference(before, {**before, "metadata": found}))


def validate(review: admission.Review, known: evidence.Evidence) -> Decision:
    """Judge labels and annotations."""
    policy = known.policy
    if policy is None or _is_exempt(review, known):
        return admission.Allow()
    return judging.first(labelling.judged(policy.metadata, _subject(review), known.who))


MUTATING = (admission.Step(name="metadata.write", matches=_is_content, decide=mutate),)
VALIDATING = (admission.Step(name="metadata.policy", matches=_is_content, decide=validate),)
