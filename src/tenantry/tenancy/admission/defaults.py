"""Classes for objects that name none: the tenant's default (specs/capsule 5.6, "Defaults")."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from tenantry.api import resources
from tenantry.runtime import admission, jsonpatch
from tenantry.tenancy import evidence
from tenantry.tenancy.admission import judging
from tenantry.tenancy.policy import classes

NO_PRIORITY_CLASS = (
    'failed to assign tenant default Priority Class: PriorityClass "{name}" does not exist; '
    "please, reach out to the system administrators"
)

Decision = admission.Decision
Object = dict[str, Any]


def _of(resource: resources.Resource, *operations: str) -> Callable[[admission.Review], bool]:
    return lambda review: (
        review.is_about(resource) and not review.subresource and review.operation in operations
    )


def _changed(review: admission.Review, change: Callable[[Object], None]) -> Decision:
    before = review.object or {}
    after = copy.deepcopy(before)
    change(after)
    return admission.Patch(jsonpatch.difference(before, after))


def pod(review: admission.Review, known: evidence.Evidence) -> Decision:
    """Give a pod the tenant's priority and runtime class.

    The API server's own Priority plugin has run before: a pod that named nothing carries the
    cluster's default, with its numbers, which all move together.
    """
    policy = known.policy
    if policy is None:
        return admission.Allow()
    spec = (review.object or {}).get("spec") or {}
    changes: Object = {}
    runtime = classes.of_kind(policy.classes, classes.RUNTIME).default
    if runtime and not spec.get("runtimeClassName"):
        changes["runtimeClassName"] = runtime
    priority = classes.of_kind(policy.classes, classes.PRIORITY).default
    if priority and judging.is_open(
        spec.get("priorityClassName"), classes.PRIORITY, priority, known
    ):
        found = known.around.find(classes.PRIORITY, priority)
        if found is None:
            return admission.Deny(NO_PRIORITY_CLASS.format(name=priority), code=500)
        changes["priorityClassName"] = priority
        changes["priority"] = found.value
        changes["preemptionPolicy"] = found.preemption_policy or "PreemptLowerPriority"
    return _changed(review, lambda after: after["spec"].update(changes))


def claim(review: admission.Review, known: evidence.Evidence) -> Decision:
    """Give a PersistentVolumeClaim the tenant's storage class."""
    policy = known.policy
    if policy is None:
        return admission.Allow()
    default = classes.of_kind(policy.classes, classes.STORAGE).default
    spec = (review.object or {}).get("spec") or {}
    name = spec.get("storageClassName")
    # An empty name is a choice: a volume without a class.
    if not default or name == "" or not judging.is_open(name, classes.STORAGE, default, known):
        return admission.Allow()
    return _changed(
        review, lambda after: after.setdefault("spec", {}).update(storageClassName=default)
    )


MUTATING = (
    admission.Step(name="pods.defaults", matches=_of(resources.PODS, "CREATE"), decide=pod),
    admission.Step(
        name="claims.defaults",
        matches=_of(resources.PERSISTENT_VOLUME_CLAIMS, "CREATE"),
        decide=claim,
    ),
)
