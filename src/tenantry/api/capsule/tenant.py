"""Tenant: a set of namespaces with owners, policy and budgets."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from tenantry.api import meta, schema
from tenantry.api.capsule import common, constants, rules

ProxyKind: TypeAlias = Literal[
    "Nodes",
    "StorageClasses",
    "IngressClasses",
    "PriorityClasses",
    "RuntimeClasses",
    "PersistentVolumes",
]
ProxyOperation: TypeAlias = Literal["List", "Update", "Delete"]
CollisionScope: TypeAlias = Literal["Cluster", "Tenant", "Namespace", "Disabled"]
PullPolicy: TypeAlias = Literal["Always", "Never", "IfNotPresent"]
QuotaScope: TypeAlias = Literal["Tenant", "Namespace"]
State: TypeAlias = Literal["Active", "Cordoned", "Terminating"]
ServiceAddress: TypeAlias = Annotated[
    str, schema.facts(pattern=r"^([0-9]{1,3}.){3}[0-9]{1,3}(/([0-9]|[1-2][0-9]|3[0-2]))?$")
]


def owner_roles() -> list[str]:
    """Give the roles of an owner who asks for none in particular."""
    return list(constants.OWNER_ROLES)


class ProxySetting(common.Wire, kw_only=True):
    """What an owner may do through the gateway with one cluster-wide kind."""

    kind: ProxyKind
    """Kind of object the owner may reach, filtered to those that belong to the tenant."""
    operations: list[ProxyOperation]
    """Operations allowed on them: `List`, `Update`, `Delete`."""


class Owner(common.User, kw_only=True):
    """Someone who creates namespaces in the tenant and administers them."""

    cluster_roles: list[str] = msgspec.field(default_factory=owner_roles)
    """ClusterRoles bound to the owner in every namespace of the tenant.
    Default: `[admin, capsule-namespace-deleter]`."""
    proxy_settings: list[ProxySetting] = []
    """Cluster-wide objects that the owner may reach through the gateway. Default: none."""
    labels: dict[str, str] = {}
    """Labels for the owner's RoleBindings."""
    annotations: dict[str, str] = {}
    """Annotations for the owner's RoleBindings."""


class Permissions(common.Wire, kw_only=True):
    """Who else owns the tenant."""

    match_owners: list[common.Selector] = []
    """TenantOwners whose labels match one of these selectors own the tenant too."""
    allow_owner_promotion: bool = True
    """ServiceAccounts of the tenant may be made owners by the label
    `owner.projectcapsule.dev/promote: "true"`, if the configuration allows it. Default: true."""


class SelectedMetadata(common.Metadata, kw_only=True):
    """Labels and annotations for some namespaces."""

    namespace_selector: common.Selector | None = None
    """Namespaces that get them. Default: all of the tenant."""


class NamespaceOptions(common.Wire, kw_only=True):
    """How many namespaces there may be, and their labels and annotations."""

    quota: Annotated[int, schema.facts(format="int32", minimum=1)] | None = None
    """Most namespaces the tenant may have, at least 1, e.g. `3`. Default: no limit."""
    name_template: str | None = None
    """Tenantry's own. What names of new namespaces must be like, e.g. `{{tenant.name}}-*-dev`; `*`
    is any text. Default: any name."""
    managed_metadata_only: bool = False
    """Namespaces carry only the labels and annotations that the tenant sets; others are removed.
    Default: false."""
    additional_metadata: common.Metadata | None = None
    """Deprecated: use `rules`. Labels and annotations for every namespace, taken as they stand."""
    additional_metadata_list: list[SelectedMetadata] = []
    """Deprecated: use `rules`. Labels and annotations for the namespaces that match; in values
    `{{tenant.name}}` and `{{namespace}}` are replaced."""
    required_metadata: common.Metadata | None = None
    """Labels and annotations that namespaces must have: key, and a regular expression (RE2) that
    finds a match in the value, e.g. `cost-center: ^cc-[0-9]+$`."""
    forbidden_labels: common.Forbidden | None = None
    """Deprecated: use `rules`. Label keys that owners may not set on namespaces."""
    forbidden_annotations: common.Forbidden | None = None
    """Deprecated: use `rules`. Annotation keys that owners may not set on namespaces."""


class GatewayOptions(common.Wire, kw_only=True):
    """What Gateways may use."""

    allowed_classes: common.DefaultAllowedList | None = None
    """GatewayClasses that Gateways may name. Default: all."""


class IngressOptions(common.Wire, kw_only=True):
    """What Ingresses may use."""

    allowed_classes: common.DefaultAllowedList | None = None
    """IngressClasses that Ingresses may name. Default: all."""
    hostname_collision_scope: CollisionScope = "Disabled"
    """Within what a pair of host name and path may be used only once: `Cluster` (all tenants),
    `Tenant`, `Namespace`, or `Disabled` for no check. Default: `Disabled`."""
    allowed_hostnames: common.AllowedList | None = None
    """Host names that Ingresses may use. Default: all."""
    allow_wildcard_hostnames: bool | None = None
    """Ingresses may use host names such as `*.example.com`. Default: false."""


class LegacyQuotas(common.Wire, kw_only=True):
    """ResourceQuotas for namespaces."""

    scope: QuotaScope = "Tenant"
    """`Tenant`: the namespaces share each budget; `Namespace`: each namespace gets it whole.
    Default: `Tenant`."""
    items: list[common.ResourceQuotaSpec] = []
    """Budgets, each as the spec of a ResourceQuota, e.g. `hard: {limits.cpu: 8}`."""


class LimitRanges(common.Wire, kw_only=True):
    """LimitRanges for namespaces."""

    items: list[common.LimitRangeSpec] = []
    """Each item is the spec of a LimitRange that every namespace gets."""


class NetworkPolicies(common.Wire, kw_only=True):
    """NetworkPolicies for namespaces."""

    items: list[common.NetworkPolicySpec] = []
    """Each item is the spec of a NetworkPolicy that every namespace gets."""


class PodOptions(common.Wire, kw_only=True):
    """What pods carry."""

    additional_metadata: common.Metadata | None = None
    """Labels and annotations for every pod of the tenant."""


class AllowedServices(common.Wire, kw_only=True):
    """Service types that may be used."""

    node_port: bool = True
    """Services of type NodePort are allowed. Default: true."""
    external_name: bool = True
    """Services of type ExternalName are allowed. Default: true."""
    load_balancer: bool = True
    """Services of type LoadBalancer are allowed. Default: true."""


class ExternalIPs(common.Wire, kw_only=True):
    """External addresses that Services may claim."""

    allowed: list[ServiceAddress]
    """IPv4 addresses and networks, e.g. `10.0.0.0/24`; an empty list allows none."""


class ServiceOptions(common.Wire, kw_only=True):
    """What Services may be and carry."""

    additional_metadata: common.Metadata | None = None
    """Labels and annotations for every Service of the tenant."""
    allowed_services: AllowedServices | None = None
    """Service types that may be used. Default: all."""
    external_ips: ExternalIPs | None = msgspec.field(name="externalIPs", default=None)
    """External addresses that Services may claim. Default: any."""
    forbidden_labels: common.Forbidden | None = None
    """Label keys that Services may not have."""
    forbidden_annotations: common.Forbidden | None = None
    """Annotation keys that Services may not have."""


class TenantSpec(common.Wire, kw_only=True):
    """What the tenant shall be."""

    owners: list[Owner] = []
    """Who creates namespaces in this tenant and administers them, e.g. `{kind: User, name: alice}`.
    An owner must also be a user of the platform (see CapsuleConfiguration `users`)."""
    permissions: Permissions = msgspec.field(default_factory=Permissions)
    """Owners that are kept as objects of their own, and promotion of ServiceAccounts to owners."""
    namespace_options: NamespaceOptions | None = None
    """How many namespaces there may be, and their labels and annotations."""
    storage_classes: common.DefaultAllowedList | None = None
    """StorageClasses that PersistentVolumeClaims may name, and the one for those that name none.
    Default: all."""
    runtime_classes: common.DefaultAllowedList | None = None
    """RuntimeClasses that pods may name, and the one for those that name none. Default: all."""
    priority_classes: common.DefaultAllowedList | None = None
    """PriorityClasses that pods may name, and the one for those that name none. Default: all."""
    device_classes: common.SelectorAllowedList | None = None
    """DeviceClasses (dynamic resource allocation) that claims may name. Default: all."""
    gateway_options: GatewayOptions | None = None
    """What Gateways may use."""
    ingress_options: IngressOptions | None = None
    """What Ingresses may use."""
    node_selector: dict[str, str] = {}
    """Labels of the nodes that the tenant's pods run on, e.g. `node-pool: team-a`. Written to
    namespaces as the annotation that the admission plugin PodNodeSelector reads."""
    additional_role_bindings: list[common.RoleBinding] = []
    """Roles for others than the owners, bound in every namespace of the tenant."""
    rules: list[rules.Rule] = []
    """Policy for some or all namespaces of the tenant. Blocks are read in order; for each value
    the last block that matches decides."""
    data: schema.Anything = None
    """Free data of any shape; templates see it as `.tenant.spec.data`."""
    cordoned: bool = False
    """Freeze the tenant: its users may not create, change or delete anything. Default: false."""
    prevent_deletion: bool = False
    """Refuse to delete this Tenant. Default: false."""
    force_tenant_prefix: bool | None = None
    """Namespaces must be called `<tenant>-...`. Default: what the CapsuleConfiguration says."""
    resource_quotas: LegacyQuotas | None = None
    """Deprecated: use `rules[].quota`. ResourceQuotas for the tenant or for each namespace."""
    limit_ranges: LimitRanges | None = None
    """Deprecated: replicate a LimitRange instead. LimitRanges for each namespace."""
    network_policies: NetworkPolicies | None = None
    """Deprecated: replicate a NetworkPolicy instead. NetworkPolicies for each namespace."""
    container_registries: common.AllowedList | None = None
    """Deprecated: use `rules[].enforce.workloads.registries`. Image registries that pods may use.
    Default: all."""
    image_pull_policies: list[PullPolicy] = []
    """Deprecated: use `rules[].enforce.workloads.registries[].policy`. Pull policies that
    containers may use. Default: all."""
    pod_options: PodOptions | None = None
    """Deprecated: use `rules[].enforce.metadata`. What pods carry."""
    service_options: ServiceOptions | None = None
    """Deprecated: use `rules[].enforce.services`. What Services may be and carry."""


class LegacyRegistries(common.Wire, kw_only=True):
    """What Capsule 0.13 recorded about a namespace."""

    registry: list[schema.Anything] = []
    """Registry rules in force; written by Capsule 0.13 only."""


class Space(common.Wire, kw_only=True):
    """State of one namespace of the tenant."""

    name: str
    """Name of the namespace."""
    uid: str = ""
    """UID of the namespace."""
    conditions: common.Conditions = []
    """State of the namespace, by aspect."""
    metadata: common.Metadata | None = None
    """Labels and annotations that the tenant last put on the namespace."""
    enforce: LegacyRegistries | None = None
    """Written by Capsule 0.13 only."""


class OwnerStatus(common.User, kw_only=True):
    """An owner in force."""

    cluster_roles: list[str] = []
    """ClusterRoles bound to the owner."""


class PromotionStatus(common.User, kw_only=True):
    """A promoted ServiceAccount."""

    cluster_roles: list[str] = []
    """ClusterRoles bound to it."""
    targets: list[str] = []
    """Namespaces in which they are bound."""


class Classes(common.Wire, kw_only=True):
    """Class names that the tenant may use, sorted."""

    storage: list[str] = []
    """StorageClasses."""
    priority: list[str] = []
    """PriorityClasses."""
    runtime: list[str] = []
    """RuntimeClasses."""
    gateway: list[str] = []
    """GatewayClasses."""
    device: list[str] = []
    """DeviceClasses."""


class TenantStatus(common.Wire, kw_only=True):
    """What the tenant is."""

    state: State = "Active"
    """`Active`, `Cordoned` or `Terminating`."""
    size: Annotated[int, schema.facts(minimum=0, default=0)] = 0
    """How many namespaces the tenant has."""
    namespaces: list[str] = []
    """Names of the tenant's namespaces, sorted."""
    spaces: Annotated[list[Space], schema.map_by("name")] = []
    """State of each namespace."""
    owners: list[OwnerStatus] = []
    """Everybody who owns the tenant: from the spec, TenantOwners, administrators and promoted
    ServiceAccounts."""
    promotions: list[PromotionStatus] = []
    """ServiceAccounts with roles from `rules[].permissions.promotions`."""
    classes: Classes | None = None
    """Class names that the tenant may use."""
    conditions: common.Conditions = []
    """State of the tenant, by aspect: `Ready`, `Cordoned`, `Enforced`."""
    observed_generation: Annotated[int, schema.INT64] = 0
    """Generation of the spec that this status is about."""


class Tenant(common.Wire, kw_only=True):
    """A set of namespaces with owners, policy and budgets of its own."""

    metadata: meta.ObjectMeta
    spec: TenantSpec = msgspec.field(default_factory=TenantSpec)
    """What the tenant shall be; nothing is required."""
    status: TenantStatus = msgspec.field(default_factory=TenantStatus)
    """What the tenant is; written by the controller."""
