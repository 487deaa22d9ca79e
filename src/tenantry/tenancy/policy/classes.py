"""Classes that objects may name, and the ones they get when they name none (specs/capsule 5.6).

One shape for storage, runtime, priority, ingress, gateway and device classes: names that are
listed, matched, selected by the labels of the class, or the default. A list without a selector
admits what it lists, nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from tenantry.api import meta
from tenantry.api.capsule import common, constants, tenant
from tenantry.core import errors
from tenantry.tenancy.policy import blocks, engine, matching

STORAGE = "storage"
PRIORITY = "priority"
RUNTIME = "runtime"
INGRESS = "ingress"
GATEWAY = "gateway"
DEVICE = "device"

#: Annotations by which a cluster names its default of a kind.
DEFAULT_ANNOTATIONS = {
    STORAGE: "storageclass.kubernetes.io/is-default-class",
    INGRESS: "ingressclass.kubernetes.io/is-default-class",
}

_WORDS = {
    STORAGE: "Storage Class {name} is forbidden for the current Tenant",
    PRIORITY: "Pod Priority Class {name} is forbidden for the current Tenant",
    RUNTIME: "Pod Runtime Class {name} is forbidden for the current Tenant",
    INGRESS: "Ingress Class {name} is forbidden for the current Tenant",
    GATEWAY: "Gateway Class {name} is forbidden for the current Tenant",
    DEVICE: "Device Class {name} is forbidden for the current Tenant",
}
_MISSING = {
    STORAGE: "A Storage Class must be specified for the current Tenant",
    INGRESS: "An Ingress Class must be specified for the current Tenant",
    GATEWAY: "A Gateway Class must be specified for the current Tenant",
    DEVICE: "A Device Class must be specified for the current Tenant",
}
_EVENTS = {
    STORAGE: constants.FORBIDDEN_STORAGE_EVENT,
    PRIORITY: constants.FORBIDDEN_PRIORITY_EVENT,
    RUNTIME: constants.FORBIDDEN_RUNTIME_EVENT,
    INGRESS: constants.FORBIDDEN_INGRESS_CLASS_EVENT,
    GATEWAY: constants.FORBIDDEN_GATEWAY_CLASS_EVENT,
    DEVICE: constants.FORBIDDEN_DEVICE_CLASS_EVENT,
}
_FIELDS = {
    STORAGE: "spec.storageClasses",
    PRIORITY: "spec.priorityClasses",
    RUNTIME: "spec.runtimeClasses",
    INGRESS: "spec.ingressOptions.allowedClasses",
    GATEWAY: "spec.gatewayOptions.allowedClasses",
    DEVICE: "spec.deviceClasses",
}


class View(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What is kept of a class of any kind."""

    name: str
    labels: dict[str, str]
    #: Whether the cluster gives it to who names none.
    default: bool = False
    #: Of a PriorityClass.
    value: int = 0
    preemption_policy: str | None = None


class _Wire(msgspec.Struct, rename="camel", gc=False):
    metadata: meta.ObjectMeta
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


_WIRE = msgspec.json.Decoder(_Wire, strict=False)


def view(raw: bytes) -> View:
    """Project one class; the annotations of the kinds that have some do not clash."""
    found = _WIRE.decode(raw)
    annotations = found.metadata.annotations
    return View(
        name=found.metadata.name,
        labels=found.metadata.labels,
        default=found.global_default
        or any(annotations.get(key) == "true" for key in DEFAULT_ANNOTATIONS.values()),
        value=found.value,
        preemption_policy=found.preemption_policy,
    )


@dataclass(frozen=True, slots=True)
class Use:
    """A class as an object names it.

    :param view: None when no class of that name exists
    """

    name: str
    view: View | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassRule:
    """What a tenant says about one kind of class.

    :param selects: whether labels are compared, so that the class itself must be known
    :param allowed: None when nothing is limited
    """

    kind: str
    default: str = ""
    selects: bool = False
    allowed: engine.RuleSet[Use] | None = None
    words: str = ""

    @property
    def missing(self) -> str:
        """Say that a class must be named."""
        return f"{_MISSING[self.kind]}: {self.words}"


def fields(spec: tenant.TenantSpec) -> dict[str, common.SelectorAllowedList | None]:
    """Return what a Tenant says of each kind of class."""
    gateways, ingresses = spec.gateway_options, spec.ingress_options
    return {
        STORAGE: spec.storage_classes,
        PRIORITY: spec.priority_classes,
        RUNTIME: spec.runtime_classes,
        DEVICE: spec.device_classes,
        GATEWAY: gateways.allowed_classes if gateways is not None else None,
        INGRESS: ingresses.allowed_classes if ingresses is not None else None,
    }


def compiled(kind: str, found: common.SelectorAllowedList | None) -> ClassRule:
    """Compile one field; one that lists, matches and selects nothing limits nothing."""
    if found is None:
        return ClassRule(kind=kind)
    field, default = _FIELDS[kind], ""
    if isinstance(found, common.DefaultAllowedList):
        default = found.default
    try:
        listed = matching.names(found, field)
    except errors.InvalidValueError as problem:
        clause = blocks.legacy(_nothing, "", field, broken=str(problem))
        rule_set = engine.RuleSet(name=field, clauses=(clause,))
        return ClassRule(kind=kind, default=default, allowed=rule_set)
    if not listed.limits:
        return ClassRule(kind=kind, default=default)
    return ClassRule(
        kind=kind,
        default=default,
        selects=listed.selector is not None,
        allowed=engine.RuleSet(
            name=field,
            event=_EVENTS[kind],
            clauses=(blocks.legacy(_matcher(listed), listed.words, field),),
            word=lambda use: f"{_WORDS[kind].format(name=use.name)}: {listed.words}",
        ),
        words=listed.words,
    )


def _nothing(_: Use) -> bool:
    return False


def _matcher(listed: matching.Names) -> Callable[[Use], bool]:
    return lambda use: listed.matches(use.name, use.view.labels if use.view else None)


def usable(rule: ClassRule, views: Mapping[str, View], who: engine.Who) -> list[str]:
    """Return the names of the existing classes that a tenant may use, sorted."""
    if rule.allowed is None:
        return sorted(views)
    check = rule.allowed.check
    return sorted(
        name for name, found in views.items() if not check(Use(name, found), "", who).refusal
    )


def of_kind(rules: Mapping[str, ClassRule], kind: str) -> ClassRule:
    """Return the rule for a kind, which limits nothing when the tenant says nothing."""
    return rules.get(kind) or ClassRule(kind=kind)


def all_rules(spec: tenant.TenantSpec) -> dict[str, ClassRule]:
    """Compile every field about classes that a Tenant sets."""
    return {kind: compiled(kind, found) for kind, found in fields(spec).items() if found}
