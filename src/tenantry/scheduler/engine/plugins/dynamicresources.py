"""Place tasks whose devices come from resource claims, as the allocator of Kubernetes chooses them.

A claim takes its devices once, however many tasks share it. Claims that pods share and that ask for
GPUs must carry the label `kai.scheduler/queue` of the job's queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tenantry.core import cel
from tenantry.core import errors as core_errors
from tenantry.scheduler.engine import (
    claims,
    decisions,
    device_allocation,
    device_inventory,
    device_specs,
    plugin,
    resources,
    session,
    shapes,
)

QUEUE_LABEL = "kai.scheduler/queue"
#: `status.reservedFor` of a claim holds at most so many consumers.
MOST_CONSUMERS = 256


class _Devices:
    """What is free where, for one session."""

    def __init__(self, session: session.Session) -> None:
        self.state = session.state
        self.inventory: device_inventory.Inventory = session.observed.inventory()
        tasks = session.observed.tables.tasks
        self._waiting = {
            (task.namespace, task.name)
            for row in session.observed.claiming
            if (task := tasks[row]) is not None and self.state.node[row] < 0
        }
        #: Devices of claims that are allocated although no task that we know uses them.
        self._orphans = {
            identity
            for claim in self.state.claims.values()
            if not claim.users and self.bound(claim)
            for identity in claims.identities(claim.spec.allocated)
        }
        #: Wanted claims -> nodes that have their devices, as of a position in the change log.
        self._fits: dict[object, tuple[resources.Bools, int]] = {}

    def bound(self, claim: claims.Claim) -> bool:
        """Tell whether an unused claim must keep the devices that it was given."""
        spec = claim.spec
        if not spec.allocated:
            return False
        consumers = [(spec.namespace, name) for name in spec.reserved_for]
        return not consumers or any(consumer not in self._waiting for consumer in consumers)

    def in_use(
        self, within: Sequence[device_inventory.Known], but: Sequence[claims.Claim]
    ) -> tuple[set[claims.Id], set[claims.Id]]:
        """Return which of these devices others go on using, and which will be free."""
        state, own = self.state, {claim.key for claim in but}
        mine = {i for claim in but for i in claims.identities(claim.spec.allocated)}
        taken, leaving = set(), set()
        for known in within:
            identity = known.id
            keys = [key for key in state.holders.get(identity, ()) if key not in own]
            if any(state.claims[key].held() for key in keys) or (
                identity in self._orphans and identity not in mine
            ):
                taken.add(identity)
            elif keys or state.ghosts.get(identity):
                leaving.add(identity)
        return taken, leaving

    def allocate(
        self, wanted: Sequence[claims.Claim], node: int
    ) -> tuple[list[tuple[device_specs.Allocated, ...]], set[claims.Id]] | None:
        """Return devices for claims, and which devices of the node are still being left."""
        name = self.state.nodes.names[node]
        inventory = self.inventory
        within = inventory.on(name)
        if inventory.shared and inventory.totals:
            within = list(inventory.by_id.values())
        taken, leaving = self.in_use(within, wanted)
        given: dict[claims.Claim, tuple[device_specs.Allocated, ...]] = {}
        for claim in wanted:
            home = claim.spec.allocated
            if home and (
                (inventory.reaches(name, home) and not taken.intersection(claims.identities(home)))
                or (not inventory.on(name) and self.bound(claim))
            ):
                given[claim] = home
                taken.update(claims.identities(home))
        rest = [claim for claim in wanted if claim not in given]
        found = device_allocation.allocate(
            inventory, name, [claim.spec for claim in rest], taken=taken, leaving=leaving
        )
        if found is None:
            return None
        given.update(zip(rest, found, strict=True))
        return [given[claim] for claim in wanted], leaving

    def choose(self, wanted: Sequence[claims.Claim], node: int) -> None:
        """Give claims their devices on a node."""
        answer = self.allocate(wanted, node)
        found = answer[0] if answer is not None else [claim.spec.allocated for claim in wanted]
        for claim, given in zip(wanted, found, strict=True):
            claim.devices = given
            if given:
                claim.vector = claim.estimate.copy()
                claim.vector[resources.GPU] = self._gpus(claim.spec, given)

    def _gpus(self, spec: device_specs.Claim, given: Sequence[device_specs.Allocated]) -> int:
        classes = self.inventory.classes
        kinds = {o.name: classes.get(o.device_class) for options in spec.requests for o in options}
        first = next(iter(kinds.values()), None)
        total = 0
        for item in given:
            kind = kinds.get(item.request, first)
            known = self.inventory.by_id.get((item.driver, item.pool, item.device))
            if kind is not None and kind.gpu and not item.admin:
                total += known.weight if known is not None else resources.MILLI
        return total

    def fits(self, wanted: list[claims.Claim]) -> resources.Bools:
        """Return the nodes on which unused claims find devices; only changed nodes are asked."""
        state = self.state
        end, names = len(state.changed), state.nodes.names
        own = any(claim.spec.allocated for claim in wanted)
        key: object = tuple((c.spec.requests, c.spec.match) for c in wanted)
        if own:
            key = tuple(claim.key for claim in wanted)
        known = self._fits.get(key)
        if known is None or self.inventory.shared:
            mask = np.fromiter(
                (self._fits_on(wanted, node) for node in range(len(names))), np.bool_, len(names)
            )
        else:
            mask, seen = known
            for node in set(state.changed[seen:end]):
                mask[node] = self._fits_on(wanted, node)
        self._fits[key] = mask, end
        return mask

    def _fits_on(self, wanted: list[claims.Claim], node: int) -> bool:
        name = self.state.nodes.names[node]
        for claim in wanted:
            if self.bound(claim) and not self.inventory.reaches(name, claim.spec.allocated):
                return False
        return self.allocate(wanted, node) is not None

    def start(self, found: Sequence[claims.Claim], node: int) -> bool:
        """Tell whether the devices are there at this moment, not only when others have left."""
        wanted = [claim for claim in found if not claim.held()]
        if wanted:
            answer = self.allocate(wanted, node)
            if answer is None:
                return False
            chosen = {i for devices in answer[0] for i in claims.identities(devices)}
            if chosen & answer[1]:
                return False
        for claim in found:
            for identity in claims.identities(claim.devices) if claim.held() else ():
                others = [k for k in self.state.holders.get(identity, ()) if k != claim.key]
                if others or self.state.ghosts.get(identity):
                    return False
        return True


class _Claimed:
    title = "node(s) cannot satisfy the resource claims"
    fixed = False

    def __init__(self, devices: _Devices, shape: shapes.Shape) -> None:
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

    def open(self, session: session.Session) -> None:
        """Register the mask, and what no eviction changes."""
        if not session.observed.claiming:
            return
        devices = _Devices(session)
        state = session.state
        state.choose = devices.choose
        claims.settle(state)

        def make(shape: shapes.Shape) -> plugin.NodeMask | None:
            return _Claimed(devices, shape) if shape.constraints.claims else None

        def given(row: int, node: int) -> decisions.Devices:
            del node
            return tuple((claim.key[1], claim.devices) for claim in state.claims_of(row))

        session.decisions.assign = given
        session.points.node_masks.append(make)
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
