"""Ingresses, Gateways and routes of a tenant's namespaces (specs/capsule 5.6, 5.8)."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.runtime import admission, jsonpatch
from tenantry.tenancy import evidence
from tenantry.tenancy.admission import judging
from tenantry.tenancy.policy import classes, compiling, engine, hostnames

ANNOTATION = "kubernetes.io/ingress.class"
GATEWAY_GROUP = "gateway.networking.k8s.io"

Decision = admission.Decision
Object = Mapping[str, Any]


def is_ingress(review: admission.Review) -> bool:
    """Tell whether a review is about an Ingress itself."""
    return (
        review.resource == resources.INGRESSES.plural
        and review.group in {"networking.k8s.io", "extensions"}
        and not review.subresource
        and review.operation in {"CREATE", "UPDATE"}
    )


def is_gateway(review: admission.Review) -> bool:
    """Tell whether a review is about a Gateway itself."""
    return (
        review.resource == "gateways"
        and review.group == GATEWAY_GROUP
        and not review.subresource
        and review.operation in {"CREATE", "UPDATE"}
    )


def _has_hosts(review: admission.Review) -> bool:
    return (
        bool(hostnames.kind_of(review.group, review.kind))
        and not review.subresource
        and review.operation in {"CREATE", "UPDATE"}
    )


def ingress_class(obj: Object | None) -> str:
    """Return the class that an Ingress names, in its specification or by annotation."""
    spec: Object = (obj or {}).get("spec") or {}
    return str(spec.get("ingressClassName") or _annotation(obj) or "")


def _annotation(obj: Object | None) -> str:
    annotations: Object = ((obj or {}).get("metadata") or {}).get("annotations") or {}
    return str(annotations.get(ANNOTATION) or "")


def gateway_class(obj: Object | None) -> str:
    """Return the class that a Gateway names."""
    spec: Object = (obj or {}).get("spec") or {}
    return str(spec.get("gatewayClassName") or "")


# ---- defaults -----------------------------------------------------------------------------------


def mutate_ingress(review: admission.Review, known: evidence.Evidence) -> Decision:
    """Give an Ingress that chose no class the tenant's; where an annotation names one, there."""
    policy = known.policy
    default = classes.of_kind(policy.classes, classes.INGRESS).default if policy else ""
    name = ingress_class(review.object)
    if not default or not judging.is_open(name, classes.INGRESS, default, known):
        return admission.Allow()
    before = review.object or {}
    after = copy.deepcopy(before)
    if _annotation(before):
        after["metadata"]["annotations"][ANNOTATION] = default
    else:
        after.setdefault("spec", {})["ingressClassName"] = default
    return admission.Patch(jsonpatch.difference(before, after))


def mutate_gateway(review: admission.Review, known: evidence.Evidence) -> Decision:
    """Give a Gateway without a class the tenant's."""
    policy = known.policy
    default = classes.of_kind(policy.classes, classes.GATEWAY).default if policy else ""
    if not default or gateway_class(review.object):
        return admission.Allow()
    before = review.object or {}
    after = {**before, "spec": {**(before.get("spec") or {}), "gatewayClassName": default}}
    return admission.Patch(jsonpatch.difference(before, after))


# ---- judgements ---------------------------------------------------------------------------------


def validate_ingress(review: admission.Review, known: evidence.Evidence) -> Decision:
    """Judge the class and the host names of an Ingress."""
    policy = known.policy
    if policy is None:
        return admission.Allow()
    return judging.first(_ingress(policy, review, known))


def _ingress(
    policy: compiling.Policy, review: admission.Review, known: evidence.Evidence
) -> Iterator[engine.Judgement]:
    rule = classes.of_kind(policy.classes, classes.INGRESS)
    spec: Object = (review.object or {}).get("spec") or {}
    before: Object = (review.old or {}).get("spec") or {}
    named = [
        ("spec.ingressClassName", spec.get("ingressClassName") or "",
         before.get("ingressClassName") or ""),
        (f"metadata.annotations[{ANNOTATION}]", _annotation(review.object),
         _annotation(review.old)),
    ]  # fmt: skip
    if rule.allowed is not None:
        if not ingress_class(review.object) and (review.old is None or ingress_class(review.old)):
            yield engine.Judgement(rule.missing, event=constants.MISSING_INGRESS_CLASS_EVENT)
        for path, name, was in named:
            if name and (review.old is None or name != was):
                use = classes.Use(name, known.around.find(classes.INGRESS, name))
                yield rule.allowed.check(use, path, known.who)
    yield from _listed(policy.ingresses, review, known)


def _listed(
    rules: hostnames.HostRules, review: admission.Review, known: evidence.Evidence
) -> Iterator[engine.Judgement]:
    names, before = _rule_hosts(review.object), _rule_hosts(review.old)
    new = names if review.old is None else [name for name in names if name not in before]
    if rules.allowed is not None:
        if "" in new:
            message = hostnames.EMPTY.format(words=rules.words)
            yield engine.Judgement(message, event=constants.HOSTNAME_EMPTY_EVENT)
        judged = {name: rules.allowed.check(name, "spec.rules", known.who) for name in new}
        bad = [name for name, found in judged.items() if found.refusal]
        if bad and any(clause.broken for clause in rules.allowed.clauses):
            yield judged[bad[0]]
        if bad:
            message = hostnames.NOT_VALID.format(names=f"[{' '.join(bad)}]", words=rules.words)
            yield engine.Judgement(message, event=rules.allowed.event)
    if not rules.wildcards and any(name.startswith("*") for name in new):
        message = hostnames.WILDCARD.format(tenant=rules.tenant)
        yield engine.Judgement(message, event=constants.WILDCARD_EVENT)
    for pair in known.around.taken:
        message = hostnames.COLLISION.format(name=pair[0])
        yield engine.Judgement(message, event=constants.HOSTNAME_COLLISION_EVENT)


def _rule_hosts(obj: Object | None) -> list[str]:
    found = [host for host in hostnames.of("Ingress", obj) if host.path.startswith("spec.rules")]
    return list(dict.fromkeys(host.name for host in found))


def validate_gateway(review: admission.Review, known: evidence.Evidence) -> Decision:
    """Judge the class of a Gateway, which must exist."""
    policy = known.policy
    rule = classes.of_kind(policy.classes, classes.GATEWAY) if policy is not None else None
    name = gateway_class(review.object)
    if rule is None or rule.allowed is None:
        return admission.Allow()
    if review.old is not None and name == gateway_class(review.old):
        return admission.Allow()
    if not name:
        return admission.Deny(rule.missing, event=constants.MISSING_GATEWAY_CLASS_EVENT)
    found = known.around.find(classes.GATEWAY, name)
    if found is None:
        return admission.Deny(
            f'Gateway Class {name} is forbidden for the current Tenant: no GatewayClass "{name}" '
            f"exists; {rule.words}",
            event=constants.MISSING_GATEWAY_CLASS_EVENT,
        )
    return judging.first(
        [rule.allowed.check(classes.Use(name, found), "spec.gatewayClassName", known.who)]
    )


def validate_hosts(review: admission.Review, known: evidence.Evidence) -> Decision:
    """Judge host names by `spec.rules`, for every kind that brings some."""
    found = known.policy.ingresses.hosts if known.policy is not None else None
    if found is None:
        return admission.Allow()
    kind = hostnames.kind_of(review.group, review.kind)
    before = {host.name for host in hostnames.of(kind, review.old)}
    return judging.first(
        hostnames.judged_host(found, host, known.who)
        for host in hostnames.of(kind, review.object)
        if host.name not in before
    )


MUTATING = (
    admission.Step(name="ingresses.defaults", matches=is_ingress, decide=mutate_ingress),
    admission.Step(name="gateways.defaults", matches=is_gateway, decide=mutate_gateway),
)
VALIDATING = (
    admission.Step(name="ingresses.policy", matches=is_ingress, decide=validate_ingress),
    admission.Step(name="gateways.policy", matches=is_gateway, decide=validate_gateway),
    admission.Step(name="hostnames.policy", matches=_has_hosts, decide=validate_hosts),
)
