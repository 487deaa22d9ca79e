"""Align guaranteed pods to NUMA zones, and predict where the kubelet will put them.

Guaranteed pods are aligned in all resources that zones list, others only in devices. Argument
`ignoreList` names resources that are not aligned.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from tenantry.scheduler.engine import (
    alignment,
    plugin,
    resources,
    session,
    shapes,
    specs,
    status,
)

SCORE = 100.0
_SHARED = ("cpu", "memory")


class Zones:
    """Room in the zones of all nodes, and which task sits where."""

    def __init__(self, session: session.Session, ignored: Collection[str]) -> None:
        self._session = session
        self._ignored = ignored
        self.nodes: dict[int, specs.Numa] = {}
        self._total: dict[int, list[dict[str, int]]] = {}
        self._idle: dict[int, list[dict[str, int]]] = {}
        self._free: dict[int, list[dict[str, int]]] = {}
        #: Row -> (state, node, placement) as it is charged now.
        self._held: dict[int, tuple[int, int, alignment.Placement]] = {}
        self._last: dict[tuple[int, int], alignment.Placement] = {}
        for node, spec in enumerate(session.state.nodes.specs):
            if spec.numa is not None:
                self.nodes[node] = spec.numa
                totals = [dict(zone.allocatable) for zone in spec.numa.zones]
                self._total[node] = totals
                self._idle[node] = [dict(zone) for zone in totals]
                self._free[node] = [dict(zone) for zone in totals]
        for row, task in enumerate(session.state.tasks):
            node = session.state.node[row]
            if task is not None and task.numa and node in self.nodes:
                names = {zone.name: i for i, zone in enumerate(self.nodes[node].zones)}
                placement = [
                    (names[zone], dict(amounts)) for zone, amounts in task.numa if zone in names
                ]
                self._last[row, node] = placement
                self._charge(row, session.state.status[row], node, placement)

    def zones(self, node: int) -> dict[int, dict[str, int]]:
        """Return what each zone of a node has free at this moment."""
        return dict(enumerate(self._idle.get(node, ())))

    def requests(self, shape: shapes.Shape, scope: str) -> list[dict[str, int]]:
        """Return what is aligned: once for the pod, or container by container."""
        whole = {name: a for name, a in shape.requests.items() if self._aligned(shape, name)}
        containers = shape.sample.containers
        if scope != "container" or not containers:
            return [whole]
        return [
            {name: amount for name, amount in container if self._aligned(shape, name)}
            for container in containers
        ]

    def _aligned(self, shape: shapes.Shape, name: str) -> bool:
        if name in self._ignored:
            return False
        return shape.guaranteed or not (name in _SHARED or name.startswith("hugepages-"))

    def place(
        self, shape: shapes.Shape, node: int, *, now: bool = False
    ) -> alignment.Placement | None:
        """Return where a task would sit on a node; None when the policy refuses."""
        numa = self.nodes[node]
        room = [dict(zone) for zone in (self._idle if now else self._free)[node]]
        placed: alignment.Placement = []
        for request in self.requests(shape, numa.scope):
            part = alignment.fit(numa.policy, self._total[node], room, request)
            if part is None:
                return None
            for zone, amounts in part:
                for name, amount in amounts.items():
                    room[zone][name] = room[zone].get(name, 0) - amount
            placed += part
        return placed

    def moved(self, row: int, before: int, node: int) -> None:
        """Follow a task from state to state."""
        del before
        state = self._session.state
        now = state.status[row]
        old = self._held.pop(row, None)
        if old is not None:
            self._apply(old, 1)
            self._session.decisions.numa.pop(row, None)
        if node not in self.nodes or not (status.ON_IDLE[now] or status.ON_FREE[now]):
            return
        placement = old[2] if old is not None and old[1] == node else None
        if placement is None and now not in (status.ALLOCATED, status.PIPELINED):
            placement = self._last.get((row, node))
        if placement is None:
            placement = self.place(state.shape_of[row], node, now=now == status.ALLOCATED)
        if placement is not None:
            self._charge(row, now, node, placement)

    def _charge(self, row: int, now: int, node: int, placement: alignment.Placement) -> None:
        self._held[row] = now, node, placement
        self._last[row, node] = placement
        self._apply(self._held[row], -1)
        if placement:
            zones = tuple(sorted({zone for zone, _ in placement}))
            self._session.decisions.numa[row] = zones

    def _apply(self, held: tuple[int, int, alignment.Placement], sign: int) -> None:
        now, node, placement = held
        for effect, room in ((status.ON_IDLE, self._idle), (status.ON_FREE, self._free)):
            if effect[now]:
                for zone, amounts in placement:
                    for name, amount in amounts.items():
                        here = room[node][zone]
                        here[name] = here.get(name, 0) + sign * amount


class _Mask:
    title = "node(s) cannot align the pod to NUMA zones"
    fixed = False

    def __init__(self, zones: Zones, shape: shapes.Shape, size: int) -> None:
        self._zones = zones
        self._shape = shape
        self._size = size

    def everywhere(self) -> resources.Bools:
        mask = np.ones(self._size, np.bool_)
        for node in self._zones.nodes:
            mask[node] = self.at(node)
        return mask

    def at(self, node: int) -> bool:
        return node not in self._zones.nodes or self._zones.place(self._shape, node) is not None


class _Score:
    fixed = False

    def __init__(self, zones: Zones, shape: shapes.Shape, size: int) -> None:
        self._zones = zones
        self._shape = shape
        self._size = size

    def everywhere(self) -> resources.Floats:
        score = np.zeros(self._size)
        for node in self._zones.nodes:
            score[node] = self.at(node)
        return score

    def at(self, node: int) -> float:
        numa = self._zones.nodes.get(node)
        if numa is None:
            return 0.0
        placement = self._zones.place(self._shape, node)
        if not placement:
            return 0.0
        return SCORE / alignment.width(numa.policy, len(numa.zones), placement)


class NumaPlugin:
    """Filters and scores nodes by how well a pod aligns."""

    name = "numa"

    def __init__(self, ignored: Collection[str]) -> None:
        self._ignored = ignored

    def open(self, session: session.Session) -> None:
        """Register, if some node says how it is built."""
        zones = Zones(session, self._ignored)
        session.notes[self.name] = zones
        if not zones.nodes:
            return
        size = len(session.state.nodes.names)
        points = session.points
        points.moved.append(zones.moved)
        points.node_masks.append(lambda shape: _Mask(zones, shape, size))
        points.node_scores.append(lambda shape: _Score(zones, shape, size))

        def starts(row: int, node: int) -> bool:
            shape = session.state.shape_of[row]
            return node not in zones.nodes or zones.place(shape, node, now=True) is not None

        points.starts.append(starts)


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin with its `ignoreList`."""
    return NumaPlugin(frozenset(arguments.get("ignoreList", ())))
