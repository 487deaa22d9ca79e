"""Where pods may run: the taints that they tolerate and the nodes that they ask for.

Capsule has one node selector for a whole tenant. These two sets of rules are Tenantry's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenantry.api.capsule import constants
from tenantry.tenancy.policy import blocks, engine, matching

Object = Mapping[str, Any]
Pair = tuple[str, str]
#: A label, and the values that it may have.
Choice = tuple[str, tuple[str, ...]]

ALL = "*"
#: Conditions of nodes, which are nobody's own: the cluster itself makes pods tolerate some of them.
_CONDITIONS = "node.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class Toleration:
    """The key of the taints that a pod tolerates; `ALL` when it tolerates every taint."""

    key: str

    def __str__(self) -> str:
        return self.key


def new_tolerations(pod: Object, old: Object | None) -> Iterator[tuple[str, Toleration]]:
    """Yield the path and the toleration of all that a change brings."""
    spec, before = pod.get("spec") or {}, (old or {}).get("spec") or {}
    known = {tuple(sorted(found.items())) for found in before.get("tolerations") or ()}
    for index, found in enumerate(spec.get("tolerations") or ()):
        if tuple(sorted(found.items())) not in known:
            yield f"spec.tolerations[{index}]", Toleration(str(found.get("key") or "") or ALL)
    if old is None and spec.get("nodeName"):
        # The scheduler, which obeys taints, never sees it.
        yield "spec.nodeName", Toleration(ALL)


def toleration_sets(
    selected: Sequence[blocks.Block],
) -> tuple[engine.RuleSet[Toleration], ...]:
    """Compile what limits tolerations."""
    return blocks.matched_set(
        "toleration",
        "Allowed tolerations",
        constants.FORBIDDEN_TOLERATION_EVENT,
        [
            (block, found.tolerations, "workloads.tolerations")
            for block, found in blocks.of_workloads(selected)
        ],
        _tolerated,
    )


def _tolerated(
    action: engine.Action, entries: Sequence[matching.Expression]
) -> Callable[[Toleration], bool]:
    def matches(value: Toleration) -> bool:
        if action != engine.ALLOW:
            # What tolerates everything tolerates what is denied, too.
            return value.key == ALL or any(entry.matches(value.key) for entry in entries)
        if value.key.startswith(_CONDITIONS):
            return True
        # "All but some" is not all.
        return any(
            entry.matches(value.key) for entry in entries if not (value.key == ALL and entry.negate)
        )

    return matches


@dataclass(frozen=True, slots=True)
class Bounds:
    """The nodes that a pod asks for.

    :param named: every (label, value) in it, also what it merely prefers
    :param alternatives: for each way to meet what it requires the values that each label may have
    """

    named: frozenset[Pair]
    alternatives: tuple[tuple[Choice, ...], ...]

    def __str__(self) -> str:
        shown = sorted(_written(pair) for pair in self.named)
        return engine.listed(shown) or "none"

    @property
    def size(self) -> int:
        """Return how many values one clause compares."""
        return len(self.named) + sum(len(v) for way in self.alternatives for _, v in way)


def bounds(pod: Object) -> Bounds:
    """Read the nodes that a pod asks for."""
    spec = pod.get("spec") or {}
    always: list[Choice] = [
        (key, (str(value),)) for key, value in (spec.get("nodeSelector") or {}).items()
    ]
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = [_term(term) for term in required.get("nodeSelectorTerms") or ()]
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    wishes = [_term(one.get("preference") or {}) for one in preferred]
    named: set[Pair] = {
        (key, value)
        for part in (always, *terms, *wishes)
        for key, values in part
        for value in values
    }
    return Bounds(
        frozenset(named), tuple(tuple(sorted([*always, *term])) for term in terms or [[]])
    )


def _term(term: Object) -> list[Choice]:
    """Return the values that a term lets labels have; other conditions name no node."""
    return [
        (str(one.get("key")), tuple(str(value) for value in one.get("values") or ()))
        for part in ("matchExpressions", "matchFields")
        for one in term.get(part) or ()
        if one.get("operator") == "In"
    ]


def _written(pair: Pair) -> str:
    return f"{pair[0]}={pair[1]}"


def node_selector_sets(selected: Sequence[blocks.Block]) -> tuple[engine.RuleSet[Bounds], ...]:
    """Compile what limits the nodes that pods ask for."""
    return blocks.matched_set(
        "node selector",
        "Allowed node selectors",
        constants.FORBIDDEN_NODES_EVENT,
        [
            (block, found.node_selectors, "workloads.nodeSelectors")
            for block, found in blocks.of_workloads(selected)
        ],
        _within,
    )


def _within(
    action: engine.Action, entries: Sequence[matching.Expression]
) -> Callable[[Bounds], bool]:
    def listed(key: str, value: str) -> bool:
        return any(entry.matches(_written((key, value))) for entry in entries)

    def matches(found: Bounds) -> bool:
        if action != engine.ALLOW:
            return any(listed(key, value) for key, value in found.named)
        # However it is met, one label has none but values that are listed.
        return all(
            any(values and all(listed(key, value) for value in values) for key, values in way)
            for way in found.alternatives
        )

    return matches
