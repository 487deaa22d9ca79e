"""A pool's status, gathered from what is known of its nodes; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from tenantry.api import meta
from tenantry.api.tenantry import constants, node_pool
from tenantry.nodes import claims, lifecycle, readiness, views
from tenantry.runtime import conditions

MOST_NODES = 1000
MOST_VIOLATIONS = 100

Object = dict[str, Any]


def nodes(
    pool: node_pool.TenantNodePool,
    selected: Iterable[str],
    steps: Mapping[str, lifecycle.Step],
    *,
    refused: Mapping[tuple[str, str], claims.Problem],
    scores: Mapping[str, readiness.Score],
    known: Mapping[str, views.NodeView] | Iterable[str],
) -> list[node_pool.NodeStatus]:
    """Return the entry of each node, sorted by name.

    :param known: the nodes that exist
    """
    name, result = pool.metadata.name, {}
    for node in selected:
        problem, step = refused.get((name, node)), steps.get(node)
        if problem is not None:
            result[node] = node_pool.NodeStatus(
                name=node, state="shared", reason=problem.reason, message=problem.message
            )
        elif step is not None and step.pool == name and step.state != "released":
            judged = scores.get(node, readiness.Score(0, ()))
            result[node] = node_pool.NodeStatus(
                name=node,
                state=step.state,
                reason=step.reason,
                message=step.message,
                score=judged.percent,
                missing=list(judged.missing),
            )
        else:
            result[node] = node_pool.NodeStatus(name=node, state="shared", reason="Pending")
    there = set(known)
    for before in pool.status.nodes:
        # What the pool gave back stays listed for as long as the node exists.
        if before.name in there and before.name not in result:
            if before.state in ("draining", "dedicated", "released"):
                result[before.name] = node_pool.NodeStatus(name=before.name, state="released")
    return [result[node] for node in sorted(result)]


def shown(found: Sequence[node_pool.NodeStatus]) -> list[node_pool.NodeStatus]:
    """Return as many as an object may hold, those first that need attention."""
    if len(found) <= MOST_NODES:
        return list(found)
    order = sorted(found, key=lambda one: (one.state == "dedicated" and not one.missing, one.name))
    return sorted(order[:MOST_NODES], key=lambda one: one.name)


def violations(
    foreign: Iterable[views.PodView], outside: Iterable[views.PodView]
) -> list[node_pool.Violation]:
    """Return the pods that are where they should not be, sorted."""
    found = [_violation("ForeignPod", pod) for pod in foreign]
    found += [_violation("PodOutside", pod) for pod in outside]
    return sorted(found, key=lambda one: (one.kind, one.namespace, one.pod))


def _violation(
    kind: Literal["ForeignPod", "PodOutside"], pod: views.PodView
) -> node_pool.Violation:
    return node_pool.Violation(kind=kind, namespace=pod.namespace, pod=pod.name, node=pod.node)


def desired(
    pool: node_pool.TenantNodePool,
    entries: Sequence[node_pool.NodeStatus],
    wrong: Sequence[node_pool.Violation],
    *,
    problem: claims.Problem | None,
    now: float,
) -> Object:
    """Return the status to write."""
    mine = [one for one in entries if one.state != "released"]
    dedicated = [one for one in mine if one.state == "dedicated"]
    complete = [one for one in dedicated if not one.missing]
    found = list(pool.status.conditions)
    for wanted in (
        _ready(pool, mine, problem),
        _complete(dedicated, complete),
        _exclusive(wrong),
    ):
        stamped = msgspec.structs.replace(wanted, observed_generation=pool.metadata.generation)
        found, _ = conditions.set_condition(found, stamped, now)
    status = node_pool.TenantNodePoolStatus(
        observed_generation=pool.metadata.generation,
        desired=len(mine),
        dedicated=len(dedicated),
        complete=len(complete),
        nodes=shown(entries),
        violations=list(wrong[:MOST_VIOLATIONS]),
        conditions=found,
    )
    plain: Object = msgspec.to_builtins(status)
    return plain


def _condition(kind: str, holds: bool, reason: str, message: str) -> meta.Condition:
    status = "True" if holds else "False"
    return meta.Condition(type=kind, status=status, reason=reason, message=message)


def _ready(
    pool: node_pool.TenantNodePool,
    mine: Sequence[node_pool.NodeStatus],
    problem: claims.Problem | None,
) -> meta.Condition:
    if problem is not None:
        return _condition(constants.READY, False, problem.reason, problem.message)
    settled = "dedicated" if pool.spec.mode == "exclusive" else "shared"
    fine = ("", "Preferred", "Borrowable")
    waiting = [
        one
        for one in mine
        if one.reason not in fine or (settled == "dedicated" and one.state != "dedicated")
    ]
    if waiting:
        first = waiting[0]
        text = f"{len(waiting)} of {len(mine)} nodes wait; {first.name}: "
        text += first.message or first.reason or first.state
        return _condition(constants.READY, False, first.reason or "Waiting", text)
    return _condition(constants.READY, True, "Settled", f"{len(mine)} nodes")


def _complete(
    dedicated: Sequence[node_pool.NodeStatus], complete: Sequence[node_pool.NodeStatus]
) -> meta.Condition:
    if len(complete) == len(dedicated):
        return _condition(constants.COMPLETE, True, "Complete", f"{len(complete)} dedicated nodes")
    first = next(one for one in dedicated if one.missing)
    text = (
        f"{readiness.INCOMPLETE}: {len(dedicated) - len(complete)} of {len(dedicated)} nodes; "
        f"{first.name} ({first.score} %) lacks {', '.join(first.missing[:5])}"
    )
    return _condition(constants.COMPLETE, False, "IsolatedButIncomplete", text)


def _exclusive(wrong: Sequence[node_pool.Violation]) -> meta.Condition:
    if not wrong:
        return _condition(constants.EXCLUSIVE, True, "Exclusive", "every pod is where it should be")
    first = wrong[0]
    text = f"{len(wrong)} pods; {first.kind}: {first.namespace}/{first.pod} on {first.node}"
    return _condition(constants.EXCLUSIVE, False, first.kind, text)
