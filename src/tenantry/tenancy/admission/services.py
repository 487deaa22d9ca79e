"""Services of a tenant's namespaces against its policy (specs/capsule 5.6, 5.8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.runtime import admission
from tenantry.tenancy import evidence
from tenantry.tenancy.admission import judging
from tenantry.tenancy.policy import compiling, engine, keys, services

LABELS_FAILED = "labels validation failed"
ANNOTATIONS_FAILED = "annotations validation failed"

V = TypeVar("V")
Decision = admission.Decision
Object = Mapping[str, Any]


def is_service(review: admission.Review) -> bool:
    """Tell whether a review is about a Service itself."""
    return (
        review.is_about(resources.SERVICES)
        and not review.subresource
        and review.operation in {"CREATE", "UPDATE"}
    )


def mutate(review: admission.Review, known: evidence.Evidence) -> Decision:
    """Refuse to leave the choice of a port to the cluster where ports are limited.

    Here, and not where everything else is judged: by then the API server has chosen.
    """
    policy = known.policy
    if policy is None or not _constrained(policy.services.node_ports, known):
        return admission.Allow()
    kept = _allocated(review.old)
    for index, port in enumerate(_ports(_spec(review.object))):
        if not port.get("nodePort") and _port_key(port) not in kept:
            return admission.Deny(
                services.PORT_NEEDED.format(index=index), event=constants.FORBIDDEN_NODE_PORT_EVENT
            )
    return admission.Allow()


def validate(review: admission.Review, known: evidence.Evidence) -> Decision:
    """Judge what a Service asks for anew."""
    policy = known.policy
    if policy is None:
        return admission.Allow()
    return judging.first(_judged(policy, review, known))


def _judged(
    policy: compiling.Policy, review: admission.Review, known: evidence.Evidence
) -> Iterator[engine.Judgement]:
    rules, who = policy.services, known.who
    spec, old = _spec(review.object), _spec(review.old)
    kind, was = spec.get("type") or services.CLUSTER_IP, old.get("type")
    if kind != was:
        for types in rules.types:
            yield types.check(kind, "spec.type", who)
    yield from _metadata(policy, review)
    before = set(old.get("externalIPs") or ())
    for index, address in enumerate(spec.get("externalIPs") or ()):
        for addresses in rules.external_ips if address not in before else ():
            yield addresses.check(address, f"spec.externalIPs[{index}]", who)
    name = spec.get("externalName") or ""
    if kind == services.EXTERNAL_NAME and (name, kind) != (old.get("externalName"), was):
        for names in rules.external_names:
            yield names.check(name, "spec.externalName", who)
    if kind == services.LOAD_BALANCER:
        yield from _load_balancer(rules.load_balancers, spec, old, known)
    known_ports = {port.get("nodePort") for port in _ports(old)}
    for index, port in enumerate(_ports(spec)):
        number = port.get("nodePort")
        if not number or number in known_ports:
            continue
        for ports in rules.node_ports:
            yield ports.check(number, f"spec.ports[{index}].nodePort", who)


def _load_balancer(
    rule_sets: Sequence[engine.RuleSet[str]],
    spec: Object,
    old: Object,
    known: evidence.Evidence,
) -> Iterator[engine.Judgement]:
    asked, before = _ranges(spec), _ranges(old)
    same = old.get("type") == services.LOAD_BALANCER
    if not asked and _constrained(rule_sets, known) and (before or not same):
        yield engine.Judgement(
            services.RANGES_NEEDED, event=constants.FORBIDDEN_LOAD_BALANCER_EVENT
        )
    for path, value in asked.items():
        if same and value in before.values():
            continue
        for rule_set in rule_sets:
            yield rule_set.check(value, path, known.who)


def _ranges(spec: Object) -> dict[str, str]:
    found = {
        f"spec.loadBalancerSourceRanges[{index}]": value
        for index, value in enumerate(spec.get("loadBalancerSourceRanges") or ())
    }
    address = spec.get("loadBalancerIP")
    return {"spec.loadBalancerIP": address, **found} if address else found


def _metadata(policy: compiling.Policy, review: admission.Review) -> Iterator[engine.Judgement]:
    for part, kind, failed, rule, event in (
        (keys.ANNOTATIONS, "annotation", ANNOTATIONS_FAILED, policy.forbidden_annotations,
         constants.FORBIDDEN_ANNOTATION_EVENT),
        (keys.LABELS, "label", LABELS_FAILED, policy.forbidden_labels,
         constants.FORBIDDEN_LABEL_EVENT),
    ):  # fmt: skip
        if rule is None:
            continue
        for key in keys.added(keys.of(review.old, part), keys.of(review.object, part)):
            if keys.is_forbidden(rule, key):
                yield engine.Judgement(
                    f"{failed}: {kind} {key} is forbidden for the current Tenant. "
                    f"{keys.words(rule)}",
                    event=event,
                )


def _constrained(rule_sets: Sequence[engine.RuleSet[V]], known: evidence.Evidence) -> bool:
    """Tell whether any clause could refuse something to the requester."""
    return any(
        clause.action != engine.AUDIT and clause.audience.includes(known.who)
        for rule_set in rule_sets
        for clause in rule_set.clauses
    )


def _spec(obj: Object | None) -> Object:
    spec: Object = (obj or {}).get("spec") or {}
    return spec


def _ports(spec: Object) -> Sequence[Object]:
    """Return the ports of a Service that get one on every node."""
    kind = spec.get("type")
    if kind != services.NODE_PORT and (
        kind != services.LOAD_BALANCER or spec.get("allocateLoadBalancerNodePorts") is False
    ):
        return ()
    ports: Sequence[Object] = spec.get("ports") or ()
    return ports


def _port_key(port: Object) -> tuple[object, object]:
    return port.get("protocol") or "TCP", port.get("port")


def _allocated(old: Object | None) -> set[tuple[object, object]]:
    return {_port_key(port) for port in _ports(_spec(old)) if port.get("nodePort")}


MUTATING = (admission.Step(name="services.ports", matches=is_service, decide=mutate),)
VALIDATING = (admission.Step(name="services.policy", matches=is_service, decide=validate),)
