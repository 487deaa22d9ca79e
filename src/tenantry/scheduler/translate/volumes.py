"""Volume claims: whether they exist, and on which nodes what they are bound to can be used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.scheduler.engine import matching, observed, specs
from tenantry.scheduler.translate import terms

Json = Mapping[str, Any]


def usable_on(
    claim: Json, by_name: Mapping[str, Json], seen: observed.Observed
) -> tuple[specs.Key, frozenset[str] | None]:
    """Return a claim and its nodes; None where any node does, or none is chosen yet.

    :param by_name: the volumes
    """
    meta = claim["metadata"]
    volume = by_name.get((claim.get("spec") or {}).get("volumeName", ""))
    return (meta.get("namespace", ""), meta["name"]), _nodes(volume, seen)


def _nodes(volume: Json | None, seen: observed.Observed) -> frozenset[str] | None:
    required = (((volume or {}).get("spec") or {}).get("nodeAffinity") or {}).get("required")
    if not required:
        return None
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    constraints = specs.Constraints(affinity=terms.node_terms(affinity))
    nodes = seen.tables.nodes
    return frozenset(
        name
        for name, row in nodes.by_name.items()
        if matching.node_matches(constraints, nodes.specs[row])
    )
