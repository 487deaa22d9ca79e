"""What the engine is told about devices that are claimed: dynamic resource allocation.

Words are those of `resource.k8s.io`. Amounts of capacities and counters are in milli units.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from tenantry.scheduler.engine import specs


class Allocated(NamedTuple):
    """A device that a claim got."""

    driver: str
    pool: str
    device: str
    #: Name of the request it serves; `request/alternative` for prioritised ones.
    request: str = ""
    #: Looks at the device only, beside whoever uses it.
    admin: bool = False
    #: What it takes of a device that several claims share: (capacity, amount).
    consumed: tuple[tuple[str, int], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPolicy:
    """Which parts of a capacity can be had: given values, or a range in steps."""

    default: int | None = None
    values: tuple[int, ...] = ()
    least: int | None = None
    most: int | None = None
    step: int | None = None

    def rounded(self, asked: int | None, total: int) -> int | None:
        """Return what is taken for what is asked, None where that cannot be had."""
        if asked is None:
            return total if self.default is None else self.default
        if self.values:
            return min((value for value in self.values if value >= asked), default=None)
        if self.least is None:
            return asked
        taken = max(asked, self.least)
        if self.step:
            taken = self.least - (self.least - taken) // self.step * self.step
        return None if self.most is not None and taken > self.most else taken


ANY_PART = CapacityPolicy()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device of a slice.

    :param attributes: by domain, then name; versions as text
    :param counters: what it takes of the slice's counter sets: (set, counter, amount)
    :param node: the one node that reaches it, where its slice leaves that to devices
    """

    name: str
    attributes: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    capacity: Mapping[str, Mapping[str, int]] = dataclasses.field(default_factory=dict)
    counters: tuple[tuple[str, str, int], ...] = ()
    node: str = ""
    selector: specs.Terms = ()
    all_nodes: bool = False
    taints: tuple[specs.Taint, ...] = ()
    #: Several claims may have it, as long as their parts of its capacity fit together.
    shareable: bool = False
    #: How requests for a capacity are rounded, by `domain/name`.
    policies: Mapping[str, CapacityPolicy] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSlice:
    """Devices that a driver offers: on one node, on selected ones, or on all.

    :param counters: what partitions of devices share: (set, counter, amount)
    :param of_slices: how many slices its pool has; an incomplete pool is not used
    """

    name: str
    driver: str
    pool: str
    node: str = ""
    selector: specs.Terms = ()
    all_nodes: bool = False
    devices: tuple[Device, ...] = ()
    counters: tuple[tuple[str, str, int], ...] = ()
    generation: int = 0
    of_slices: int = 1
    gpu: bool = True


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClass:
    """Which devices a name stands for: those for which every CEL expression holds."""

    name: str
    selectors: tuple[str, ...] = ()
    #: Name of an extended resource by which pods may ask for it without a claim.
    extended: str = ""
    gpu: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """So many devices of a class, or all that match and are within reach."""

    name: str
    device_class: str
    count: int = 1
    every: bool = False
    selectors: tuple[str, ...] = ()
    admin: bool = False
    tolerations: tuple[specs.Toleration, ...] = ()
    #: How much of a device: (capacity, amount); the name alone means the driver's own.
    capacity: tuple[tuple[str, int], ...] = ()

    def tolerates(self, device: Device) -> bool:
        """Tell whether no taint of the device keeps this request off it."""
        return all(
            taint.effect not in ("NoSchedule", "NoExecute")
            or any(toleration.covers(taint) for toleration in self.tolerations)
            for taint in device.taints
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A resource claim.

    :param requests: for each request its alternatives, the preferred one first
    :param match: attributes (`domain/name`) that must be equal among the devices of some requests;
        no requests named: of all
    :param differ: attributes that must be different
    """

    namespace: str
    name: str
    requests: tuple[tuple[DeviceRequest, ...], ...]
    match: tuple[tuple[str, tuple[str, ...]], ...] = ()
    differ: tuple[tuple[str, tuple[str, ...]], ...] = ()
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: Made from a template for one pod, so no queue label is needed.
    template: bool = False
    allocated: tuple[Allocated, ...] = ()
    reserved_for: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """Return how many devices it asks for by number, first alternatives taken."""
        return sum(
            options[0].count for options in self.requests if options and not options[0].admin
        )

    @property
    def device_class(self) -> str:
        """Return the class of its first request."""
        return self.requests[0][0].device_class if self.requests and self.requests[0] else ""
