"""Constraints that look at other pods: host ports, (anti-)affinity, topology spread.

Only shapes which have them pay for them, and tasks that running or waiting ones repel or attract.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from tenantry.scheduler.engine import census, matching, plugin, resources, shapes, specs

if TYPE_CHECKING:
    from tenantry.scheduler.engine import session as sessions

#: A term, and the namespace of the pod that has it where that matters.
Term = tuple[specs.AffinityTerm, str]


class Terms:
    """What the session's tasks say about each other."""

    def __init__(self, session: sessions.Session) -> None:
        self.session = session
        self.counts = census.Registry(session)
        #: Rows by constraints, of tasks whose constraints look at others.
        self._by_shape: dict[int, list[int]] = collections.defaultdict(list)
        shape_of = session.state.shape_of
        for row in sorted(session.observed.with_terms):
            self._by_shape[shape_of[row].index].append(row)
        #: Required terms by which tasks keep others away, and terms that only prefer.
        self._repelling: dict[Term, list[int]] = collections.defaultdict(list)
        self._preferring: dict[tuple[Term, int], list[int]] = collections.defaultdict(list)
        for rows in self._by_shape.values():
            shape = shape_of[rows[0]]
            wanted = shape.constraints
            for term in wanted.pod_anti_affinity:
                if not term.weight:
                    self._repelling[term, shape.namespace].extend(rows)
                else:
                    self._preferring[(term, shape.namespace), -term.weight].extend(rows)
            for term in wanted.pod_affinity:
                # A required one attracts others with the weight that kube-scheduler gives it.
                weight = term.weight or HARD_WEIGHT
                self._preferring[(term, shape.namespace), weight].extend(rows)

    # -- counts ------------------------------------------------------------------------------

    def meant(self, term: specs.AffinityTerm, namespace: str) -> resources.Ints:
        """Count the tasks on each node that a term means."""
        return self.meant_by_all((term,), namespace)

    def meant_by_all(self, terms: tuple[specs.AffinityTerm, ...], namespace: str) -> resources.Ints:
        """Count the tasks on each node that every one of the terms means."""
        known = self.session.observed.namespaces

        def matches(row: int, task: specs.Task) -> bool:
            del row
            return all(matching.selects(term, namespace, task, known) for term in terms)

        key = "meant", terms, namespace
        return self.counts.selected(key, terms[0].selector, matches)

    def like(self, selector: tuple[specs.Requirement, ...], namespace: str) -> resources.Ints:
        """Count the tasks of a namespace on each node that a selector means."""

        def matches(row: int, task: specs.Task) -> bool:
            del row
            return task.namespace == namespace and matching.all_hold(selector, task.labels)

        return self.counts.selected(("like", selector, namespace), selector, matches)

    def with_ports(self, wanted: tuple[specs.HostPort, ...]) -> resources.Ints:
        """Count the tasks on each node whose host ports are in the way of these."""

        def matches(row: int, task: specs.Task) -> bool:
            del row
            return any(
                mine.conflicts(theirs) for theirs in task.constraints.ports for mine in wanted
            )

        return self.counts.count(
            ("ports", wanted), matches, lambda: self.session.observed.with_terms
        )

    def _having(self, key: object, rows: list[int]) -> resources.Ints:
        among = set(rows)
        return self.counts.count(key, lambda row, _: row in among, lambda: rows)

    # -- what others say about a task --------------------------------------------------------

    def view(self, *, prefer: bool) -> Callable[[int], plugin.NodeSet | None]:
        """Return what terms of other tasks mean for a task: nodes it must keep off, or a score."""
        verdicts: dict[int, list[tuple[Term, int, resources.Ints]]] = {}

        def found(row: int) -> list[tuple[Term, int, resources.Ints]]:
            known = verdicts.get(row)
            if known is None:
                task = self.session.state.tasks[row]
                known = verdicts[row] = [] if task is None else list(self._about(task, prefer))
            return known

        def required(row: int) -> plugin.NodeSet | None:
            about = found(row)
            if not about:
                return None
            mask = np.ones(len(self.session.state.nodes.names), np.bool_)
            for (term, _), _, by_node in about:
                within = census.domains(self.session, term.topology_key)
                mask &= within.spread(within.sums(by_node)) == 0
            return plugin.NodeSet(mask, title=AFFINITY)

        def preferred(row: int) -> plugin.NodeSet | None:
            about = found(row)
            if not about:
                return None
            score = np.zeros(len(self.session.state.nodes.names))
            for (term, _), weight, by_node in about:
                within = census.domains(self.session, term.topology_key)
                score += SCORE * weight * within.spread(within.sums(by_node))
            return plugin.NodeSet(None, score)

        return preferred if prefer else required

    def _about(self, task: specs.Task, prefer: bool) -> Iterable[tuple[Term, int, resources.Ints]]:
        known = self.session.observed.namespaces
        if prefer:
            for (term, weight), rows in self._preferring.items():
                if matching.selects(term[0], term[1], task, known):
                    yield term, weight, self._having(("prefer", term, weight), rows)
        else:
            for term, rows in self._repelling.items():
                if matching.selects(term[0], term[1], task, known):
                    yield term, 0, self._having(("repel", term), rows)

    def repels(self) -> bool:
        """Tell whether some task keeps others away."""
        return bool(self._repelling)

    def prefers(self) -> bool:
        """Tell whether some task would like others near or far."""
        return bool(self._preferring)


AFFINITY = "node(s) didn't match pod affinity/anti-affinity rules"
#: What a preferred term counts for, by its weight; and the weight of others' required affinity.
SCORE = 1_000_000.0
HARD_WEIGHT = 1


def of(session: sessions.Session) -> Terms:
    """Return the terms of a session."""
    found = session.notes.get("pod_terms")
    if not isinstance(found, Terms):
        found = session.notes["pod_terms"] = Terms(session)
    return found


class _Moving:
    """A mask that is computed from where pods are now."""

    fixed = False
    title = ""

    def __init__(self, session: sessions.Session, shape: shapes.Shape) -> None:
        self.session = session
        self.shape = shape
        self.terms = of(session)
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


class _Ports(_Moving):
    title = "node(s) didn't have free ports for the requested pod ports"

    def compute(self) -> resources.Bools:
        free: resources.Bools = self.terms.with_ports(self.shape.constraints.ports) == 0
        return free


def ports(session: sessions.Session, shape: shapes.Shape) -> plugin.NodeMask | None:
    """Return the mask for host ports."""
    return _Ports(session, shape) if shape.constraints.ports else None


def _required(terms: tuple[specs.AffinityTerm, ...]) -> tuple[specs.AffinityTerm, ...]:
    return tuple(term for term in terms if not term.weight)


class _Affinity(_Moving):
    title = AFFINITY

    def __init__(self, session: sessions.Session, shape: shapes.Shape) -> None:
        super().__init__(session, shape)
        self._wanted = _required(shape.constraints.pod_affinity)

    def compute(self) -> resources.Bools:
        namespace = self.shape.namespace
        mask = np.ones(len(self.session.state.nodes.names), np.bool_)
        if self._wanted:
            mask &= self._near_them()
        for term in _required(self.shape.constraints.pod_anti_affinity):
            within = census.domains(self.session, term.topology_key)
            there = within.sums(self.terms.meant(term, namespace))
            mask &= within.spread(there) == 0
        return mask

    def _near_them(self) -> resources.Bools:
        """Return the nodes near pods that every term means."""
        near, own, known = self._wanted, self.shape.sample, self.session.observed.namespaces
        by_node = self.terms.meant_by_all(near, own.namespace)
        mask = np.ones(len(by_node), np.bool_)
        anywhere = not by_node.any() and all(
            matching.selects(term, own.namespace, own, known) for term in near
        )
        for term in near:
            within = census.domains(self.session, term.topology_key)
            # The first of a group that wants to be together may go anywhere.
            mask &= within.known if anywhere else within.spread(within.sums(by_node)) > 0
        return mask


class _StillNear(_Affinity):
    """Where a task that is there has what it needs: itself counts, as the first of its group."""

    def compute(self) -> resources.Bools:
        return self._near_them()


def affinity(session: sessions.Session, shape: shapes.Shape) -> plugin.NodeMask | None:
    """Return the mask for required terms of the task's own."""
    constraints = shape.constraints
    required = _required(constraints.pod_affinity + constraints.pod_anti_affinity)
    return _Affinity(session, shape) if required else None


class SpreadRule:
    """Pods of one spread constraint by domain, over the nodes where the pod could be."""

    def __init__(
        self,
        session: sessions.Session,
        shape: shapes.Shape,
        rule: specs.Spread,
        eligible: resources.Bools,
    ) -> None:
        own = shape.sample
        self.rule = rule
        self.within = census.domains(session, rule.topology_key)
        by_node = of(session).like(rule.selector, own.namespace)
        self.counts = self.within.sums(by_node, eligible)
        #: Domains with some eligible node.
        self.present = self.within.sums(eligible.astype(np.int64)) > 0
        self.mine = int(matching.all_hold(rule.selector, own.labels))

    def least(self) -> int:
        """Return the pods of the emptiest domain; 0 while there are too few domains."""
        if int(self.present.sum()) < self.rule.min_domains:
            return 0
        return int(self.counts[self.present].min()) if self.present.any() else 0


def eligible(
    session: sessions.Session, shape: shapes.Shape, rule: specs.Spread, keys: Iterable[str]
) -> resources.Bools:
    """Return the nodes that count for a rule: by its policies, with all labels of such rules."""
    nodes, constraints = session.state.nodes.specs, shape.constraints
    mask = np.ones(len(nodes), np.bool_)
    for key in keys:
        mask &= census.domains(session, key).known
    if rule.by_affinity and (constraints.selector or constraints.affinity):
        mask &= np.fromiter(
            (matching.node_matches(constraints, node) for node in nodes), np.bool_, len(nodes)
        )
    if rule.by_taints:
        mask &= np.fromiter(
            (matching.tolerates(constraints, node) for node in nodes), np.bool_, len(nodes)
        )
    return mask


class _Spread(_Moving):
    title = "node(s) didn't match pod topology spread constraints"

    def __init__(self, session: sessions.Session, shape: shapes.Shape) -> None:
        super().__init__(session, shape)
        self._rules = [rule for rule in shape.constraints.spread if rule.hard]
        keys = [rule.topology_key for rule in self._rules]
        self._eligible = [eligible(session, shape, rule, keys) for rule in self._rules]

    def compute(self) -> resources.Bools:
        mask = np.ones(len(self.session.state.nodes.names), np.bool_)
        for rule, among in zip(self._rules, self._eligible, strict=True):
            spread = SpreadRule(self.session, self.shape, rule, among)
            there = spread.within.spread(spread.counts)
            mask &= spread.within.known & (there <= self.most(spread))
        return mask

    def most(self, spread: SpreadRule) -> int:
        """Return how many may be in a domain."""
        return spread.rule.max_skew + spread.least() - spread.mine


class _StillSpread(_Spread):
    """Where a task that is there is not one too many: itself counts already."""

    def most(self, spread: SpreadRule) -> int:
        return spread.rule.max_skew + spread.least()


def spread(session: sessions.Session, shape: shapes.Shape) -> plugin.NodeMask | None:
    """Return the mask for topology spread constraints that must hold."""
    return _Spread(session, shape) if spreads(shape) else None


def spreads(shape: shapes.Shape) -> bool:
    """Tell whether tasks of a shape must be spread."""
    return any(rule.hard for rule in shape.constraints.spread)


def follows(shape: shapes.Shape) -> bool:
    """Tell whether tasks of a shape must be near others."""
    return bool(_required(shape.constraints.pod_affinity))


def still(session: sessions.Session) -> Callable[[int], bool] | None:
    """Return whether a placed task has what it needs, also after others were taken away again."""
    if not any(follows(shape) or spreads(shape) for shape in session.observed.shapes_by_index):
        return None
    rules: dict[int, list[_Moving]] = {}

    def stands(row: int) -> bool:
        shape = session.state.shape_of[row]
        mine = rules.get(shape.index)
        if mine is None:
            mine = rules[shape.index] = []
            if follows(shape):
                mine.append(_StillNear(session, shape))
            if spreads(shape):
                mine.append(_StillSpread(session, shape))
        return all(rule.at(session.state.node[row]) for rule in mine)

    return stands
