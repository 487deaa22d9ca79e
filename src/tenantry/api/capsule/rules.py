"""Rules of a Tenant: who may put what into which of its namespaces.

A rule is a block; blocks keep their order and for each value the last block that matches wins.
Strings may be Go templates over `.tenant` and `.namespace`, which is why few of them are enums.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

import msgspec

from tenantry.api import schema
from tenantry.api.capsule import common

AudienceKind: TypeAlias = Literal["User", "Group", "ServiceAccount", "Custom"]
Action: TypeAlias = Literal["allow", "deny", "audit"]
Target: TypeAlias = Literal[
    "pod", "pod/initcontainers", "pod/ephemeralcontainers", "pod/containers", "pod/volumes"
]
ServiceType: TypeAlias = Literal["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]
IngressType: TypeAlias = Literal[
    "Ingress", "Route", "ListenerSet", "HTTPRoute", "Gateway", "TLSRoute", "GRPCRoute"
]
RequestPolicy: TypeAlias = Literal["Preserve", "Default", "Remove"]
LimitPolicy: TypeAlias = Literal["Preserve", "Default", "Remove", "MatchRequest", "Ratio"]
Port: TypeAlias = Annotated[int, schema.facts(format="int32", minimum=1, maximum=65535)]


class Audience(common.Wire, kw_only=True):
    """Whose requests a rule judges."""

    kind: AudienceKind
    """`User`, `Group`, `ServiceAccount`, or `Custom` for one of the platform's own classes."""
    name: str
    """Name of the subject. With `Custom` one of `CapsuleUser`, `Administrator`, `TenantOwner`,
    `Controller`."""


class Quota(common.Wire, kw_only=True):
    """A budget shared by all namespaces that the rule selects."""

    name: Annotated[
        str,
        schema.NOT_EMPTY,
        schema.DNS_LABEL,
    ]
    """Name of the budget, unique in the tenant; the GlobalResourceQuota is called
    `<tenant>-<name>`."""
    hard: dict[str, schema.Quantity] = {}
    """Most that the selected namespaces may use together, by resource, e.g.
    `requests.nvidia.com/gpu: 8`."""
    scopes: list[str] = []
    """Count only objects in all of these scopes, e.g. `NotTerminating`."""
    scope_selector: common.ScopeSelector | None = None
    """Count only objects that match these scope expressions, e.g. by priority class."""


class Promotion(common.Wire, kw_only=True):
    """Roles for ServiceAccounts that carry the label `projectcapsule.dev/promote: "true"`."""

    cluster_roles: list[str] = []
    """ClusterRoles bound in the selected namespaces."""
    selector: common.Selector | None = None
    """Which promoted ServiceAccounts get them. Default: all."""


class RulePermissions(common.Wire, kw_only=True):
    """Roles in the selected namespaces."""

    bindings: list[common.RoleBinding] = []
    """RoleBindings to keep in each selected namespace."""
    promotions: list[Promotion] = []
    """Roles for promoted ServiceAccounts."""


class Registry(common.ExpressionMatch, kw_only=True):
    """Match image references such as `harbor.example.com/team/app:1.2`."""

    policy: list[str] = []
    """Pull policies allowed with it: `Always`, `IfNotPresent`, `Never`. Default: any."""


class RequestRule(common.Wire, kw_only=True):
    """What happens to the request for one resource."""

    SCHEMA: ClassVar[tuple[schema.Rule, ...]] = (
        schema.Rule(
            "self.policy == 'Default' ? has(self.value) : !has(self.value)",
            "value is needed with policy Default and not allowed with others",
        ),
    )

    policy: RequestPolicy
    """`Preserve` leaves it, `Default` adds a missing one, `Remove` takes it away."""
    value: schema.Quantity | None = None
    """Amount for `Default`, e.g. `500m`; not allowed otherwise."""


class LimitRule(common.Wire, kw_only=True):
    """What happens to the limit of one resource."""

    SCHEMA: ClassVar[tuple[schema.Rule, ...]] = (
        schema.Rule(
            "self.policy == 'Default' || self.policy == 'Ratio' ? has(self.value) "
            ": !has(self.value)",
            "value is needed with policy Default and Ratio and not allowed with others",
        ),
    )

    policy: LimitPolicy
    """`Preserve` leaves it, `Default` adds a missing one, `Remove` takes it away, `MatchRequest`
    sets it to the request, `Ratio` holds it to at most request times value."""
    value: schema.Quantity | None = None
    """Amount for `Default`, factor of at least 1 for `Ratio`; not allowed otherwise."""


class WorkloadResources(common.Wire, kw_only=True):
    """Requests and limits of pods and containers, by resource."""

    SCHEMA: ClassVar[tuple[schema.Rule, ...]] = (
        schema.Rule(
            "has(self.requests) || has(self.limits)",
            "at least one of requests and limits must be set",
        ),
    )

    requests: Annotated[dict[str, RequestRule], schema.facts(minProperties=1)] = {}
    """Rules for requests, e.g. `cpu: {policy: Default, value: 100m}`."""
    limits: Annotated[dict[str, LimitRule], schema.facts(minProperties=1)] = {}
    """Rules for limits, e.g. `memory: {policy: MatchRequest}`."""


class Workloads(common.Wire, kw_only=True):
    """What pods may use."""

    targets: list[Target] = []
    """Parts of a pod that are judged. Default: what fits the field."""
    registries: list[Registry] = []
    """Image references, e.g. `exp: ^harbor.example.com/`."""
    schedulers: list[common.ExpressionMatch] = []
    """Scheduler names. Pods that name none are not judged."""
    qos_classes: list[str] = []
    """Quality-of-service classes: `Guaranteed`, `Burstable`, `BestEffort`."""
    tolerations: list[common.ExpressionMatch] = []
    """Tenantry's own. Keys of taints that pods tolerate, e.g. `exact: [nvidia.com/gpu]`; `*` is all
    taints at once, and a pod that names its node."""
    node_selectors: list[common.ExpressionMatch] = []
    """Tenantry's own. Node labels that pods ask for, as `key=value`. With `action: allow` pods must be
    bound to such nodes, by nodeSelector or required affinity."""
    resources: WorkloadResources | None = None
    """Requests and limits that are defaulted, removed or held to a ratio."""


class LoadBalancers(common.Wire, kw_only=True):
    """Addresses of Services of type LoadBalancer."""

    cidrs: list[str] = []
    """Networks that `loadBalancerIP` and `loadBalancerSourceRanges` must lie in, e.g.
    `10.0.0.0/8`."""


class ExternalNames(common.Wire, kw_only=True):
    """Targets of Services of type ExternalName."""

    hostnames: list[common.ExpressionMatch] = []
    """Host names that `externalName` is compared with."""


class PortRange(common.Wire, kw_only=True):
    """Ports from the first to the last, both included."""

    from_: Port = msgspec.field(name="from")
    """First port, 1 to 65535."""
    to: Port
    """Last port, 1 to 65535; not below `from`."""


class NodePorts(common.Wire, kw_only=True):
    """Node ports that Services ask for."""

    ports: list[PortRange] = []
    """Port ranges, e.g. `{from: 30000, to: 30100}`."""


class Services(common.Wire, kw_only=True):
    """What Services may be."""

    types: list[ServiceType] = []
    """Service types."""
    load_balancers: LoadBalancers | None = None
    """Addresses of load balancers."""
    external_names: ExternalNames | None = None
    """Targets of external names."""
    node_ports: NodePorts | None = None
    """Node ports."""


class Ingress(common.Wire, kw_only=True):
    """Host names that come in from outside."""

    types: Annotated[list[IngressType], schema.SOME] = []
    """Kinds that are judged; at least one."""
    hostnames: Annotated[list[common.ExpressionMatch], schema.SOME] = []
    """Host names, e.g. `exp: \\.team-a\\.example\\.com$`; at least one."""


class MetadataValue(common.Wire, kw_only=True):
    """Values of one label or annotation."""

    required: bool = False
    """Objects must have the key (only with `action: allow`). Default: false."""
    values: list[common.ExpressionMatch] = []
    """Values that are judged. Default: any."""
    default: str | None = None
    """Value written when the key is missing; the key may not be a pattern."""
    managed: str | None = None
    """Value written always and kept; the key may not be a pattern and kinds must be concrete."""


class MetadataRule(common.Wire, kw_only=True):
    """Labels and annotations of objects."""

    SCHEMA: ClassVar[tuple[schema.Rule, ...]] = (
        schema.Rule(
            "has(self.labels) || has(self.annotations)",
            "at least one of labels and annotations must be set",
        ),
    )

    api_groups: list[str] = []
    """Groups with version, e.g. `apps/v1`; `v1` is core, `*` all. Default: core."""
    kinds: Annotated[list[Annotated[str, schema.NOT_EMPTY]], schema.SOME]
    """Kinds, at least one, e.g. `Pod`; `*` stands for any part. A Namespace is meant only when named."""
    labels: dict[str, MetadataValue] = {}
    """Rules by label key; `*` stands for any part of the key, the rest is a regular expression."""
    annotations: dict[str, MetadataValue] = {}
    """Rules by annotation key, written like label keys."""


class Enforce(common.Wire, kw_only=True):
    """What the rule judges, and the verdict."""

    action: Action = "deny"
    """`deny` refuses what matches; `allow` accepts it and refuses what no allow rule matches;
    `audit` only writes an event. Default: `deny`."""
    workloads: Workloads | None = None
    """Pods: images, schedulers, classes of service, requests and limits."""
    services: Services | None = None
    """Services: types, addresses, ports."""
    ingress: Ingress | None = None
    """Host names of Ingresses, Gateways and routes."""
    metadata: list[MetadataRule] = []
    """Labels and annotations of any namespaced kind."""


class RuleBody(common.Wire, kw_only=True):
    """What a rule says, without which namespaces it is for (also the items of a RuleStatus)."""

    audience: list[Audience] = []
    """Whose requests are judged. Default: everybody's."""
    quota: Annotated[list[Quota], schema.map_by("name")] = []
    """Budgets shared by the selected namespaces."""
    enforce: Enforce | None = None
    """What is judged, and the verdict."""


class Rule(RuleBody, kw_only=True):
    """One block of rules for some or all namespaces of the tenant."""

    namespace_selector: common.Selector | None = None
    """Namespaces of the tenant that the block is for. Default: all."""
    permissions: RulePermissions | None = None
    """Roles in the selected namespaces."""
