"""Tenant as v1beta1 says it; `tenant_conversion` turns it into the version that is stored."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

import msgspec

from tenantry.api import meta, schema
from tenantry.api.capsule import common, tenant

ProxyKind: TypeAlias = Literal["Nodes", "StorageClasses", "IngressClasses", "PriorityClasses"]


class ProxySetting(common.Wire, kw_only=True):
    """What an owner may do through the gateway with one cluster-wide kind."""

    kind: ProxyKind
    """Kind of object the owner may reach, filtered to those that belong to the tenant."""
    operations: list[tenant.ProxyOperation]
    """Operations allowed on them: `List`, `Update`, `Delete`."""


class Owner(common.User, kw_only=True):
    """Someone who creates namespaces in the tenant and administers them."""

    proxy_settings: list[ProxySetting] = []
    """Cluster-wide objects that the owner may reach through the gateway. Default: none."""


class NamespaceOptions(common.Wire, kw_only=True):
    """How many namespaces there may be, and their labels and annotations."""

    quota: Annotated[int, schema.facts(format="int32", minimum=1)] | None = None
    """Most namespaces the tenant may have, at least 1, e.g. `3`. Default: no limit."""
    additional_metadata: common.Metadata | None = None
    """Labels and annotations for every namespace."""


class IngressOptions(common.Wire, kw_only=True):
    """What Ingresses may use."""

    allowed_classes: common.AllowedList | None = None
    """IngressClasses that Ingresses may name. Default: all."""
    hostname_collision_scope: tenant.CollisionScope = "Disabled"
    """Within what a pair of host name and path may be used only once: `Cluster` (all tenants),
    `Tenant`, `Namespace`, or `Disabled` for no check. Default: `Disabled`."""
    allowed_hostnames: common.AllowedList | None = None
    """Host names that Ingresses may use. Default: all."""


class ServiceOptions(common.Wire, kw_only=True):
    """What Services may be and carry."""

    additional_metadata: common.Metadata | None = None
    """Labels and annotations for every Service of the tenant."""
    allowed_services: tenant.AllowedServices | None = None
    """Service types that may be used. Default: all."""
    external_ips: tenant.ExternalIPs | None = msgspec.field(name="externalIPs", default=None)
    """External addresses that Services may claim. Default: any."""


class TenantSpec(common.Wire, kw_only=True):
    """What the tenant shall be."""

    owners: list[Owner] = []
    """Who creates namespaces in this tenant and administers them, e.g. `{kind: User, name: alice}`.
    An owner must also be a user of the platform (see CapsuleConfiguration `users`)."""
    namespace_options: NamespaceOptions | None = None
    """How many namespaces there may be, and their labels and annotations."""
    service_options: ServiceOptions | None = None
    """What Services may be and carry."""
    storage_classes: common.AllowedList | None = None
    """StorageClasses that PersistentVolumeClaims may name. Default: all."""
    ingress_options: IngressOptions | None = None
    """What Ingresses may use."""
    container_registries: common.AllowedList | None = None
    """Image registries that pods may use. Default: all."""
    node_selector: dict[str, str] = {}
    """Labels of the nodes that the tenant's pods run on, e.g. `node-pool: team-a`."""
    network_policies: tenant.NetworkPolicies | None = None
    """NetworkPolicies for each namespace."""
    limit_ranges: tenant.LimitRanges | None = None
    """LimitRanges for each namespace."""
    resource_quotas: tenant.LegacyQuotas | None = None
    """ResourceQuotas for the tenant or for each namespace."""
    additional_role_bindings: list[common.RoleBinding] = []
    """Roles for others than the owners, bound in every namespace of the tenant."""
    image_pull_policies: list[tenant.PullPolicy] = []
    """Pull policies that containers may use. Default: all."""
    priority_classes: common.AllowedList | None = None
    """PriorityClasses that pods may name. Default: all."""


class TenantStatus(common.Wire, kw_only=True):
    """What the tenant is; it holds all that v1beta2 says, too."""

    # A write in this version must not lose what it does not know.
    SCHEMA: ClassVar[tuple[schema.Facts, ...]] = (
        schema.facts(**{"x-kubernetes-preserve-unknown-fields": True}),
    )

    state: tenant.State = "Active"
    """`Active`, `Cordoned` or `Terminating`."""
    size: Annotated[int, schema.facts(minimum=0, default=0)] = 0
    """How many namespaces the tenant has."""
    namespaces: list[str] = []
    """Names of the tenant's namespaces, sorted."""


class Tenant(common.Wire, kw_only=True):
    """A set of namespaces with owners, policy and budgets of its own.

    Superseded by v1beta2, which is what is stored; its other fields are kept in an annotation.
    """

    metadata: meta.ObjectMeta
    spec: TenantSpec = msgspec.field(default_factory=TenantSpec)
    """What the tenant shall be; nothing is required."""
    status: TenantStatus = msgspec.field(default_factory=TenantStatus)
    """What the tenant is; written by the controller."""
