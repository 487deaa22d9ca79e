"""Keep the parts of a gang together: in one rack, one block, as close as possible.

A required level must be kept; a preferred one is tried first, and then decides which domains fill
first within a wider one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tenantry.scheduler.engine import (
    devices,
    domains,
    gangs,
    plugin,
    reasons,
    resources,
    session,
    shapes,
    specs,
    status,
)

SCORE = 100_000.0
STEPS = 10
HOPELESS = 1000.0


class _Trees:
    """Trees by topology, kept while nodes and topologies are the same."""

    def __init__(self) -> None:
        self._stamp: object = None
        self._trees: dict[str, domains.Tree] = {}

    def get(self, session: session.Session, name: str) -> domains.Tree | None:
        seen = session.observed
        topology = seen.topologies.get(name)
        if topology is None:
            return None
        stamp = seen.nodes_version, len(session.state.nodes.names)
        if stamp != self._stamp:
            self._trees.clear()
            self._stamp = stamp
        tree = self._trees.get(name)
        if tree is None or tree.topology != topology:
            tree = self._trees[name] = domains.Tree(topology, session.state.nodes.specs)
        return tree


class Topology:
    """Proposes node sets for constrained parts of a job."""

    name = "topology"

    def open(self, session: session.Session) -> None:
        """Register the node sets if any topology exists or is asked for."""
        trees = session.observed.keep(self.name, _Trees)

        def node_sets(
            job: plugin.JobState,
            member: gangs.Member,
            rows: Sequence[int],
            allowed: plugin.NodeSet,
        ) -> plugin.NodeSets:
            del job
            constraint = member.topology
            if constraint is None or not (constraint.required or constraint.preferred):
                return None
            tree = trees.get(session, constraint.topology)
            if tree is None:
                return reasons.Reason(
                    reasons.TOPOLOGY_UNKNOWN,
                    f"Requested topology {constraint.topology} does not exist",
                    {"topology": constraint.topology},
                    "create the topology or name another",
                )
            fit = _Fit(
                session, tree, constraint=constraint, member=member, rows=rows, allowed=allowed
            )
            return fit.node_sets()

        session.points.node_sets.append(node_sets)


class _Fit:
    """One question: where could these tasks go together?"""

    def __init__(
        self,
        session: session.Session,
        tree: domains.Tree,
        *,
        constraint: specs.TopologyConstraint,
        member: gangs.Member,
        rows: Sequence[int],
        allowed: plugin.NodeSet,
    ) -> None:
        self.session = session
        self.tree = tree
        self.constraint = constraint
        self.member = member
        self.rows = rows
        self.allowed = allowed
        self.total: resources.Ints = np.zeros(0, np.int64)
        self.free: resources.Ints = np.zeros((0, 0), np.int64)
        self.pods: resources.Ints | None = None

    def node_sets(self) -> plugin.NodeSets:
        constraint, tree = self.constraint, self.tree
        wanted: list[int] = []
        for name in (constraint.required, constraint.preferred):
            level = tree.level(name) if name else -1
            if level is None:
                return reasons.Reason(
                    reasons.TOPOLOGY_UNKNOWN,
                    f"Topology {constraint.topology} has no level {name}",
                    {"topology": constraint.topology, "level": name},
                    f"name one of {', '.join(tree.levels)}",
                )
            wanted.append(level)
        required, preferred = wanted
        bottom = preferred if preferred >= 0 else required
        start = tree.lowest_common(self.allowed.mask, bottom)
        self._measure()
        if not self._fits(start):
            return self._refusal(reasons.TOPOLOGY_CLUSTER, [start])
        top = max(required, -1)
        candidates = list(self._ordered(start, bottom))
        inside = self._where_running(required)
        levels = range(bottom, min(top, bottom) - 1, -1)
        chosen = []
        for level in levels:
            for domain in candidates:
                if domain.level == max(level, start.level) and self._fits(domain):
                    if inside is None or _under(domain, inside):
                        chosen.append(domain)
        chosen = list(dict.fromkeys(chosen))
        if not chosen:
            at_required = [d for d in start.walk() if d.level == max(required, start.level)]
            return self._refusal(reasons.TOPOLOGY, at_required)
        bonus, ranked = self._bonus(candidates, preferred)
        return self._masks(chosen, bonus, ranked)

    def _measure(self) -> None:
        """Sum up what is asked, and count how many such tasks each node could take."""
        state = self.session.state
        width = len(state.idle)
        vectors = [self._vector(row) for row in self.rows]
        stacked = np.array([resources.padded(vector, width) for vector in vectors])
        self.total = stacked.sum(axis=0)
        free = np.maximum(state.free, 0)
        shared = any(state.shape_of[row].shared for row in self.rows)
        if shared:
            free = free.copy()
            for node, groups in state.groups.items():
                capacity = max(state.nodes.gpu_memory[node], 1)
                left = sum(
                    max(devices.remaining(g, capacity), 0) * resources.MILLI // capacity
                    for g in groups.values()
                    if devices.whole(g)[1]
                )
                free[resources.GPU, node] += left
        if self.allowed.mask is not None:
            free = np.where(self.allowed.mask, free, 0)
        self.free = free
        asked = stacked > 0
        kinds = np.array([r >= resources.GPU for r in range(width)])
        mixed = (asked.any(axis=0) != asked.all(axis=0)) & kinds
        if not mixed.any():
            largest = stacked.max(axis=0)
            used = np.flatnonzero(largest)
            self.pods = (free[used] // largest[used][:, None]).min(axis=0)
            self._forbid()

    def _vector(self, row: int) -> resources.Ints:
        shape = self.session.state.shape_of[row]
        if not shape.shared:
            return shape.vector
        vector = shape.vector.copy()
        vector[resources.GPU] = shape.gpus_on(self.session.largest_gpu)
        return vector

    def _forbid(self) -> None:
        """Nodes that predicates refuse hold none of the tasks."""
        assert self.pods is not None
        shape_of = self.session.state.shape_of
        seen: set[int] = set()
        for row in self.rows:
            shape: shapes.Shape = shape_of[row]
            if shape.index not in seen:
                seen.add(shape.index)
                self.pods = np.where(self.session.ranker.column(shape).fixed_ok, self.pods, 0)

    def _count(self, domain: domains.Domain) -> int:
        assert self.pods is not None
        return int(self.pods[domain.rows].sum())

    def _ratio(self, domain: domains.Domain) -> float:
        used = np.flatnonzero(self.total)
        free = self.free[used][:, domain.rows].sum(axis=1)
        ratios = [
            HOPELESS if f <= 0 else t / f
            for t, f in zip(self.total[used].tolist(), free.tolist(), strict=True)
        ]
        return max(ratios, default=0.0)

    def _fits(self, domain: domains.Domain) -> bool:
        if self.pods is not None:
            return self._count(domain) >= len(self.rows)
        return self._ratio(domain) <= 1

    def _ordered(self, domain: domains.Domain, bottom: int) -> Iterator[domains.Domain]:
        """Yield domains with the fullest child first, down to the level that matters."""
        yield domain
        if domain.level < bottom:
            key = {id(child): (-self._ratio(child), child.name) for child in domain.children}
            for child in sorted(domain.children, key=lambda child: key[id(child)]):
                yield from self._ordered(child, bottom)

    def _where_running(self, required: int) -> set[int] | None:
        """Return the domains of the required level where pods of this part run already."""
        if required < 0:
            return None
        state = self.session.state
        nodes = {
            state.node[row]
            for leaf in gangs.podsets(self.member)
            for row in leaf.rows
            if status.IS_ACTIVE[state.status[row]] and row not in self.rows
        }
        if not nodes:
            return None
        return {
            domain.index
            for domain in self.tree.domains
            if domain.level == required and nodes & set(domain.rows.tolist())
        }

    def _bonus(
        self, candidates: list[domains.Domain], preferred: int
    ) -> tuple[resources.Floats | None, resources.Bools | None]:
        """Score the domains of the preferred level: the emptiest highest."""
        if preferred < 0:
            return self.allowed.bonus, None
        size = len(self.session.state.nodes.names)
        bonus, ranked = np.zeros(size), np.zeros(size, np.bool_)
        at_level = [domain for domain in candidates if domain.level == preferred]
        for i, domain in enumerate(at_level):
            bonus[domain.rows] = STEPS * (i + 1) // len(at_level) * SCORE
            ranked[domain.rows] = True
        return bonus, ranked

    def _masks(
        self,
        chosen: list[domains.Domain],
        bonus: resources.Floats | None,
        ranked: resources.Bools | None,
    ) -> Iterator[plugin.NodeSet]:
        size = len(self.session.state.nodes.names)
        for domain in chosen:
            mask = np.zeros(size, np.bool_)
            mask[domain.rows] = True
            if self.allowed.mask is not None:
                mask &= self.allowed.mask
            if ranked is not None:
                mask &= ranked
            yield plugin.NodeSet(mask, bonus)

    def _refusal(self, code: str, where: list[domains.Domain]) -> reasons.Reason:
        constraint = self.constraint
        level = constraint.required or constraint.preferred
        details: dict[str, Any] = {"topology": constraint.topology, "level": level}
        if code == reasons.TOPOLOGY:
            details["domains"] = {
                domain.name: {
                    "can_allocate": self._count(domain) if self.pods is not None else 0,
                    "required": len(self.rows),
                }
                for domain in where
            }
            message = f"no domain of level {level} in {constraint.topology} holds the whole group"
        else:
            message = f"the nodes of topology {constraint.topology} together lack resources"
        return reasons.Reason(code, message, details, "free capacity within one domain")


def _under(domain: domains.Domain, inside: set[int]) -> bool:
    step: domains.Domain | None = domain
    while step is not None:
        if step.index in inside:
            return True
        step = step.parent
    return False


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin; it takes no arguments."""
    del arguments
    return Topology()
