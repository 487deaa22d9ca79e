"""Place tasks whose devices come from resource claims, as the allocator of Kubernetes chooses them.

A claim takes its devices once, however many tasks share it. Claims that pods share and that ask for
GPUs must carry the label `kai.scheduler/queue` of the job's queue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tenantry.core import cel
from tenantry.core import errors as core_errors
from tenantry.scheduler.engine import (
    claim_devices,
    claims,
    decisions,
    device_specs,
    plugin,
    resources,
    session,
    shapes,
)

QUEUE_LABEL = "kai.scheduler/queue"
#: `status.reservedFor` of a claim holds at most so many consumers.
MOST_CONSUMERS = 256


class _Claimed:
    title = "node(s) cannot satisfy the resource claims"
    fixed = False

    def __init__(self, devices: claim_devices.Devices, shape: shapes.Shape) -> None:
        self._devices = devices
        self._shape = shape

    def everywhere(self) -> resources.Bools:
        state = self._devices.state
        mask = np.ones(len(state.nodes.names), np.bool_)
        wanted = []
        for name in self._shape.constraints.claims:
            claim = state.claims.get((self._shape.namespace, name))
            if claim is None:
                continue
            if claim.held():
                mask &= self._within_reach(claim)
            else:
                wanted.append(claim)
        return mask & self._devices.fits(wanted) if wanted else mask

    def _within_reach(self, claim: claims.Claim) -> resources.Bools:
        state, inventory = self._devices.state, self._devices.inventory
        only = np.zeros(len(state.nodes.names), np.bool_)
        if inventory.shared and claim.devices:
            for node, name in enumerate(state.nodes.names):
                only[node] = inventory.reaches(name, claim.devices)
        only[claim.node] = True
        return only

    def at(self, node: int) -> bool:
        return bool(self.everywhere()[node])


class DynamicResources:
    """Filters nodes by what claims need, and gives claims their devices."""

    name = "dynamicresources"

    def open(self, session: session.Session) -> Iterator[None]:
        """Register the mask, and what no eviction changes."""
        if not session.observed.claiming:
            return
        session.observed.inventory()
        yield
        devices = claim_devices.Devices(session)
        state = session.state
        state.choose = devices.choose
        devices.estimate()
        yield
        claims.settle(state)

        def make(shape: shapes.Shape) -> plugin.NodeMask | None:
            return _Claimed(devices, shape) if shape.constraints.claims else None

        def given(row: int, node: int) -> decisions.Devices:
            del node
            return tuple((claim.key[1], claim.devices) for claim in state.claims_of(row))

        session.decisions.assign = given
        session.points.node_masks.append(make)
        session.points.warm.append(lambda shape: devices.warm(devices.unused(shape)))
        session.points.starts.append(lambda row, node: devices.start(state.claims_of(row), node))
        session.points.pre_predicates.append(lambda row: _refused(session, row))


def _refused(session: session.Session, row: int) -> str:
    state = session.state
    task = state.tasks[row]
    if task is None:
        return ""
    for name in task.constraints.claims:
        claim = state.claims.get((task.namespace, name))
        if claim is None:
            return f"resource claim {task.namespace}/{name} does not exist"
        job = session.job_of(row)
        queue = job.queue if job is not None else ""
        spec = claim.spec
        if (
            int(claim.estimate[resources.GPU])
            and not spec.template
            and spec.labels.get(QUEUE_LABEL) != queue
        ):
            return (
                f"resource claim {task.namespace}/{name} can be shared and asks for GPUs: "
                f"it needs the label {QUEUE_LABEL}={queue}"
            )
        known = set(spec.reserved_for)
        users = {t.name for r in claim.users if (t := state.tasks[r]) is not None}
        if task.name not in known and len(known | users) >= MOST_CONSUMERS:
            return f"resource claim {task.namespace}/{name} has {MOST_CONSUMERS} consumers already"
        problem = _unreadable(session, spec)
        if problem:
            return f"resource claim {task.namespace}/{name}: {problem}"
    return ""


def _unreadable(session: session.Session, spec: device_specs.Claim) -> str:
    """Return what is wrong with the classes and selectors of a claim."""
    for options in spec.requests:
        for option in options:
            kind = session.observed.device_classes.get(option.device_class)
            if kind is None:
                return f"device class {option.device_class} does not exist"
            if option.count < 1:
                return f"request {option.name} asks for {option.count} devices; at least 1"
            for text in (*kind.selectors, *option.selectors):
                try:
                    cel.compiled(text, ("device",))
                except core_errors.TenantryError as problem:
                    return str(problem)
    return ""


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin; it takes no arguments."""
    del arguments
    return DynamicResources()
