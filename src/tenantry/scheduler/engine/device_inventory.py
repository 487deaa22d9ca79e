"""Which devices each node reaches, and which of them a request means.

Built from slices when they or the nodes change, and kept between cycles. Selectors are evaluated
once for devices that look alike to them.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping

from tenantry.core import cel
from tenantry.core import errors as core_errors
from tenantry.scheduler.engine import device_specs, matching, resources, specs

Id = tuple[str, str, str]
#: Counter set of a pool -> counter -> amount.
Counters = dict[tuple[str, str, str], dict[str, int]]
_ITERATES = (".all(", ".exists(", ".exists_one(", ".map(", ".filter(", "size(", "has(")


class Known:
    """A device with what the allocator asks of it."""

    __slots__ = ("capacity", "counters", "id", "order", "spec", "weight")

    def __init__(self, piece: device_specs.DeviceSlice, spec: device_specs.Device) -> None:
        self.spec = spec
        self.id: Id = (piece.driver, piece.pool, spec.name)
        self.order = (piece.pool, spec.name)
        self.counters = [
            ((piece.driver, piece.pool, counter_set), counter, amount)
            for counter_set, counter, amount in spec.counters
        ]
        self.weight = weight(piece, spec)
        #: Capacities by `domain/name`.
        self.capacity = {
            f"{domain}/{name}": amount
            for domain, amounts in spec.capacity.items()
            for name, amount in amounts.items()
        }

    def part(self, option: device_specs.DeviceRequest) -> tuple[tuple[str, int], ...] | None:
        """Return what a request takes of the capacities, None where it asks for too much.

        A device that only one claim can have is taken whole if it is large enough.
        """
        asked = {
            (name if "/" in name else f"{self.id[0]}/{name}"): amount
            for name, amount in option.capacity
        }
        if any(self.capacity.get(name, -1) < amount for name, amount in asked.items()):
            return None
        if not self.spec.shareable:
            return ()
        taken = []
        for name, total in self.capacity.items():
            policy = self.spec.policies.get(name, device_specs.ANY_PART)
            amount = policy.rounded(asked.get(name), total)
            if amount is None or amount > total:
                return None
            taken.append((name, amount))
        return tuple(taken)

    def worth(self, consumed: Iterable[tuple[str, int]]) -> int:
        """Return what queues are charged in milli for a part of the device."""
        parts = [amount / total for name, amount in consumed if (total := self.capacity.get(name))]
        return round(self.weight * max(parts, default=1.0))


def weight(piece: device_specs.DeviceSlice, spec: device_specs.Device) -> int:
    """Return what a device counts for in milli: a partition its part of what is shared."""
    if not spec.counters:
        return resources.MILLI
    totals = {(counter_set, counter): amount for counter_set, counter, amount in piece.counters}
    parts = [
        amount / totals[key]
        for *key_, amount in spec.counters
        if totals.get(key := (key_[0], key_[1]))
    ]
    return round(max(parts, default=1.0) * resources.MILLI)


def gpus(piece: device_specs.DeviceSlice) -> int:
    """Return how many GPUs a slice offers in milli: partitions count as what they are cut from."""
    whole = sum(not device.counters for device in piece.devices)
    used = {counter_set for device in piece.devices for counter_set, *_ in device.counters}
    return resources.MILLI * (whole + len(used))


class Inventory:
    """Devices by node, for one state of slices, classes and nodes."""

    def __init__(
        self,
        slices: Mapping[str, device_specs.DeviceSlice],
        classes: Mapping[str, device_specs.DeviceClass],
        nodes: Iterable[specs.Node],
    ) -> None:
        self.classes = classes
        #: Whether some device can be reached from several nodes.
        self.shared = False
        self.totals: Counters = collections.defaultdict(dict)
        self.by_id: dict[Id, Known] = {}
        self._local: dict[str, list[Known]] = collections.defaultdict(list)
        self._wide: list[tuple[Known, specs.Terms, bool]] = []
        self._verdicts: dict[tuple[str, object], bool] = {}
        self._matching: dict[tuple[object, Id], bool] = {}
        #: Selectors that cannot be compiled or have no value for some device, with the reason.
        self.problems: dict[str, str] = {}
        for piece in self._complete(slices.values()):
            self._add(piece)
        by_name = {node.name: node for node in nodes}
        self._reach: dict[str, list[Known]] = {}
        for name, node in by_name.items():
            within = list(self._local.get(name, ()))
            within += [
                known for known, terms, every in self._wide if every or _selects(terms, node)
            ]
            within.sort(key=lambda known: known.order)
            self._reach[name] = within

    @staticmethod
    def _complete(
        pieces: Iterable[device_specs.DeviceSlice],
    ) -> list[device_specs.DeviceSlice]:
        """Return the newest generation of each pool, if all of its slices are there."""
        pools: dict[tuple[str, str], list[device_specs.DeviceSlice]] = collections.defaultdict(list)
        for piece in pieces:
            pools[piece.driver, piece.pool].append(piece)
        found = []
        for members in pools.values():
            newest = max(piece.generation for piece in members)
            current = [piece for piece in members if piece.generation == newest]
            if len(current) >= max(piece.of_slices for piece in current):
                found += sorted(current, key=lambda piece: piece.name)
        return found

    def _add(self, piece: device_specs.DeviceSlice) -> None:
        for counter_set, counter, amount in piece.counters:
            self.totals[piece.driver, piece.pool, counter_set][counter] = amount
        for spec in piece.devices:
            known = Known(piece, spec)
            self.by_id[known.id] = known
            node = spec.node or piece.node
            if node:
                self._local[node].append(known)
            else:
                terms = spec.selector or piece.selector
                self._wide.append((known, terms, piece.all_nodes or spec.all_nodes))
                self.shared = True

    def on(self, node: str) -> list[Known]:
        """Return the devices that a node reaches, in the order in which they are taken."""
        return self._reach.get(node, [])

    def reaches(self, node: str, devices: Iterable[device_specs.Allocated]) -> bool:
        """Tell whether a node reaches all these devices."""
        within = {known.id for known in self.on(node)}
        return all((item.driver, item.pool, item.device) in within for item in devices)

    def means(self, request: device_specs.DeviceRequest, known: Known) -> bool:
        """Tell whether a device is of the request's class and passes its selectors."""
        kind = self.classes.get(request.device_class)
        if kind is None:
            return False
        key = (request.device_class, request.selectors), known.id
        found = self._matching.get(key)
        if found is None:
            found = self._matching[key] = all(
                self._holds(text, known) for text in (*kind.selectors, *request.selectors)
            )
        return found

    def _holds(self, text: str, known: Known) -> bool:
        alike = text, _seen_by(text, known)
        verdict = self._verdicts.get(alike)
        if verdict is None:
            verdict = self._verdicts[alike] = self._evaluate(text, known)
        return verdict

    def _evaluate(self, text: str, known: Known) -> bool:
        device = {
            "driver": known.id[0],
            "attributes": {domain: dict(a) for domain, a in known.spec.attributes.items()},
            "capacity": {domain: dict(c) for domain, c in known.spec.capacity.items()},
        }
        try:
            return cel.compiled(text, ("device",)).holds({"device": device})
        except core_errors.TenantryError as problem:
            self.problems.setdefault(text, str(problem))
            return False


def _selects(terms: specs.Terms, node: specs.Node) -> bool:
    return bool(terms) and matching.node_matches(specs.Constraints(affinity=terms), node)


def _seen_by(text: str, known: Known) -> object:
    """Return the part of a device that an expression can see: devices that share it are alike."""
    spec = known.spec
    everything = any(word in text for word in _ITERATES)
    return (
        known.id[0],
        tuple(
            (kind, domain, name, value)
            for kind, tables in (("a", spec.attributes), ("c", spec.capacity))
            for domain, entries in tables.items()
            for name, value in entries.items()
            if everything or name in text
        ),
        tuple(spec.attributes),
        tuple(spec.capacity),
    )
