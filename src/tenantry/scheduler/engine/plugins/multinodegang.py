"""Look for victims on several nodes at once, for gangs that no single node can hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tenantry.scheduler.engine import plugin, resources, scenario, session

#: Victims sorted by node between two yields.
PACE = 1024


class MultiNodeGang:
    """Empties more and more nodes, those that need the least first."""

    name = "sg-multinodegang"

    def open(self, session: session.Session) -> None:
        """Register the generator."""
        session.points.generators.append(self)

    def scenarios(self, probe: scenario.Probe) -> Iterator[list[scenario.Unit] | None]:
        """Yield the victims of growing sets of nodes."""
        state = probe.session.state
        units = []
        for unit in probe.units():
            units.append(unit)
            yield None
        on_node: dict[int, list[int]] = {}
        freed: dict[int, int] = {}
        for _, rows in probe.fixed:
            for row in rows:
                freed[state.node[row]] = freed.get(state.node[row], 0) + probe.gpus(row)
        for index, (_, rows) in enumerate(units):
            if index % PACE == PACE - 1:
                yield None
            for row in rows:
                node = state.node[row]
                freed[node] = freed.get(node, 0) + probe.gpus(row)
                indexes = on_node.setdefault(node, [])
                if not indexes or indexes[-1] != index:
                    indexes.append(index)
        free = state.free[resources.GPU]
        smallest = min(probe.gpus(row) for row in probe.rows)
        yield None
        capacity = {node: max(int(free[node]), 0) + freed[node] for node in on_node}
        nodes = [node for node in on_node if capacity[node] >= smallest]
        nodes.sort(key=capacity.__getitem__)
        elsewhere = sum(
            max(int(amount), 0) + freed.get(node, 0)
            for node, amount in enumerate(free.tolist())
            if node not in on_node
        )
        missing = sum(probe.gpus(row) for row in probe.rows) - elsewhere
        count = 0
        while missing > 0 and count < len(nodes):
            missing -= capacity[nodes[count]]
            count += 1
        step = 1
        while count <= len(nodes):
            chosen = sorted({index for node in nodes[:count] for index in on_node[node]})
            picked = [units[index] for index in chosen]
            if probe.could_fit(picked):
                yield picked
            if count == len(nodes):
                return
            count = min(count + step, len(nodes))
            step *= 2


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin; it takes no arguments."""
    del arguments
    return MultiNodeGang()
