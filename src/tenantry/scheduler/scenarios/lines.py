"""Decide the lines that test one function: division, capacity, reclaimable, queue order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.scheduler.engine import capacity, division, queues, reclaimable

Json = dict[str, Any]
RESOURCES = ("CPU", "Memory", "GPU")
_FIELDS = {
    "quota": "quota",
    "limit": "limit",
    "weight": "weight",
    "fair": "fair_share",
    "allocated": "allocated",
    "allocated_fixed": "allocated_non_preemptible",
    "request": "request",
    "usage": "usage",
}
_EPSILON = 1e-9


def differences(line: Json) -> list[str]:
    """Return how our decision differs from the expected one."""
    got, wanted = decide(line), line["expected"]
    if line["kind"] != "division":
        return [] if got == wanted else [f"{got}, expected {wanted}"]
    found = [
        f"queue {name}: {got['fair_share'].get(name)}, expected {share}"
        for name, share in wanted["fair_share"].items()
        if abs(got["fair_share"].get(name, -1e9) - share) > _EPSILON
    ]
    if abs(got["remaining"] - wanted["remaining"]) > _EPSILON:
        found.append(f"remaining {got['remaining']}, expected {wanted['remaining']}")
    return found


def decide(line: Json) -> Json:
    """Return the decision in the form of the line's `expected`."""
    kind: str = line["kind"]
    return {
        "division": _division,
        "capacity": _capacity,
        "reclaimable": _reclaimable,
        "queue_order": _order,
    }[kind](line)


def _division(line: Json) -> Json:
    r = RESOURCES.index(line["resource"])
    siblings = []
    for given in line["queues"]:
        queue = _queue(given)
        for field, name in _FIELDS.items():
            getattr(queue, field)[r] = given[name]
        siblings.append(queue)
    if line["mode"] == "over_quota_only":
        remaining = division.by_weight(siblings, r, line["total"], k=line["k"])
    else:
        remaining = division.divide(siblings, r, line["total"], k=line["k"])
    return {"fair_share": {q.name: q.fair[r] for q in siblings}, "remaining": remaining}


def _capacity(line: Json) -> Json:
    tree = _tree(line["queues"])
    queue, request = tree[line["queue"]], _vector(line["requested"])
    refusal = None
    if line["mode"] in ("limit", "limit_and_quota"):
        refusal = capacity.within_limit(queue, request)
    if refusal is None and line["mode"] != "limit" and not line["preemptible"]:
        refusal = capacity.within_quota(queue, request)
    if refusal is None:
        return {"schedulable": True}
    return {"schedulable": False, "reason": refusal.reason, "queue": refusal.queue.name}


def _reclaimable(line: Json) -> Json:
    tree = _tree(line["queues"])
    queue, request = tree[line["queue"]], _vector(line["requested"])
    if line["mode"] == "can_reclaim":
        allowed = reclaimable.can_reclaim(queue, request, preemptible=line["preemptible"])
    elif line["mode"] == "victim_queue":
        allowed = reclaimable.may_be_victim(queue, request, tree[line["victim_queue"]])
    else:
        allowed = reclaimable.legal(
            queue,
            request,
            [(tree[name], [_vector(v) for v in taken]) for name, taken in line["victims"].items()],
            preemptible=line["preemptible"],
            multiplier=line["saturation_multiplier"],
        )
    return {"allowed": allowed}


def _order(line: Json) -> Json:
    order = queues.compare(
        _queue(line["left"]),
        _queue(line["right"]),
        _vector(line.get("left_job", {})),
        _vector(line.get("right_job", {})),
        _vector(line["total"]),
    )
    return {"order": order}


def _tree(given: list[Json]) -> dict[str, queues.Queue]:
    tree = {item["id"]: _queue(item) for item in given}
    for item in given:
        parent = tree.get(item.get("parent", ""))
        if parent is not None:
            tree[item["id"]].parent = parent
            parent.children.append(tree[item["id"]])
    return tree


def _queue(given: Json) -> queues.Queue:
    name = given.get("id", "")
    queue = queues.Queue(name, uid=given.get("uid", name))
    queue.priority = given["priority"]
    queue.created = given.get("created_offset_s", 0)
    if RESOURCES[0] in given:
        for r, resource in enumerate(RESOURCES):
            for field, key in _FIELDS.items():
                getattr(queue, field)[r] = given[resource][key]
        queue.refresh_share()
    return queue


def _vector(amounts: Mapping[str, float]) -> list[float]:
    return [amounts.get(resource, 0) for resource in RESOURCES]
