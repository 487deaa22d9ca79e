"""Choose devices for claims on one node, as the allocator of Kubernetes does.

Depth first over requests in the order of the claims, devices in the order of their names; what does
not work out is taken back. The search is bounded: a node on which it would take too long is not
used.
"""

from __future__ import annotations

import collections
import types
from collections.abc import Collection, Mapping, Sequence

from tenantry.scheduler.engine import device_inventory, device_specs

Allocated = device_specs.Allocated
Id = device_inventory.Id
#: Devices looked at before a node is given up.
MOST_STEPS = 10_000
#: A claim holds at most so many devices.
MOST_DEVICES = 32
_NOTHING: Mapping[Id, Mapping[str, int]] = types.MappingProxyType({})


def allocate(
    inventory: device_inventory.Inventory,
    node: str,
    claims: Sequence[device_specs.Claim],
    *,
    taken: Collection[Id],
    leaving: Collection[Id] = (),
    consumed: Mapping[Id, Mapping[str, int]] = _NOTHING,
) -> list[tuple[Allocated, ...]] | None:
    """Return the devices of each claim, or None where they cannot all be had.

    :param taken: devices that others go on using
    :param leaving: devices that will be free; they are chosen last
    :param consumed: what others go on using of devices that are shared
    """
    within = inventory.on(node)
    if leaving:
        within = sorted(within, key=lambda known: known.id in leaving)
    return _Search(inventory, within, claims, taken, consumed).run()


def counters_used(
    inventory: device_inventory.Inventory, taken: Collection[Id]
) -> dict[tuple[tuple[str, str, str], str], int]:
    """Return what devices in use take of counters."""
    used: dict[tuple[tuple[str, str, str], str], int] = collections.defaultdict(int)
    if inventory.totals:
        for identity in taken:
            known = inventory.by_id.get(identity)
            for counter_set, counter, amount in known.counters if known is not None else ():
                used[counter_set, counter] += amount
    return used


class _Search:
    def __init__(
        self,
        inventory: device_inventory.Inventory,
        within: Sequence[device_inventory.Known],
        claims: Sequence[device_specs.Claim],
        taken: Collection[Id],
        consumed: Mapping[Id, Mapping[str, int]],
    ) -> None:
        self.inventory = inventory
        self.within = within
        self.claims = claims
        self.taken = set(taken)
        self.used = counters_used(inventory, taken)
        self.parts = {identity: dict(used) for identity, used in consumed.items()}
        self.steps = 0
        self.chosen: list[list[Allocated]] = [[] for _ in claims]
        #: Claim and position in `match` -> the value that its devices share.
        self.shared: dict[tuple[int, int], object] = {}
        #: Claim and position in `differ` -> the values that its devices have.
        self.distinct: dict[tuple[int, int], list[object]] = collections.defaultdict(list)

    def run(self) -> list[tuple[Allocated, ...]] | None:
        return [tuple(devices) for devices in self.chosen] if self._request(0, 0) else None

    def _request(self, number: int, position: int) -> bool:
        """Serve the requests from this one on."""
        if number == len(self.claims):
            return True
        requests = self.claims[number].requests
        if position == len(requests):
            return self._request(number + 1, 0)
        options = requests[position]
        for option in options:
            candidates = [k for k in self.within if self.inventory.means(option, k)]
            if option.every:
                # All that are there, or none: one in use by others is too many.
                count = len(candidates)
                if not count or any(not self._free(option, k) for k in candidates):
                    continue
            else:
                count = option.count
                candidates = [k for k in candidates if self._free(option, k)]
            again = any(k.spec.shareable for k in candidates)
            most = MOST_DEVICES - len(self.chosen[number])
            if not 1 <= count <= (most if again and candidates else min(len(candidates), most)):
                continue
            if self._devices((number, position), option, candidates, start=0, count=count):
                return True
        return False

    def _free(self, option: device_specs.DeviceRequest, known: device_inventory.Known) -> bool:
        if not option.tolerates(known.spec) or known.part(option) is None:
            return False
        return option.admin or known.id not in self.taken

    def _devices(
        self,
        where: tuple[int, int],
        option: device_specs.DeviceRequest,
        candidates: list[device_inventory.Known],
        *,
        start: int,
        count: int,
    ) -> bool:
        number, position = where
        if count == 0:
            return self._request(number, position + 1)
        again = any(known.spec.shareable for known in candidates)
        end = len(candidates) if again else len(candidates) - count + 1
        for index in range(start, end):
            self.steps += 1
            if self.steps > MOST_STEPS:
                return False
            known = candidates[index]
            undo = self._take(number, option, known)
            if undo is None:
                continue
            # A device that is shared may serve the same request once more.
            after = index if known.spec.shareable and not option.every else index + 1
            if self._devices(where, option, candidates, start=after, count=count - 1):
                return True
            self._give_back(number, option, known, undo)
        return False

    def _take(
        self, number: int, option: device_specs.DeviceRequest, known: device_inventory.Known
    ) -> list[tuple[int, int]] | None:
        """Take a device if counters and matching attributes allow it; return what to undo."""
        part = known.part(option) or ()
        if not option.admin and not (self._counters_left(known) and self._part_left(known, part)):
            return None
        if not self._differs(number, option, known):
            return None
        fresh: list[tuple[int, int]] = []
        for position, (attribute, requests) in enumerate(self.claims[number].match):
            if not _concerns(option, requests):
                continue
            value = _attribute(known.spec, attribute)
            key = number, position
            if value is None or self.shared.get(key, value) != value:
                for undone in fresh:
                    del self.shared[undone]
                return None
            if key not in self.shared:
                self.shared[key] = value
                fresh.append(key)
        for key, value in self._distinct(number, option, known):
            self.distinct[key].append(value)
        if not option.admin and known.spec.shareable:
            parts = self.parts.setdefault(known.id, {})
            for name, amount in part:
                parts[name] = parts.get(name, 0) + amount
        elif not option.admin:
            self.taken.add(known.id)
            for counter_set, counter, amount in known.counters:
                self.used[counter_set, counter] += amount
        self.chosen[number].append(Allocated(*known.id, option.name, option.admin, part))
        return fresh

    def _part_left(self, known: device_inventory.Known, part: Sequence[tuple[str, int]]) -> bool:
        used = self.parts.get(known.id, {})
        return all(used.get(name, 0) + amount <= known.capacity[name] for name, amount in part)

    def _distinct(
        self, number: int, option: device_specs.DeviceRequest, known: device_inventory.Known
    ) -> list[tuple[tuple[int, int], object]]:
        return [
            ((number, position), _attribute(known.spec, attribute))
            for position, (attribute, requests) in enumerate(self.claims[number].differ)
            if _concerns(option, requests)
        ]

    def _differs(
        self, number: int, option: device_specs.DeviceRequest, known: device_inventory.Known
    ) -> bool:
        return all(
            value is not None and value not in self.distinct[key]
            for key, value in self._distinct(number, option, known)
        )

    def _counters_left(self, known: device_inventory.Known) -> bool:
        totals: Mapping[tuple[str, str, str], Mapping[str, int]] = self.inventory.totals
        return all(
            self.used[counter_set, counter] + amount <= totals.get(counter_set, {}).get(counter, 0)
            for counter_set, counter, amount in known.counters
        )

    def _give_back(
        self,
        number: int,
        option: device_specs.DeviceRequest,
        known: device_inventory.Known,
        fresh: list[tuple[int, int]],
    ) -> None:
        gone = self.chosen[number].pop()
        for key in fresh:
            del self.shared[key]
        for where, _ in self._distinct(number, option, known):
            self.distinct[where].pop()
        if not option.admin and known.spec.shareable:
            for name, amount in gone.consumed:
                self.parts[known.id][name] -= amount
        elif not option.admin:
            self.taken.discard(known.id)
            for counter_set, counter, amount in known.counters:
                self.used[counter_set, counter] -= amount


def _concerns(option: device_specs.DeviceRequest, requests: Sequence[str]) -> bool:
    """Tell whether a constraint on these requests is about this one; none named: about all."""
    base = option.name.partition("/")[0]
    return not requests or option.name in requests or base in requests


def _attribute(spec: device_specs.Device, name: str) -> object:
    domain, _, short = name.rpartition("/")
    return spec.attributes.get(domain, {}).get(short)
