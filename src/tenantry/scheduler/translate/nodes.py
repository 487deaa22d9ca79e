"""Nodes, topologies and devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.scheduler.engine import specs
from tenantry.scheduler.translate import amounts

Json = Mapping[str, Any]
PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
#: GPU memory labels at or above this are in bytes.
_BYTES_FROM = 1 << 20
_MIB_STEP = 100


def node(item: Json, layout: specs.Numa | None = None) -> specs.Node:
    """Translate a Node, with its NUMA layout if there is one."""
    meta, status = item["metadata"], item.get("status") or {}
    spec = item.get("spec") or {}
    labels: dict[str, str] = meta.get("labels") or {}
    allocatable = amounts.resource_list(status.get("allocatable"))
    memory, synced = gpu_memory(labels)
    return specs.Node(
        name=meta["name"],
        allocatable=allocatable,
        labels=labels,
        taints=tuple(
            specs.Taint(
                key=taint.get("key", ""),
                value=taint.get("value", ""),
                effect=taint.get("effect", ""),
            )
            for taint in spec.get("taints") or ()
        ),
        usable=usable(item),
        gpu_memory=memory,
        gpu_memory_synced=synced,
        gpu_count=_count(labels, allocatable),
        mig=_mig(labels),
        numa=layout,
    )


def usable(item: Json) -> bool:
    """Tell whether pods may be put on a node: ready, not cordoned, under no pressure."""
    if (item.get("spec") or {}).get("unschedulable"):
        return False
    conditions = (item.get("status") or {}).get("conditions") or ()
    state = {condition.get("type"): condition.get("status") for condition in conditions}
    return state.get("Ready") == "True" and all(state.get(p) != "True" for p in PRESSURES)


def gpu_memory(labels: Mapping[str, str]) -> tuple[int, bool]:
    """Return MiB per GPU from the node's label, and whether the label could be used."""
    try:
        size = int(labels["nvidia.com/gpu.memory"])
    except (KeyError, ValueError):
        return _MIB_STEP, False
    if size >= _BYTES_FROM:
        size >>= 20
    return size // _MIB_STEP * _MIB_STEP, size >= _MIB_STEP


def _count(labels: Mapping[str, str], allocatable: Mapping[str, int]) -> int:
    try:
        return int(labels["nvidia.com/gpu.count"])
    except (KeyError, ValueError):
        return allocatable.get("gpu", 0) // 1000


def _mig(labels: Mapping[str, str]) -> str:
    strategy = labels.get("nvidia.com/mig.strategy", "")
    if labels.get("node-role.kubernetes.io/mig-enabled") == "false":
        return ""
    return strategy if strategy in ("single", "mixed") else ""


def numa(item: Json) -> specs.Numa:
    """Translate a NodeResourceTopology; the node has the same name."""
    policy, scope = "none", "container"
    for attribute in item.get("attributes") or ():
        if attribute.get("name") == "topologyManagerPolicy":
            policy = attribute.get("value", policy)
        elif attribute.get("name") == "topologyManagerScope":
            scope = attribute.get("value", scope)
    zones = []
    for zone in item.get("zones") or ():
        if zone.get("type", "Node") == "Node":
            named = {entry["name"]: entry for entry in zone.get("resources") or ()}
            amount = {
                field: amounts.resource_list(
                    {name: entry.get(field, "0") for name, entry in named.items()}
                )
                for field in ("allocatable", "available")
            }
            zones.append(specs.Zone(name=zone["name"], **amount))
    return specs.Numa(policy=policy, scope=scope, zones=tuple(zones))


def topology(item: Json) -> specs.Topology:
    """Translate a Topology."""
    levels = (item.get("spec") or {}).get("levels") or ()
    return specs.Topology(
        name=item["metadata"]["name"],
        levels=tuple(level["nodeLabel"] for level in levels),
        aliases={level["alias"]: level["nodeLabel"] for level in levels if level.get("alias")},
    )
