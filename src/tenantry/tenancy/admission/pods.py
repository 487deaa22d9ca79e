"""Pods of a tenant's namespaces against its policy (specs/capsule 5.6, 5.8)."""

from __future__ import annotations

import copy
from collections.abc import Iterator

from tenantry.api import resources
from tenantry.runtime import admission, jsonpatch
from tenantry.tenancy import evidence
from tenantry.tenancy.admission import judging
from tenantry.tenancy.policy import amounts, classes, compiling, engine, placement, pods

_SUBRESOURCES = ("", "ephemeralcontainers", "resize")

Decision = admission.Decision


def _is_pod(review: admission.Review) -> bool:
    return (
        review.is_about(resources.PODS)
        and review.subresource in _SUBRESOURCES
        and review.operation in {"CREATE", "UPDATE"}
    )


def validate(review: admission.Review, known: evidence.Evidence) -> Decision:
    """Judge what a pod brings; what it had before goes on running."""
    policy, pod = known.policy, review.object
    if policy is None or pod is None:
        return admission.Allow()
    return judging.first(_judged(policy, review, known))


def _judged(
    policy: compiling.Policy, review: admission.Review, known: evidence.Evidence
) -> Iterator[engine.Judgement]:
    pod, who = review.object or {}, known.who
    for image in pods.new_uses(pod, review.old) if policy.images else ():
        for rule_set in policy.images:
            yield rule_set.check(image, image.path, who)
    spec = pod.get("spec") or {}
    if policy.amounts:
        yield from amounts.judged(policy.amounts, spec, (review.old or {}).get("spec") or {}, who)
    for tolerations in policy.tolerations:
        for path, toleration in placement.new_tolerations(pod, review.old):
            yield tolerations.check(toleration, path, who)
    bounds = placement.bounds(pod) if policy.node_selectors else None
    if bounds is not None and (review.old is None or bounds != placement.bounds(review.old)):
        for selectors in policy.node_selectors:
            if not who.work.spend(bounds.size * len(selectors.clauses)):
                yield engine.Judgement(engine.TOO_MUCH, event=selectors.event)
                return
            yield selectors.check(bounds, "spec.nodeSelector", who)
    if review.operation != "CREATE":
        return
    scheduler = spec.get("schedulerName") or ""
    for schedulers in policy.schedulers if scheduler else ():
        yield schedulers.check(scheduler, "spec.schedulerName", who)
    for qos_classes in policy.qos_classes:
        yield qos_classes.check(pods.qos_class(pod), "status.qosClass", who)
    for kind, name in (
        (classes.PRIORITY, spec.get("priorityClassName") or ""),
        (classes.RUNTIME, spec.get("runtimeClassName") or ""),
    ):
        allowed = classes.of_kind(policy.classes, kind).allowed
        if name and allowed is not None:
            use = classes.Use(name, known.around.find(kind, name))
            yield allowed.check(use, "spec", who)


def mutate(review: admission.Review, known: evidence.Evidence) -> Decision:
    """Write requests and limits that rules default, remove or derive."""
    policy, pod = known.policy, review.object
    if policy is None or pod is None or not policy.amounts:
        return admission.Allow()
    after = copy.deepcopy(pod)
    amounts.fill(policy.amounts, after.setdefault("spec", {}), known.who)
    return admission.Patch(jsonpatch.difference(pod, after))


def _is_new(review: admission.Review) -> bool:
    return _is_pod(review) and review.operation == "CREATE" and not review.subresource


MUTATING = admission.Step(name="pods.resources", matches=_is_new, decide=mutate)
VALIDATING = admission.Step(name="pods.policy", matches=_is_pod, decide=validate)
