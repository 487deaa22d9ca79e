"""Look for victims that share one node: the smallest disturbance for a task that fits on one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tenantry.scheduler.engine import plugin, scenario, session


class NodeLocalGreedy:
    """After each further victim, tries the victims so far on each of that victim's nodes."""

    name = "sg-nodelocalgreedy"

    def open(self, session: session.Session) -> None:
        """Register the generator."""
        session.points.generators.append(self)

    def scenarios(self, probe: scenario.Probe) -> Iterator[list[scenario.Unit] | None]:
        """Yield sets of victims on one node, growing with the order of victims."""
        if probe.fixed:
            yield []
        state = probe.session.state
        on_node: dict[int, list[scenario.Unit]] = {}
        for unit in probe.units():
            nodes = dict.fromkeys(state.node[row] for row in unit[1])
            for node in nodes:
                on_node.setdefault(node, []).append(unit)
            for node in nodes:
                if probe.could_fit(on_node[node]):
                    yield list(on_node[node])
            yield None


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin; it takes no arguments."""
    del arguments
    return NodeLocalGreedy()
