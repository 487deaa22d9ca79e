"""The tree of topology domains: zones, blocks, racks, down to hosts, as node labels tell.

A node belongs to a topology when it carries the labels of all levels. A domain is known by the
label values of its level and those above, joined with dots.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from tenantry.scheduler.engine import specs

Rows = npt.NDArray[np.intp]


@dataclasses.dataclass(slots=True, eq=False)
class Domain:
    """A domain; level -1 is the root."""

    name: str
    level: int
    parent: Domain | None
    children: list[Domain] = dataclasses.field(default_factory=list)
    rows: Rows = dataclasses.field(default_factory=lambda: np.zeros(0, np.intp))
    index: int = 0

    def walk(self) -> Iterator[Domain]:
        """Yield this domain and all below."""
        yield self
        for child in self.children:
            yield from child.walk()


class Tree:
    """The domains of one topology over the nodes of a session."""

    def __init__(self, topology: specs.Topology, nodes: Sequence[specs.Node]) -> None:
        self.topology = topology
        self.levels = topology.levels
        self._aliases = topology.aliases
        self.root = Domain("", -1, None)
        found: dict[str, Domain] = {}
        members: dict[str, list[int]] = {"": []}
        for row, node in enumerate(nodes):
            values = [node.labels.get(level) for level in self.levels]
            if any(value is None for value in values):
                continue
            members[""].append(row)
            parent, name = self.root, ""
            for depth, value in enumerate(values):
                name = f"{name}.{value}" if name else str(value)
                domain = found.get(name)
                if domain is None:
                    domain = found[name] = Domain(name, depth, parent)
                    parent.children.append(domain)
                    members[name] = []
                members[name].append(row)
                parent = domain
        self.root.rows = np.array(members[""], np.intp)
        for name, domain in found.items():
            domain.rows = np.array(members[name], np.intp)
        self.domains: list[Domain] = [self.root]
        for domain in sorted(found.values(), key=lambda domain: (domain.level, domain.name)):
            domain.index = len(self.domains)
            self.domains.append(domain)
        for domain in self.domains:
            domain.children.sort(key=lambda child: child.name)

    def level(self, name: str) -> int | None:
        """Return the depth of a level by label or alias; None when there is none."""
        label = self._aliases.get(name, name)
        return self.levels.index(label) if label in self.levels else None

    def lowest_common(self, mask: npt.NDArray[np.bool_] | None, not_below: int) -> Domain:
        """Return the smallest domain with all the masked nodes that belong to the topology."""
        domain = self.root
        wanted = self.root.rows if mask is None else self.root.rows[mask[self.root.rows]]
        while domain.level < not_below and len(wanted):
            holder = [
                child
                for child in domain.children
                if np.isin(wanted, child.rows, assume_unique=True).all()
            ]
            if not holder:
                break
            domain = holder[0]
        return domain
