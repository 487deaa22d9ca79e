"""What is kept of nodes, pods, DaemonSets and pools."""

from __future__ import annotations

from typing import Any

import msgspec

from tenantry.api import meta
from tenantry.api.tenantry import constants, node_pool
from tenantry.nodes import taints

MIRROR = "kubernetes.io/config.mirror"
FINISHED = ("Succeeded", "Failed")


class _Wire(msgspec.Struct, rename="camel", gc=False):
    pass


class _Condition(_Wire):
    type: str
    status: str
    reason: str = ""


class _NodeSpec(_Wire):
    taints: list[taints.Taint] | None = None
    unschedulable: bool = False


class _NodeStatus(_Wire):
    allocatable: dict[str, str] | None = None


class _Node(_Wire):
    metadata: meta.ObjectMeta
    spec: _NodeSpec = msgspec.field(default_factory=_NodeSpec)
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


class NodeView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A node as far as pools are concerned."""

    name: str
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    taints: tuple[taints.Taint, ...] = ()
    unschedulable: bool = False
    allocatable: dict[str, str] = {}
    record: str = ""
    has_annotations: bool = False
    raw_taints: tuple[dict[str, Any], ...] = ()
    """the taints as they stand, whose `timeAdded` a patch must keep"""


class _Raw(_Wire):
    spec: dict[str, Any] = {}


_NODE = msgspec.json.Decoder(_Node)
_RAW = msgspec.json.Decoder(_Raw)


def node_view(raw: bytes) -> NodeView:
    """Project one node."""
    found = _NODE.decode(raw)
    listed = found.spec.taints or []
    return NodeView(
        name=found.metadata.name,
        uid=found.metadata.uid,
        resource_version=found.metadata.resource_version,
        labels=found.metadata.labels,
        taints=tuple(listed),
        unschedulable=found.spec.unschedulable,
        allocatable=found.status.allocatable or {},
        record=found.metadata.annotations.get(constants.RECORD_ANNOTATION, ""),
        has_annotations=bool(found.metadata.annotations),
        raw_taints=tuple(_RAW.decode(raw).spec.get("taints") or ()) if listed else (),
    )


class _PodSpec(_Wire):
    node_name: str = ""
    tolerations: list[dict[str, Any]] | None = None


class _PodStatus(_Wire):
    phase: str = ""
    conditions: list[_Condition] | None = None


class _Pod(_Wire):
    metadata: meta.ObjectMeta
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class PodView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A pod as far as pools are concerned."""

    namespace: str
    name: str
    uid: str = ""
    node: str = ""
    phase: str = ""
    ready: bool = False
    unschedulable: bool = False
    """whether the scheduler found no node for it"""
    terminating: bool = False
    mirror: bool = False
    owner_kind: str = ""
    owner_uid: str = ""
    tolerations: tuple[taints.Toleration, ...] = ()

    @property
    def running(self) -> bool:
        """Tell whether it takes room on a node."""
        return bool(self.node) and self.phase not in FINISHED


_POD = msgspec.json.Decoder(_Pod)


def pod_view(raw: bytes) -> PodView:
    """Project one pod."""
    found = _POD.decode(raw)
    metadata = found.metadata
    owner = next((one for one in metadata.owner_references if one.controller), None)
    conditions = {one.type: one for one in found.status.conditions or ()}
    ready, scheduled = conditions.get("Ready"), conditions.get("PodScheduled")
    return PodView(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        node=found.spec.node_name,
        phase=found.status.phase,
        ready=ready is not None and ready.status == "True",
        unschedulable=scheduled is not None and scheduled.reason == "Unschedulable",
        terminating=bool(metadata.deletion_timestamp),
        mirror=MIRROR in metadata.annotations,
        owner_kind=owner.kind if owner is not None else "",
        owner_uid=owner.uid if owner is not None else "",
        tolerations=tuple(taints.toleration(one) for one in found.spec.tolerations or ()),
    )


_POOL = msgspec.json.Decoder(node_pool.TenantNodePool, strict=False)


def pool_view(raw: bytes) -> node_pool.TenantNodePool:
    """Decode one pool."""
    return _POOL.decode(raw)
