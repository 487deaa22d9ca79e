"""What the metrics say of tenants, rules and configuration (specs/capsule 6.2).

Read from the caches whenever somebody asks for the metrics, so that they cost nothing in between,
cannot differ from the objects, and end with them. Every controller replica reports the same, the
leader or not: alert rules take the maximum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from tenantry.api import meta
from tenantry.api.capsule import common, configuration, tenant, tenant_owner
from tenantry.api.capsule import resources as capsule
from tenantry.runtime import cluster, metrics, views
from tenantry.tenancy import state

#: A label's values, in the order of its names, and the number.
Samples = Iterator[tuple[metrics.Labels, float]]

NAMESPACES = "namespaces"


class _Status(common.Wire):
    conditions: common.Conditions | None = None


class _RuleStatus(common.Wire, kw_only=True):
    """As much of a RuleStatus as is counted: its rules may be large."""

    metadata: meta.ObjectMeta
    status: _Status | None = None


_RULES = msgspec.json.Decoder(_RuleStatus, strict=False)


def _holding(labels: metrics.Labels, conditions: Iterable[meta.Condition]) -> Samples:
    """Give 1 for each condition that is true, 0 for one that is false or unknown."""
    for condition in conditions:
        yield (*labels, condition.type), float(condition.status == "True")


def relationships(found: Iterable[tenant.Tenant]) -> Samples:
    """Give 1 for each namespace of a tenant."""
    for each in found:
        for space in each.status.spaces:
            yield (each.metadata.name, space.name), 1.0


def namespace_conditions(found: Iterable[tenant.Tenant]) -> Samples:
    """Give the conditions of tenants' namespaces."""
    for each in found:
        for space in each.status.spaces:
            yield from _holding((each.metadata.name, space.name), space.conditions or ())


def tenant_conditions(found: Iterable[tenant.Tenant]) -> Samples:
    """Give the conditions of tenants."""
    for each in found:
        yield from _holding((each.metadata.name,), each.status.conditions or ())


def namespace_counts(found: Iterable[tenant.Tenant]) -> Samples:
    """Give how many namespaces a tenant has."""
    for each in found:
        yield (each.metadata.name,), float(each.status.size)


def usages(found: Iterable[tenant.Tenant]) -> Samples:
    """Give what is used of what is limited."""
    for each in found:
        if _limit(each) is not None:
            yield (each.metadata.name, NAMESPACES, ""), float(each.status.size)


def limits(found: Iterable[tenant.Tenant]) -> Samples:
    """Give the limits of tenants."""
    for each in found:
        limit = _limit(each)
        if limit is not None:
            yield (each.metadata.name, NAMESPACES, ""), float(limit)


def _limit(found: tenant.Tenant) -> int | None:
    options = found.spec.namespace_options
    return options.quota if options is not None else None


def configuration_conditions(
    found: Iterable[configuration.CapsuleConfiguration],
) -> Samples:
    """Give the conditions of the configuration."""
    for each in found:
        yield from _holding((each.metadata.name,), each.status.conditions or ())


def owner_conditions(found: Iterable[tenant_owner.TenantOwner]) -> Samples:
    """Give the conditions of TenantOwners."""
    for each in found:
        yield from _holding((each.metadata.name,), each.status.conditions or ())


def rule_conditions(found: Iterable[bytes]) -> Samples:
    """Give the conditions of RuleStatuses."""
    for raw in found:
        each = _RULES.decode(raw)
        labels = (each.metadata.name, each.metadata.namespace)
        yield from _holding(labels, (each.status and each.status.conditions) or ())


def register(source: cluster.Cluster, known: state.State) -> None:
    """Let the metrics of a process say all this."""
    kept = source.informer(
        capsule.RULE_STATUSES, views.as_bytes, label_selector=state.MANAGED_SELECTOR
    )
    tenants = known.directory.tenants
    for name, about, labels, read in (
        (
            "capsule_tenant_namespace_relationship",
            "1 for each namespace of a tenant.",
            ("tenant", "target_namespace"),
            lambda: relationships(tenants()),
        ),
        (
            "capsule_tenant_namespace_condition",
            "Whether a condition of a tenant's namespace is true.",
            ("tenant", "target_namespace", "condition"),
            lambda: namespace_conditions(tenants()),
        ),
        (
            "capsule_tenant_condition",
            "Whether a condition of a tenant is true.",
            ("tenant", "condition"),
            lambda: tenant_conditions(tenants()),
        ),
        (
            "capsule_tenant_namespace_count",
            "Namespaces of a tenant.",
            ("tenant",),
            lambda: namespace_counts(tenants()),
        ),
        (
            "capsule_tenant_resource_usage",
            "What a tenant uses of what is limited.",
            ("tenant", "resource", "resourcequotaindex"),
            lambda: usages(tenants()),
        ),
        (
            "capsule_tenant_resource_limit",
            "Limits of a tenant.",
            ("tenant", "resource", "resourcequotaindex"),
            lambda: limits(tenants()),
        ),
        (
            "capsule_config_condition",
            "Whether a condition of the configuration is true.",
            ("name", "condition"),
            lambda: configuration_conditions(known.configurations.list()),
        ),
        (
            "capsule_tenantowner_condition",
            "Whether a condition of a TenantOwner is true.",
            ("name", "condition"),
            lambda: owner_conditions(known.tenant_owners.list()),
        ),
        (
            "capsule_rulestatus_condition",
            "Whether a condition of a RuleStatus is true.",
            ("name", "target_namespace", "condition"),
            lambda: rule_conditions(kept.list()),
        ),
    ):
        source.metrics.register(metrics.Observed(name, about, labels, read=read))
