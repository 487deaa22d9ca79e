"""From a Tenant and one of its namespaces to the policy that holds there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from tenantry.api.capsule import common, rules, tenant
from tenantry.core import errors, selectors
from tenantry.directory import state as directory
from tenantry.tenancy.policy import (
    amounts,
    blocks,
    classes,
    engine,
    hostnames,
    keys,
    labelling,
    matching,
    placement,
    pods,
    services,
    templating,
)

#: Policies kept of one tenant: one for each set of rules that selects some namespace.
_MOST_SHARED = 256


NAMESPACE = "Namespace"
#: Kinds that are asked about anyway.
_USUAL = frozenset({NAMESPACE, "Pod", "PersistentVolumeClaim", "Service"})

#: Kinds that get what is said of Services.
_OF_SERVICES = (("", "Service"), ("", "Endpoints"), ("discovery.k8s.io", "EndpointSlice"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What holds in one namespace of a tenant."""

    tenant: str
    classes: Mapping[str, classes.ClassRule]
    images: tuple[engine.RuleSet[pods.ImageUse], ...] = ()
    schedulers: tuple[engine.RuleSet[str], ...] = ()
    qos_classes: tuple[engine.RuleSet[str], ...] = ()
    tolerations: tuple[engine.RuleSet[placement.Toleration], ...] = ()
    node_selectors: tuple[engine.RuleSet[placement.Bounds], ...] = ()
    amounts: tuple[amounts.Entry, ...] = ()
    services: services.ServiceRules = field(default_factory=services.ServiceRules)
    ingresses: hostnames.HostRules = field(default_factory=hostnames.HostRules)
    forbidden_labels: common.Forbidden | None = None
    forbidden_annotations: common.Forbidden | None = None
    metadata: labelling.MetadataRules = field(default_factory=labelling.MetadataRules)
    pod_metadata: common.Metadata | None = None
    service_metadata: common.Metadata | None = None

    def added_to(self, group: str, kind: str) -> dict[str, Mapping[str, str]]:
        """Return the labels and annotations that the deprecated fields add to a kind."""
        found = None
        if (group, kind) == ("", "Pod"):
            found = self.pod_metadata
        elif (group, kind) in _OF_SERVICES:
            found = self.service_metadata
        if found is None:
            return {}
        return {keys.LABELS: found.labels, keys.ANNOTATIONS: found.annotations}


def compiled(owner: tenant.Tenant, selected: Sequence[blocks.Block]) -> Policy:
    """Compile what a tenant says, of its rules those that select the namespace."""
    spec = owner.spec
    return Policy(
        tenant=owner.metadata.name,
        classes=classes.all_rules(spec),
        images=pods.image_sets(spec, selected),
        schedulers=pods.scheduler_sets(selected),
        qos_classes=pods.qos_sets(selected),
        tolerations=placement.toleration_sets(selected),
        node_selectors=placement.node_selector_sets(selected),
        amounts=amounts.compiled(selected),
        services=services.compiled(spec, selected),
        metadata=labelling.compiled(selected),
        pod_metadata=spec.pod_options.additional_metadata if spec.pod_options else None,
        service_metadata=spec.service_options.additional_metadata if spec.service_options else None,
        ingresses=hostnames.compiled(owner, selected),
        forbidden_labels=spec.service_options.forbidden_labels if spec.service_options else None,
        forbidden_annotations=(
            spec.service_options.forbidden_annotations if spec.service_options else None
        ),
    )


def selecting(owner: tenant.Tenant, labels: Mapping[str, str]) -> Iterator[tuple[int, rules.Rule]]:
    """Yield the rules that enforce something in a namespace, with their numbers.

    A selector that cannot be read is taken to select: what it was to deny stays denied.
    """
    for index, rule in enumerate(owner.spec.rules):
        if rule.enforce is None:
            continue
        selector = rule.namespace_selector
        if selector is not None:
            try:
                if not selectors.matcher(selector.plain())(labels):
                    continue
            except errors.InvalidValueError:
                pass
        yield index, rule


def block(index: int, rule: rules.Rule, render: matching.Render) -> blocks.Block:
    """Prepare one rule; an audience that cannot be read is everybody."""
    try:
        audience = blocks.audience(rule.audience, render)
    except errors.TenantryError:
        audience = engine.EVERYBODY
    return blocks.Block(
        enforce=rule.enforce or rules.Enforce(),
        source=f"spec.rules[{index}]",
        audience=audience,
        render=render,
    )


def is_about_everything(owner: tenant.Tenant) -> bool:
    """Tell whether a tenant says something about the metadata of kinds that are rarely judged."""
    options = owner.spec.service_options
    if options is not None and options.additional_metadata is not None:
        return True  # Endpoints carry what Services do.
    return any(
        not _USUAL.issuperset(entry.kinds)
        for rule in owner.spec.rules
        if rule.enforce is not None
        for entry in rule.enforce.metadata
    )


def of_namespace(
    owner: tenant.Tenant, name: str, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> labelling.MetadataRules:
    """Return what a tenant's rules say about the metadata of one of its namespaces itself."""
    if not any(
        NAMESPACE in entry.kinds
        for rule in owner.spec.rules
        if rule.enforce is not None
        for entry in rule.enforce.metadata
    ):
        return labelling.MetadataRules()
    found: dict[str, object] = {"labels": dict(labels), "annotations": dict(annotations)}
    if name:
        found["name"] = name  # It has none yet while the API server is to generate it.
    view = directory.NamespaceView(
        name=name, uid="", resource_version="", labels=dict(labels), annotations=dict(annotations),
        tenant=owner.metadata.name, tenant_uid=owner.metadata.uid, terminating=False,
        raw=msgspec.json.encode({"apiVersion": "v1", "kind": NAMESPACE, "metadata": found}),
    )  # fmt: skip
    render = templating.renderer(owner, view)
    selected = [block(index, rule, render) for index, rule in selecting(owner, labels)]
    return labelling.compiled(selected)


@dataclass(frozen=True, slots=True)
class _OfTenant:
    """Policies of one generation of a Tenant, by the rules that select; none of templates."""

    stamp: tuple[str, int]
    templated: frozenset[int]
    shared: dict[tuple[int, ...], Policy]

    def policy(self, owner: tenant.Tenant, view: directory.NamespaceView) -> Policy:
        found = list(selecting(owner, view.labels))
        numbers = tuple(index for index, _ in found)
        if not self.templated.isdisjoint(numbers):
            render = templating.renderer(owner, view)
            return compiled(owner, [block(index, rule, render) for index, rule in found])
        if len(self.shared) >= _MOST_SHARED:
            self.shared.clear()
        if numbers not in self.shared:
            selected = [block(index, rule, matching.as_written) for index, rule in found]
            self.shared[numbers] = compiled(owner, selected)
        return self.shared[numbers]


class Book:
    """The policies of all namespaces, compiled when a Tenant or a namespace changes."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[object, Policy]] = {}
        self._tenants: dict[str, _OfTenant] = {}

    def of(self, owner: tenant.Tenant, view: directory.NamespaceView) -> Policy:
        """Return the policy of a tenant's namespace."""
        shared = self._of_tenant(owner)
        identity: tuple[object, ...] = (shared.stamp, view.labels)
        if shared.templated:
            identity += (owner.metadata.resource_version, view.resource_version)
        known = self._of.get(view.name)
        if known is not None and known[0] == identity:
            return known[1]
        policy = shared.policy(owner, view)
        self._of[view.name] = (identity, policy)
        return policy

    def _of_tenant(self, owner: tenant.Tenant) -> _OfTenant:
        stamp = (owner.metadata.uid, owner.metadata.generation)
        found = self._tenants.get(owner.metadata.name)
        if found is None or found.stamp != stamp:
            templated = frozenset(
                index
                for index, rule in enumerate(owner.spec.rules)
                if templating.is_templated(rule)
            )
            found = self._tenants[owner.metadata.name] = _OfTenant(stamp, templated, {})
        return found

    def namespace_gone(self, name: str) -> None:
        """Forget a namespace."""
        self._of.pop(name, None)

    def tenant_gone(self, name: str) -> None:
        """Forget a tenant."""
        self._tenants.pop(name, None)
