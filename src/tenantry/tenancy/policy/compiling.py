"""From a Tenant and one of its namespaces to the policy that holds there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tenantry.api.capsule import common, rules, tenant
from tenantry.core import errors, selectors
from tenantry.directory import state as directory
from tenantry.tenancy.policy import blocks, classes, engine, hostnames, matching, pods, services

#: Policies kept of one tenant: one for each set of rules that selects some namespace.
_MOST_SHARED = 256

#: Makes what fills the templates of a tenant's rules in one of its namespaces.
Templates = Callable[[tenant.Tenant, directory.NamespaceView], matching.Render]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What holds in one namespace of a tenant."""

    tenant: str
    classes: Mapping[str, classes.ClassRule]
    images: tuple[engine.RuleSet[pods.ImageUse], ...] = ()
    schedulers: tuple[engine.RuleSet[str], ...] = ()
    qos_classes: tuple[engine.RuleSet[str], ...] = ()
    services: services.ServiceRules = field(default_factory=services.ServiceRules)
    ingresses: hostnames.HostRules = field(default_factory=hostnames.HostRules)
    forbidden_labels: common.Forbidden | None = None
    forbidden_annotations: common.Forbidden | None = None


def compiled(owner: tenant.Tenant, selected: Sequence[blocks.Block]) -> Policy:
    """Compile what a tenant says, of its rules those that select the namespace."""
    spec = owner.spec
    return Policy(
        tenant=owner.metadata.name,
        classes=classes.all_rules(spec),
        images=pods.image_sets(spec, selected),
        schedulers=pods.scheduler_sets(selected),
        qos_classes=pods.qos_sets(selected),
        services=services.compiled(spec, selected),
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


class Book:
    """The policies of all namespaces, compiled when a Tenant or a namespace changes."""

    def __init__(self, templates: Templates | None = None) -> None:
        self._templates = templates
        self._of: dict[str, tuple[object, Policy]] = {}
        self._shared: dict[str, tuple[object, dict[tuple[int, ...], Policy]]] = {}

    def of(self, owner: tenant.Tenant, view: directory.NamespaceView) -> Policy:
        """Return the policy of a tenant's namespace."""
        identity = (owner.metadata.uid, owner.metadata.generation, view.labels)
        known = self._of.get(view.name)
        if known is not None and known[0] == identity:
            return known[1]
        policy = self._compiled(owner, view)
        self._of[view.name] = (identity, policy)
        return policy

    def _compiled(self, owner: tenant.Tenant, view: directory.NamespaceView) -> Policy:
        found = list(selecting(owner, view.labels))
        stamp = (owner.metadata.uid, owner.metadata.generation)
        held, shared = self._shared.get(owner.metadata.name, (None, {}))
        if held != stamp or len(shared) >= _MOST_SHARED:
            shared = {}
            self._shared[owner.metadata.name] = (stamp, shared)
        numbers = tuple(index for index, _ in found)
        policy = shared.get(numbers)
        if policy is None:
            selected = [block(index, rule, matching.as_written) for index, rule in found]
            policy = shared[numbers] = compiled(owner, selected)
        return policy

    def namespace_gone(self, name: str) -> None:
        """Forget a namespace."""
        self._of.pop(name, None)

    def tenant_gone(self, name: str) -> None:
        """Forget a tenant."""
        self._shared.pop(name, None)
