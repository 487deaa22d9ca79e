"""Resource claims while tasks use them: the devices they hold, and what that takes from a node.

A claim takes its devices once, however many tasks share it, and is charged to one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tenantry.scheduler.engine import device_specs, resources, specs, status

if TYPE_CHECKING:
    from tenantry.scheduler.engine import tables

NOWHERE = -1
Id = tuple[str, str, str]


class Claim:
    """A resource claim: what it takes from a node while somebody uses it."""

    __slots__ = ("devices", "estimate", "key", "node", "partial", "spec", "users", "vector")

    def __init__(self, spec: device_specs.Claim, estimate: resources.Ints) -> None:
        self.spec = spec
        self.key: specs.Key = (spec.namespace, spec.name)
        #: What it will take as far as that is known before devices are chosen.
        self.estimate = estimate
        self.vector = estimate
        self.node = NOWHERE
        #: Row of each user -> its state.
        self.users: dict[int, int] = {}
        #: What it holds while it has users.
        self.devices: tuple[device_specs.Allocated, ...] = ()
        #: Asks for parts of devices.
        self.partial = any(o.capacity for options in spec.requests for o in options) or any(
            item.consumed for item in spec.allocated
        )

    def held(self) -> bool:
        """Tell whether somebody uses it who is not leaving."""
        return any(status.ON_FREE[state] for state in self.users.values())

    def payer(self) -> int:
        """Return the row that is charged; -1 when nobody active uses it."""
        return min((row for row, s in self.users.items() if status.IS_ACTIVE[s]), default=-1)

    def gpus(self) -> int:
        """Return its GPUs in milli."""
        return int(self.vector[resources.GPU])

    def copy(self) -> Claim:
        """Return an independent record."""
        twin = Claim.__new__(Claim)
        twin.spec = self.spec
        twin.key = self.key
        twin.estimate = self.estimate
        twin.partial = self.partial
        twin.vector = self.vector
        twin.node = self.node
        twin.users = dict(self.users)
        twin.devices = self.devices
        return twin


def identities(devices: Sequence[device_specs.Allocated]) -> list[Id]:
    """Return the devices that are used by claims, each once; some may be had in parts."""
    found = ((item.driver, item.pool, item.device) for item in devices if not item.admin)
    return list(dict.fromkeys(found))


def use(state: tables.Tables, found: Sequence[Claim], row: int, now: int) -> None:
    """Follow a task that uses claims into its new state; the node is where it is by now."""
    node = state.node[row]
    waiting = []
    for claim in found:
        _effect(state, claim, -1)
        claim.users.pop(row, None)
        if node >= 0 and status.IS_USED[now]:
            claim.users[row] = now
        target = _place(state, claim)
        if target != claim.node:
            _let_go(state, claim)
            claim.node = target
            if target >= 0:
                waiting.append(claim)
    if waiting:
        if state.choose is not None:
            state.choose(waiting, node)
        else:
            for claim in waiting:
                claim.devices = claim.spec.allocated
        for claim in waiting:
            _hold(state, claim)
    for claim in found:
        _effect(state, claim, 1)


def settle(state: tables.Tables) -> None:
    """Choose devices for claims in use of which nobody has said yet what they got.

    Claims that have parts of devices are weighed anew: only now is known what they are parts of.
    """
    open_ones = [
        claim
        for claim in state.claims.values()
        if claim.users and (claim.partial or not claim.devices)
    ]
    for claim in sorted(open_ones, key=lambda claim: claim.key):
        if state.choose is not None:
            named = bool(claim.devices)
            _effect(state, claim, -1)
            state.choose([claim], claim.node)
            if not named:
                _hold(state, claim)
            _effect(state, claim, 1)


def _hold(state: tables.Tables, claim: Claim) -> None:
    for identity in identities(claim.devices):
        state.holders[identity] = (*state.holders.get(identity, ()), claim.key)


def _place(state: tables.Tables, claim: Claim) -> int:
    """Return the node of those who stay, else of those who leave."""
    place = NOWHERE
    for row, now in claim.users.items():
        place = state.node[row]
        if status.ON_FREE[now]:
            break
    return place


def _let_go(state: tables.Tables, claim: Claim) -> None:
    for identity in identities(claim.devices):
        left = tuple(key for key in state.holders.get(identity, ()) if key != claim.key)
        if left:
            state.holders[identity] = left
        else:
            state.holders.pop(identity, None)
    claim.devices = ()
    claim.vector = claim.estimate


def _effect(state: tables.Tables, claim: Claim, sign: int) -> None:
    if not claim.users:
        return
    node, states = claim.node, claim.users.values()
    vector = resources.padded(claim.vector, len(state.idle))
    if any(status.ON_IDLE[s] for s in states):
        state.idle[:, node] -= sign * vector
    if any(status.ON_FREE[s] for s in states):
        state.free[:, node] -= sign * vector
    payer = claim.payer()
    if payer >= 0 and state.podset[payer] >= 0:
        charges = (0, 0, claim.gpus(), *(0,) * len(state.extras))
        state.bill(state.podset[payer], charges, sign)
    state.changed.append(node)


def haunt(state: tables.Tables, claim: Claim, node: int, sign: int) -> None:
    """Add or remove what a task that is planned elsewhere holds until it has left."""
    if not claim.spec.allocated:
        return
    state.idle[:, node] -= sign * resources.padded(claim.estimate, len(state.idle))
    for identity in identities(claim.spec.allocated):
        state.ghosts[identity] = state.ghosts.get(identity, 0) + sign
    state.changed.append(node)
