"""Volume claims: whether they exist, and on which nodes what they are bound to can be used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.scheduler.engine import matching, observed, specs
from tenantry.scheduler.translate import pods

Json = Mapping[str, Any]


def usable_on(
    raw: Mapping[str, list[Json]], seen: observed.Observed
) -> dict[specs.Key, frozenset[str] | None]:
    """Return the nodes for each claim; None where any node does, or none is chosen yet."""
    by_name = {item["metadata"]["name"]: item for item in raw.get("persistentVolumes") or ()}
    found: dict[specs.Key, frozenset[str] | None] = {}
    for item in raw.get("persistentVolumeClaims") or ():
        meta = item["metadata"]
        volume = by_name.get((item.get("spec") or {}).get("volumeName", ""))
        found[meta.get("namespace", ""), meta["name"]] = _nodes(volume, seen)
    return found


def _nodes(volume: Json | None, seen: observed.Observed) -> frozenset[str] | None:
    required = (((volume or {}).get("spec") or {}).get("nodeAffinity") or {}).get("required")
    if not required:
        return None
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    constraints = specs.Constraints(affinity=pods.node_terms(affinity))
    nodes = seen.tables.nodes
    return frozenset(
        name
        for name, row in nodes.by_name.items()
        if matching.node_matches(constraints, nodes.specs[row])
    )
