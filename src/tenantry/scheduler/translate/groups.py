"""Queues and pod groups."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tenantry.core import clock
from tenantry.scheduler.engine import durations, specs

Json = Mapping[str, Any]
_SCALES = {"gpu": 1000, "cpu": 1, "memory": 1_000_000}
DEFAULT_PRIORITY = 50


def queue(item: Json, *, missing_is_zero: bool = False) -> specs.Queue:
    """Translate a Queue.

    :param missing_is_zero: take numbers that are not written for 0, as KAI does, limits included;
        otherwise a resource that is not mentioned is unlimited
    """
    spec = item.get("spec") or {}
    meta = item["metadata"]
    given = spec.get("resources") or {}
    resources = {}
    for name in (*_SCALES, *(set(given) - set(_SCALES))):
        values = given.get(name)
        scale = _SCALES.get(name, 1000)
        if values is None:
            if missing_is_zero:
                resources[name] = specs.Bound(quota=0, limit=0, weight=0)
            elif name in _SCALES:
                resources[name] = specs.Bound(quota=-1, limit=-1, weight=1)
            continue
        resources[name] = specs.Bound(
            quota=_scaled(values.get("quota"), scale, 0),
            limit=_scaled(values.get("limit"), scale, 0 if missing_is_zero else -1),
            weight=float(values.get("overQuotaWeight", 0) or 0),
            lending_limit=_scaled(values.get("lendingLimit"), scale, -1),
            borrowing_limit=_scaled(values.get("borrowingLimit"), scale, -1),
        )
    priority = spec.get("priority")
    return specs.Queue(
        name=meta["name"],
        uid=meta.get("uid", ""),
        parent=spec.get("parentQueue", "") or "",
        title=spec.get("displayName", "") or "",
        priority=100 if priority is None else int(priority),
        created=_time(meta.get("creationTimestamp")) or 0.0,
        resources=resources,
        preempt_min_runtime=durations.parse(spec.get("preemptMinRuntime")),
        reclaim_min_runtime=durations.parse(spec.get("reclaimMinRuntime")),
    )


def job(
    item: Json,
    priorities: Mapping[str, int],
    default: int = DEFAULT_PRIORITY,
    *,
    node_pool: str = "",
) -> specs.Job:
    """Translate a PodGroup.

    :param priorities: values of priority classes
    :param node_pool: the pool that is scheduled; a group that wanted one try there has had it
    """
    meta, spec = item["metadata"], item.get("spec") or {}
    notes = meta.get("annotations") or {}
    preemptibility = spec.get("preemptibility") or ""
    return specs.Job(
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        uid=meta.get("uid", ""),
        queue=spec.get("queue", ""),
        priority=priorities.get(spec.get("priorityClassName", ""), default),
        preemptible={"preemptible": True, "non-preemptible": False}.get(preemptibility),
        min_member=spec.get("minMember"),
        min_subgroup=spec.get("minSubGroup"),
        subgroups=tuple(
            specs.Subgroup(
                name=part["name"],
                parent=part.get("parent", "") or "",
                min_member=part.get("minMember"),
                min_subgroup=part.get("minSubGroup"),
                topology=_topology(part.get("topologyConstraint")),
            )
            for part in spec.get("subGroups") or ()
        ),
        topology=_topology(spec.get("topologyConstraint")),
        created=_time(meta.get("creationTimestamp")) or 0.0,
        started=_time(notes.get("kai.scheduler/last-start-timestamp")),
        stale_since=_time(notes.get("kai.scheduler/stale-podgroup-timestamp")),
        last_eviction=_time(notes.get("kai.scheduler/last-eviction-timestamp")),
        preemption_delay=durations.parse(spec.get("preemptionDelay")) or 0.0,
        staleness_grace=durations.parse(spec.get("stalenessGracePeriod")),
        expected_runtime=durations.parse(notes.get("tenantry.io/expected-runtime")),
        max_runtime=durations.parse(notes.get("tenantry.io/max-runtime")),
        user=(meta.get("labels") or {}).get("user", notes.get("user", "")),
        held=_tried(spec, item.get("status") or {}, node_pool),
    )


def _tried(spec: Json, state: Json, node_pool: str) -> str:
    """Return why a group that backs off after one try must not be tried again here."""
    conditions = state.get("schedulingConditions") or ()
    if spec.get("schedulingBackoff") != 1 or not conditions:
        return ""
    pool = conditions[-1].get("nodePool", "")
    # The pool without a label goes by this name in conditions.
    if pool not in (node_pool, node_pool or "default"):
        return ""
    return f"schedulingBackoff is 1, and the try on node pool {pool or 'default'} found no place"


def _scaled(value: float | None, scale: int, missing: int) -> int:
    if value is None:
        return missing
    if not math.isfinite(value):
        return -2  # refused by the engine, with the queue's name
    return -1 if value == -1 else round(value * scale)


def _topology(constraint: Json | None) -> specs.TopologyConstraint | None:
    if not constraint or not constraint.get("topology"):
        return None
    return specs.TopologyConstraint(
        topology=constraint["topology"],
        required=constraint.get("requiredTopologyLevel", "") or "",
        preferred=constraint.get("preferredTopologyLevel", "") or "",
    )


def _time(text: str | None) -> float | None:
    try:
        return clock.parse_rfc3339(text) if text else None
    except ValueError:
        return None
