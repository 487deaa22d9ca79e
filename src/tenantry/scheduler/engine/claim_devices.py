"""Which devices are free where, for the claims of one session, and which a claim gets."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tenantry.scheduler.engine import (
    claims,
    device_allocation,
    device_inventory,
    device_specs,
    resources,
    shapes,
    specs,
)

if TYPE_CHECKING:
    from tenantry.scheduler.engine import session as sessions

#: Nodes looked at between two yields.
_STEP = 16
#: Shared device -> capacity -> what is in use of it.
Parts = dict[claims.Id, dict[str, int]]


class Devices:
    """What is free where, for one session."""

    def __init__(self, session: sessions.Session) -> None:
        self.state = session.state
        self.inventory: device_inventory.Inventory = session.observed.inventory()
        self._session = session
        #: Devices of claims that are allocated although no task that we know uses them.
        self._orphans = {
            identity
            for claim in self.state.claims.values()
            if not claim.users and self.bound(claim)
            for identity in claims.identities(claim.spec.allocated)
        }
        #: What such claims have of shared devices.
        self._orphaned: dict[claims.Id, list[tuple[specs.Key, device_specs.Allocated]]] = {}
        for claim in self.state.claims.values():
            for item in claim.spec.allocated if not claim.users and self.bound(claim) else ():
                identity = item.driver, item.pool, item.device
                self._orphaned.setdefault(identity, []).append((claim.key, item))
        #: Wanted claims -> nodes that have their devices, as of a position in the change log.
        self._fits: dict[object, tuple[resources.Bools, int]] = {}

    @functools.cached_property
    def _waiting(self) -> set[specs.Key]:
        """Return the tasks with claims that have no node."""
        tasks, node = self._session.observed.tables.tasks, self.state.node
        return {
            (task.namespace, task.name)
            for row in self._session.observed.claiming
            if node[row] < 0 and (task := tasks[row]) is not None
        }

    def bound(self, claim: claims.Claim) -> bool:
        """Tell whether an unused claim must keep the devices that it was given."""
        spec = claim.spec
        if not spec.allocated:
            return False
        consumers = [(spec.namespace, name) for name in spec.reserved_for]
        return not consumers or any(consumer not in self._waiting for consumer in consumers)

    def in_use(
        self, within: Sequence[device_inventory.Known], but: Sequence[claims.Claim]
    ) -> tuple[set[claims.Id], set[claims.Id], Parts]:
        """Return which of these devices others go on using, which will be free, and parts in use.

        Of a device that is shared, what others have is a part; who leaves it must have left first.
        """
        state, own = self.state, {claim.key for claim in but}
        mine = {i for claim in but for i in claims.identities(claim.spec.allocated)}
        taken, leaving = set(), set()
        parts: Parts = {}
        for known in within:
            identity = known.id
            if known.spec.shareable:
                parts[identity] = self._parts(identity, own)
            keys = [key for key in state.holders.get(identity, ()) if key not in own]
            held = [state.claims[key].held() for key in keys]
            if known.spec.shareable:
                if not all(held) or state.ghosts.get(identity):
                    leaving.add(identity)
            elif any(held) or (identity in self._orphans and identity not in mine):
                taken.add(identity)
            elif keys or state.ghosts.get(identity):
                leaving.add(identity)
        return taken, leaving, parts

    def _parts(self, identity: claims.Id, but: set[specs.Key]) -> dict[str, int]:
        """Sum up what claims that stay have of a shared device."""
        used: dict[str, int] = {}
        holding = [self.state.claims[key] for key in self.state.holders.get(identity, ())]
        given = [(claim.key, item) for claim in holding if claim.held() for item in claim.devices]
        given += self._orphaned.get(identity, ())
        for key, item in given:
            same = (item.driver, item.pool, item.device) == identity
            for name, amount in item.consumed if same and key not in but and not item.admin else ():
                used[name] = used.get(name, 0) + amount
        return used

    def allocate(
        self, wanted: Sequence[claims.Claim], node: int
    ) -> tuple[list[tuple[device_specs.Allocated, ...]], set[claims.Id]] | None:
        """Return devices for claims, and which devices of the node are still being left."""
        name = self.state.nodes.names[node]
        inventory = self.inventory
        within = inventory.on(name)
        if inventory.shared and inventory.totals:
            within = list(inventory.by_id.values())
        taken, leaving, parts = self.in_use(within, wanted)
        given: dict[claims.Claim, tuple[device_specs.Allocated, ...]] = {}
        for claim in wanted:
            home = claim.spec.allocated
            if home and (
                (inventory.reaches(name, home) and self._still_there(home, taken, parts))
                or (not inventory.on(name) and self.bound(claim))
            ):
                given[claim] = home
                for item in home:
                    identity = item.driver, item.pool, item.device
                    if identity in parts:
                        for part, amount in item.consumed:
                            parts[identity][part] = parts[identity].get(part, 0) + amount
                    elif not item.admin:
                        taken.add(identity)
        rest = [claim for claim in wanted if claim not in given]
        found = device_allocation.allocate(
            inventory,
            name,
            [claim.spec for claim in rest],
            taken=taken,
            leaving=leaving,
            consumed=parts,
        )
        if found is None:
            return None
        given.update(zip(rest, found, strict=True))
        return [given[claim] for claim in wanted], leaving

    def _still_there(
        self, home: Sequence[device_specs.Allocated], taken: set[claims.Id], parts: Parts
    ) -> bool:
        """Tell whether nobody else took what a claim was given before."""
        for item in home:
            identity = item.driver, item.pool, item.device
            used = parts.get(identity)
            known = self.inventory.by_id.get(identity)
            if item.admin or known is None:
                continue
            if used is None and identity in taken:
                return False
            if used is not None and any(
                used.get(name, 0) + amount > known.capacity.get(name, 0)
                for name, amount in item.consumed
            ):
                return False
        return True

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
                total += known.worth(item.consumed) if known is not None else resources.MILLI
        return total

    def estimate(self) -> None:
        """Say what claims for parts of devices will take at least, before devices are chosen."""
        least: dict[tuple[device_specs.DeviceRequest, ...], int] = {}
        for claim in self.state.claims.values():
            if claim.users or not claim.partial:
                continue
            claim.estimate = claim.estimate.copy()
            claim.estimate[resources.GPU] = 0
            for options in claim.spec.requests:
                if options not in least:
                    least[options] = self._least(options[0]) if options else 0
                claim.estimate[resources.GPU] += least[options]
            claim.vector = claim.estimate

    def _least(self, option: device_specs.DeviceRequest) -> int:
        kind = self.inventory.classes.get(option.device_class)
        if kind is None or not kind.gpu or option.admin:
            return 0
        worth = [
            known.worth(part)
            for known in self.inventory.by_id.values()
            if self.inventory.means(option, known) and (part := known.part(option)) is not None
        ]
        return min(worth, default=resources.MILLI) * option.count

    def fits(self, wanted: list[claims.Claim]) -> resources.Bools:
        """Return the nodes on which unused claims find devices; only changed nodes are asked."""
        state = self.state
        end, names = len(state.changed), state.nodes.names
        key = _alike(wanted)
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

    def warm(self, wanted: list[claims.Claim]) -> Iterator[None]:
        """Look at all nodes in steps, so that the first pod of a kind is not a long slice."""
        key = _alike(wanted)
        if key in self._fits or self.inventory.shared:
            return
        state = self.state
        end, size = len(state.changed), len(state.nodes.names)
        mask = np.zeros(size, np.bool_)
        for node in range(size):
            mask[node] = self._fits_on(wanted, node)
            if node % _STEP == _STEP - 1:
                yield
        self._fits[key] = mask, end

    def unused(self, shape: shapes.Shape) -> list[claims.Claim]:
        """Return the claims of a shape that exist and that nobody uses."""
        keys = ((shape.namespace, name) for name in shape.constraints.claims)
        found = [claim for key in keys if (claim := self.state.claims.get(key)) is not None]
        return [claim for claim in found if not claim.held()]

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
                known = self.inventory.by_id.get(identity)
                if known is not None and known.spec.shareable:
                    others = [k for k in others if not self.state.claims[k].held()]
                if others or self.state.ghosts.get(identity):
                    return False
        return True


def _alike(wanted: Sequence[claims.Claim]) -> object:
    """Return what makes unused claims find devices on the same nodes."""
    if any(claim.spec.allocated for claim in wanted):
        return tuple(claim.key for claim in wanted)
    return tuple((c.spec.requests, c.spec.match, c.spec.differ) for c in wanted)
