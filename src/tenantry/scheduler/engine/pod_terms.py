"""Constraints that look at other pods: host ports, (anti-)affinity, topology spread.

They are rare and costly, so that only shapes which have them, or clusters where running pods
repel others, pay for them.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tenantry.scheduler.engine import matching, plugin, resources, shapes, specs, status

if TYPE_CHECKING:
    from tenantry.scheduler.engine import session as sessions

Placed = tuple[specs.Task, int]


class _Moving:
    """A mask that is computed from where pods are now."""

    fixed = False

    def __init__(self, session: sessions.Session, shape: shapes.Shape) -> None:
        self.session = session
        self.shape = shape
        self._stamp = -1
        self._mask: resources.Bools = np.zeros(0, np.bool_)

    def everywhere(self) -> resources.Bools:
        """Return the mask as of now."""
        stamp = len(self.session.state.changed)
        if stamp != self._stamp:
            self._mask = self.compute()
            self._stamp = stamp
        return self._mask

    def at(self, node: int) -> bool:
        """Return the mask at one node."""
        return bool(self.everywhere()[node])

    def compute(self) -> resources.Bools:
        """Return the nodes that may be used."""
        raise NotImplementedError


def placed(session: sessions.Session) -> Iterator[Placed]:
    """Yield the tasks that are, or are planned, on a node, and are not leaving."""
    state = session.state
    for row, task in enumerate(state.tasks):
        node = state.node[row]
        if task is not None and node >= 0 and status.ON_FREE[state.status[row]]:
            yield task, node


def any_anti_affinity(session: sessions.Session) -> bool:
    """Tell whether some task repels others."""
    tasks = session.state.tasks
    for row in session.observed.with_terms:
        task = tasks[row]
        if task is not None and any(not t.weight for t in task.constraints.pod_anti_affinity):
            return True
    return False


class _Ports(_Moving):
    title = "node(s) didn't have free ports for the requested pod ports"

    def compute(self) -> resources.Bools:
        wanted = set(self.shape.constraints.ports)
        mask = np.ones(len(self.session.state.nodes.names), np.bool_)
        for task, node in placed(self.session):
            if wanted & set(task.constraints.ports):
                mask[node] = False
        return mask


def ports(session: sessions.Session, shape: shapes.Shape) -> plugin.NodeMask | None:
    """Return the mask for host ports."""
    return _Ports(session, shape) if shape.constraints.ports else None


def _domain(session: sessions.Session, node: int, key: str) -> str | None:
    spec = session.state.nodes.specs[node]
    if key == "kubernetes.io/hostname":
        return spec.labels.get(key, spec.name)
    return spec.labels.get(key)


class _Affinity(_Moving):
    title = "node(s) didn't match pod affinity/anti-affinity rules"

    def compute(self) -> resources.Bools:
        session, shape = self.session, self.shape
        nodes = range(len(session.state.nodes.names))
        own = shape.sample
        here = list(placed(session))
        mask = np.ones(len(nodes), np.bool_)
        for term in shape.constraints.pod_affinity:
            if term.weight:
                continue
            domains = {
                _domain(session, node, term.topology_key)
                for task, node in here
                if matching.selects(term, own.namespace, task)
            } - {None}
            if not domains and matching.selects(term, own.namespace, own):
                # The first of a group that wants to be together may go anywhere.
                mask &= np.array(
                    [_domain(session, node, term.topology_key) is not None for node in nodes]
                )
            else:
                mask &= np.array(
                    [_domain(session, node, term.topology_key) in domains for node in nodes]
                )
        for term in shape.constraints.pod_anti_affinity:
            if not term.weight:
                self._repel(
                    mask,
                    term.topology_key,
                    [n for task, n in here if matching.selects(term, own.namespace, task)],
                )
        for task, node in here:
            for term in task.constraints.pod_anti_affinity:
                if not term.weight and matching.selects(term, task.namespace, own):
                    self._repel(mask, term.topology_key, [node])
        return mask

    def _repel(self, mask: resources.Bools, key: str, sources: list[int]) -> None:
        session = self.session
        domains = {_domain(session, node, key) for node in sources} - {None}
        if domains:
            for node in range(len(mask)):
                if _domain(session, node, key) in domains:
                    mask[node] = False


def affinity(session: sessions.Session, shape: shapes.Shape) -> plugin.NodeMask | None:
    """Return the mask for required pod affinity and anti-affinity, in both directions."""
    constraints = shape.constraints
    required = any(not t.weight for t in constraints.pod_affinity + constraints.pod_anti_affinity)
    if required or (session.observed.with_terms and any_anti_affinity(session)):
        return _Affinity(session, shape)
    return None


class SpreadRule:
    """Pods of one spread constraint by domain, over the nodes that the pod's affinity allows."""

    def __init__(
        self, session: sessions.Session, shape: shapes.Shape, rule: specs.Spread, here: list[Placed]
    ) -> None:
        nodes = session.state.nodes.specs
        own = shape.sample
        self.rule = rule
        self.domain_of = [_domain(session, node, rule.topology_key) for node in range(len(nodes))]
        self.counts: collections.Counter[str | None] = collections.Counter()
        for node, spec in enumerate(nodes):
            if self.domain_of[node] is not None and matching.node_matches(shape.constraints, spec):
                self.counts[self.domain_of[node]] += 0
        for task, node in here:
            if (
                self.domain_of[node] in self.counts
                and task.namespace == own.namespace
                and matching.all_hold(rule.selector, task.labels)
            ):
                self.counts[self.domain_of[node]] += 1
        self.mine = int(matching.all_hold(rule.selector, own.labels))

    def least(self) -> int:
        """Return the pods of the emptiest domain; 0 while there are too few domains."""
        if len(self.counts) < self.rule.min_domains:
            return 0
        return min(self.counts.values(), default=0)


class _Spread(_Moving):
    title = "node(s) didn't match pod topology spread constraints"

    def compute(self) -> resources.Bools:
        session, shape = self.session, self.shape
        here = list(placed(session))
        mask = np.ones(len(session.state.nodes.names), np.bool_)
        for rule in shape.constraints.spread:
            if not rule.hard:
                continue
            spread = SpreadRule(session, shape, rule, here)
            most = rule.max_skew + spread.least() - spread.mine
            for node, domain in enumerate(spread.domain_of):
                if domain is None or spread.counts[domain] > most:
                    mask[node] = False
        return mask


def spread(session: sessions.Session, shape: shapes.Shape) -> plugin.NodeMask | None:
    """Return the mask for topology spread constraints that must hold."""
    hard = any(rule.hard for rule in shape.constraints.spread)
    return _Spread(session, shape) if hard else None
