"""Place tasks whose devices come from resource claims.

A claim takes its devices on one node, once, however many tasks share it. Claims that pods share
and that ask for GPUs must carry the label `kai.scheduler/queue` of the job's queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tenantry.scheduler.engine import (
    decisions,
    plugin,
    resources,
    session,
    shapes,
    specs,
    status,
    tables,
)

QUEUE_LABEL = "kai.scheduler/queue"
#: `status.reservedFor` of a claim holds at most so many consumers.
MOST_CONSUMERS = 256


class _Claimed:
    title = "node(s) cannot satisfy the resource claims"
    fixed = False

    def __init__(self, session: session.Session, shape: shapes.Shape) -> None:
        self._session = session
        self._shape = shape

    def _claims(self) -> list[tables.Claim]:
        state = self._session.state
        keys = ((self._shape.namespace, name) for name in self._shape.constraints.claims)
        return [claim for key in keys if (claim := state.claims.get(key)) is not None]

    def everywhere(self) -> resources.Bools:
        state = self._session.state
        mask = np.ones(len(state.nodes.names), np.bool_)
        wanted = np.zeros(len(state.free), np.int64)
        for claim in self._claims():
            if claim.held():
                only = np.zeros(len(mask), np.bool_)
                only[claim.node] = True
                mask &= only
            else:
                wanted += resources.padded(claim.vector, len(wanted))
        needed = wanted > 0
        mask &= (state.free[needed] >= wanted[needed][:, None]).all(axis=0)
        return mask

    def at(self, node: int) -> bool:
        return bool(self.everywhere()[node])


class _Assignment:
    """Names the devices of claims when their first task starts: the lowest free ones."""

    def __init__(self, session: session.Session) -> None:
        self._session = session
        claims = session.state.claims.values()
        self._of = {(c.spec.namespace, c.spec.name): c.spec.allocated for c in claims}
        self._taken = {device for devices in self._of.values() for device in devices}

    def __call__(self, row: int, node: int) -> decisions.Devices:
        state = self._session.state
        task = state.tasks[row]
        if task is None or not task.constraints.claims:
            return ()
        chosen = []
        for name in task.constraints.claims:
            key = task.namespace, name
            claim = state.claims.get(key)
            if claim is not None:
                if not self._of[key]:
                    self._of[key] = self._lowest(claim.spec, state.nodes.names[node])
                    self._taken.update(self._of[key])
                chosen.append((name, self._of[key]))
        return tuple(chosen)

    def _lowest(self, claim: specs.Claim, node: str) -> tuple[tuple[str, str], ...]:
        free = [
            (piece.pool, device)
            for _, piece in sorted(self._session.observed.slices.items())
            if piece.node == node and piece.device_class == claim.device_class
            for device in piece.devices
            if (piece.pool, device) not in self._taken
        ]
        return tuple(free[: claim.count])


class DynamicResources:
    """Filters nodes by what claims need."""

    name = "dynamicresources"

    def open(self, session: session.Session) -> None:
        """Register the mask, and what no eviction changes."""
        if not session.state.claims and not any(
            shape.constraints.claims for shape in session.observed.shapes_by_index
        ):
            return

        def make(shape: shapes.Shape) -> plugin.NodeMask | None:
            return _Claimed(session, shape) if shape.constraints.claims else None

        session.decisions.assign = _Assignment(session)
        session.points.node_masks.append(make)
        session.points.starts.append(lambda row, node: _starts(session, row, node))
        session.points.pre_predicates.append(lambda row: _refused(session, row))


def _starts(session: session.Session, row: int, node: int) -> bool:
    """Tell whether the devices are there at this moment, not only when others have left."""
    state = session.state
    task = state.tasks[row]
    names = task.constraints.claims if task is not None else ()
    wanted = np.zeros(len(state.idle), np.int64)
    for name in names:
        claim = state.claims.get((task.namespace if task is not None else "", name))
        if claim is not None and not any(status.ON_IDLE[s] for s in claim.users.values()):
            wanted += resources.padded(claim.vector, len(wanted))
    needed = wanted > 0
    return bool((state.idle[needed, node] >= wanted[needed]).all())


def _refused(session: session.Session, row: int) -> str:
    state = session.state
    task = state.tasks[row]
    if task is None:
        return ""
    for name in task.constraints.claims:
        claim = state.claims.get((task.namespace, name))
        if claim is None:
            return f"resource claim {task.namespace}/{name} does not exist"
        gpus = int(claim.vector[resources.GPU])
        job = session.job_of(row)
        queue = job.queue if job is not None else ""
        if gpus and not claim.spec.template and claim.spec.labels.get(QUEUE_LABEL) != queue:
            return (
                f"resource claim {task.namespace}/{name} can be shared and asks for GPUs: "
                f"it needs the label {QUEUE_LABEL}={queue}"
            )
        known = set(claim.spec.reserved_for)
        users = {t.name for r in claim.users if (t := state.tasks[r]) is not None}
        if task.name not in known and len(known | users) >= MOST_CONSUMERS:
            return f"resource claim {task.namespace}/{name} has {MOST_CONSUMERS} consumers already"
    return ""


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin; it takes no arguments."""
    del arguments
    return DynamicResources()
