"""TenantNodePool: nodes that belong to a tenant."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from tenantry.api import meta, schema
from tenantry.api.tenantry import constants

Mode: TypeAlias = Literal["exclusive", "shared", "borrow"]
State: TypeAlias = Literal["shared", "draining", "dedicated", "released"]
Selector: TypeAlias = Annotated[dict[str, Any], schema.Core("LabelSelector")]
LabelKey: TypeAlias = Annotated[str, schema.facts(minLength=1, maxLength=317)]


class Wire(msgspec.Struct, rename="camel", gc=False, omit_defaults=True, kw_only=True):
    """Give every Struct of this group the same shape on the wire."""


class Component(Wire, kw_only=True):
    """A DaemonSet without which a node is not complete."""

    namespace: Annotated[str, schema.DNS_LABEL]
    """Namespace of the DaemonSet, e.g. `mars-operator`."""
    name: Annotated[str, schema.NOT_EMPTY]
    """Name of the DaemonSet, e.g. `mars-gpu-device`."""


class Readiness(Wire, kw_only=True):
    """What a node of the pool must have to be complete."""

    components: list[Component] = []
    """DaemonSets that must run on it. Default: each one outside of tenants that would be there
    if the node were not dedicated."""
    gpu_resource: str = ""
    """Resource of which the node must offer at least one, e.g. `nvidia.com/gpu`. Default: none."""
    labels: list[str] = []
    """Label keys that the node must have, e.g. `nvidia.com/gpu.product`. Default: none."""


class Repair(Wire, kw_only=True):
    """DaemonSets that may be given the toleration of the pool's taint."""

    allow: list[str] = []
    """Namespaces, or `namespace/name`, whose DaemonSets are repaired and kept so, also after an
    upgrade, e.g. `mars-operator` or `monitoring/node-exporter`. Default: none."""


class TenantNodePoolSpec(Wire, kw_only=True):
    """Which nodes belong to whom, and how strictly."""

    tenant: Annotated[str, schema.facts(minLength=1, maxLength=63)]
    """Tenant that the nodes are for, e.g. `tenant01`."""
    mode: Mode = "exclusive"
    """`exclusive`: only the tenant's pods run there; `shared`: the tenant's pods prefer it, and
    others may run there; `borrow`: others may run there until the tenant's pods need the room,
    and are evicted then. Default: `exclusive`."""
    purpose: str = ""
    """What the pool is for, for people, e.g. `training` or `model download`."""
    nodes: Annotated[list[str], schema.facts(maxItems=5000)] = []
    """Names of nodes, e.g. `gpu-worker-25`."""
    selector: Selector | None = None
    """Nodes with these labels, in addition to those named."""
    drain: bool = False
    """Evict pods of others from the nodes, within their PodDisruptionBudgets. Without it a node
    on which others run stays shared until they are gone. Default: false."""
    adopt: bool = False
    """Take nodes that carry the tenant's taint already, set by hand. Default: false."""
    taint_key: LabelKey = constants.TAINT_KEY
    """Key of the taint; its value is the tenant. Default: `tenant-dedicated`."""
    no_execute: bool = False
    """Add the taint with effect `NoExecute` too, once others are gone. Default: false."""
    label_key: LabelKey = constants.LABEL_KEY
    """Key of the label that all nodes of the tenant carry; its value is the tenant.
    Default: `node-pool`."""
    readiness: Readiness = msgspec.field(default_factory=Readiness)
    """What a node must have to be complete."""
    repair: Repair = msgspec.field(default_factory=Repair)
    """DaemonSets that are let onto the nodes."""


class NodeStatus(Wire, kw_only=True):
    """One node of the pool."""

    name: str
    """Name of the node."""
    state: State
    """`shared`, `draining`, `dedicated` or `released`."""
    reason: str = ""
    """Why it is not further, in one word."""
    message: str = ""
    """Why, for people."""
    score: Annotated[int, schema.facts(minimum=0, maximum=100, default=0)] = 0
    """Share of what the node must have that it has, in percent."""
    missing: list[str] = []
    """What it lacks to be complete."""


class Violation(Wire, kw_only=True):
    """A pod where it should not be."""

    kind: Literal["ForeignPod", "PodOutside"]
    """`ForeignPod`: somebody else's on a node of the tenant; `PodOutside`: the tenant's elsewhere."""
    namespace: str
    """Namespace of the pod."""
    pod: str
    """Name of the pod."""
    node: str
    """Node it runs on."""


class TenantNodePoolStatus(Wire, kw_only=True):
    """How the pool is."""

    observed_generation: Annotated[int, schema.INT64] = 0
    """Generation of the spec that this status is about."""
    desired: Annotated[int, schema.facts(minimum=0, default=0)] = 0
    """Nodes that the pool has."""
    dedicated: Annotated[int, schema.facts(minimum=0, default=0)] = 0
    """Nodes that are dedicated."""
    complete: Annotated[int, schema.facts(minimum=0, default=0)] = 0
    """Dedicated nodes that have all they must have."""
    nodes: Annotated[list[NodeStatus], schema.map_by("name")] = []
    """Each node, sorted by name; at most 1000, those that need attention first."""
    violations: list[Violation] = []
    """Pods where they should not be; at most 100."""
    conditions: Annotated[list[meta.Condition], schema.Core("Conditions")] = []
    """State of the pool, by aspect: `Ready`, `Complete`, `Exclusive`."""


class TenantNodePool(Wire, kw_only=True):
    """Nodes that belong to a tenant."""

    metadata: meta.ObjectMeta
    spec: TenantNodePoolSpec
    """Which nodes belong to whom."""
    status: TenantNodePoolStatus = msgspec.field(default_factory=TenantNodePoolStatus)
    """How the pool is; written by the controller."""
