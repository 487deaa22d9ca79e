"""Volume claims: whether they exist, and on which nodes what they are bound to can be used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.scheduler.engine import matching, observed, specs
from tenantry.scheduler.translate import terms

Json = Mapping[str, Any]
_PLACES = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def usable_on(
    claim: Json,
    volumes: Mapping[str, Json],
    classes: Mapping[str, Json],
    seen: observed.Observed,
) -> tuple[specs.Key, frozenset[str] | None]:
    """Return a claim and its nodes; None where any node does, or none is chosen yet.

    :param volumes: by name
    :param classes: storage classes by name
    """
    meta, spec = claim["metadata"], claim.get("spec") or {}
    key = meta.get("namespace", ""), meta["name"]
    if spec.get("volumeName"):
        return key, _of_volume(volumes.get(spec["volumeName"]), seen)
    kind = classes.get(spec.get("storageClassName") or "")
    if kind is None:
        return key, None
    if kind.get("volumeBindingMode", "Immediate") == "Immediate":
        # It is bound without regard to pods; until then none can use it.
        return key, frozenset()
    allowed = kind.get("allowedTopologies")
    if not allowed:
        return key, None
    found = tuple(
        tuple(
            specs.Requirement(key=e["key"], operator="In", values=tuple(e.get("values") or ()))
            for e in term.get("matchLabelExpressions") or ()
        )
        for term in allowed
    )
    return key, _matching(found, seen)


def _of_volume(volume: Json | None, seen: observed.Observed) -> frozenset[str] | None:
    if volume is None:
        return None
    required = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required")
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required or {}}}
    labels = volume["metadata"].get("labels") or {}
    # Old volumes say by their labels where they are; several zones are joined.
    zones = tuple(
        specs.Requirement(key=key, operator="In", values=tuple(labels[key].split("__")))
        for key in _PLACES
        if key in labels
    )
    if not required:
        return _matching((zones,), seen) if zones else None
    return _matching(tuple((*term, *zones) for term in terms.node_terms(affinity)), seen)


def _matching(found: specs.Terms, seen: observed.Observed) -> frozenset[str]:
    constraints, nodes = specs.Constraints(affinity=found), seen.tables.nodes
    return frozenset(
        name
        for name, row in nodes.by_name.items()
        if matching.node_matches(constraints, nodes.specs[row])
    )
