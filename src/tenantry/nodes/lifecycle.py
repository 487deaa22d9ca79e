"""The life of a node in a pool: shared -> draining -> dedicated -> released; pure.

Where a node is in its life is read from the node itself (taint and record), never remembered, so a
restart, a hand that edited the node, or a label that somebody removed all lead to the same next
step.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenantry.api.tenantry import node_pool
from tenantry.nodes import claims, occupants, records, taints, views
from tenantry.runtime import jsonpatch

_FORCE = "NoExecute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What to do to a node now, and what it is."""

    pool: str
    state: node_pool.State
    reason: str = ""
    message: str = ""
    operations: tuple[jsonpatch.Operation, ...] = ()
    evict: tuple[views.PodView, ...] = ()


def released(node: views.NodeView) -> Step | None:
    """Return the step of a node that no pool has; None when it never was in one."""
    operations = records.patch(node, None)
    if not operations:
        return None
    record = records.read(node)
    return Step(
        pool=record.pool if record is not None else "",
        state="released",
        operations=tuple(operations),
    )


def advance(
    node: views.NodeView,
    pool: node_pool.TenantNodePool,
    *,
    found: occupants.Occupants,
    refused: claims.Problem | None = None,
    called: bool = False,
) -> Step:
    """Return the step of a node that a pool has.

    :param refused: why the pool does not get the node after all
    :param called: the tenant wants a borrowed node back
    """
    name, spec = pool.metadata.name, pool.spec
    if refused is not None:
        return Step(pool=name, state="shared", reason=refused.reason, message=refused.message)
    if spec.mode == "shared":
        return _settled(node, pool, "shared", "Preferred", tainted=False)
    if spec.mode == "borrow" and not called:
        return _settled(node, pool, "shared", "Borrowable", tainted=False)
    record = records.read(node)
    ours = record is not None and bool(record.marks)
    tainted = taints.Taint(spec.taint_key, spec.tenant) in node.taints
    if tainted and not ours and not spec.adopt:
        return Step(
            pool=name,
            state="shared",
            reason="TaintedByHand",
            message=f"node {node.name} was given to {spec.tenant} by hand; "
            "set spec.adopt to true to take it over",
        )
    draining = record is not None and record.draining
    evicting = spec.drain or spec.mode == "borrow"
    if not found.foreign or (ours and not draining):
        # A pod of others that slipped in later is a violation; it does not open the node again.
        ended = _ended(found.own, pool, record)
        step = _settled(node, pool, "dedicated", "", tainted=True, gently=bool(ended))
        evict = found.foreign if evicting else ()
        waits = f"{_FORCE} waits for pods that do not tolerate it: {occupants.named(ended)}"
        return Step(
            pool=name, state=step.state, message=waits if ended else "",
            operations=step.operations, evict=_evictable(evict),
        )  # fmt: skip
    who = occupants.named(found.foreign)
    if not evicting:
        # A drain that was called off stays where it is: nobody new comes in.
        operations = records.patch(node, records.wanted(pool, tainted=True, draining=True))
        return Step(
            pool=name,
            state="draining" if draining else "shared",
            reason="Occupied",
            message=f"pods of others run on {node.name}: {who}; set spec.drain to true to evict "
            "them, or wait until they are gone",
            operations=tuple(operations) if draining else (),
        )
    target = records.wanted(pool, tainted=True, draining=True)
    return Step(
        pool=name,
        state="draining",
        reason="Draining",
        message=f"waiting for {who}",
        operations=tuple(records.patch(node, target)),
        # Who is evicted before the taint is there could come back at once.
        evict=_evictable(found.foreign) if tainted else (),
    )


def _ended(
    own: tuple[views.PodView, ...],
    pool: node_pool.TenantNodePool,
    record: records.Record | None,
) -> list[views.PodView]:
    """Return the tenant's own pods, older than the pool, that its taint would end by force."""
    force = taints.Taint(pool.spec.taint_key, pool.spec.tenant, _FORCE)
    if not pool.spec.no_execute or (record is not None and force in record.marks):
        return []
    return [pod for pod in own if not taints.tolerated([force], pod.tolerations)]


def _evictable(pods: tuple[views.PodView, ...]) -> tuple[views.PodView, ...]:
    return tuple(pod for pod in pods if not pod.terminating)


def _settled(
    node: views.NodeView,
    pool: node_pool.TenantNodePool,
    state: node_pool.State,
    reason: str,
    *,
    tainted: bool,
    gently: bool = False,
) -> Step:
    target = records.wanted(pool, tainted=tainted, gently=gently)
    return Step(
        pool=pool.metadata.name,
        state=state,
        reason=reason,
        operations=tuple(records.patch(node, target)),
    )
