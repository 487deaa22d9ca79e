"""The shape of a gang: pod sets under groups, and what of it runs or could run.

A pod set is satisfied with `minimum` active pods, a group with `threshold` satisfied children.
The same words as in the API: a leaf subgroup is a pod set, an inner one a group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from tenantry.scheduler.engine import errors, specs, status, tables

DEFAULT = "default"
NONE_GONE: Mapping[int, int] = MappingProxyType({})
#: More pods than this in one job is taken for a mistake.
MOST_TASKS = 100_000
#: Nor does anybody nest subgroups this deep; the tree is walked by recursion.
MOST_LEVELS = 32


class PodSet:
    """A leaf: pods of which at least `minimum` must run together."""

    __slots__ = ("index", "minimum", "name", "rows", "topology")

    def __init__(
        self, name: str, minimum: int, topology: specs.TopologyConstraint | None = None
    ) -> None:
        self.name = name
        self.minimum = minimum
        self.topology = topology
        self.index = -1
        self.rows: list[int] = []


class Group:
    """An inner part: children of which at least `threshold` must be satisfied."""

    __slots__ = ("children", "name", "threshold", "topology")

    def __init__(
        self, name: str, threshold: int | None, topology: specs.TopologyConstraint | None = None
    ) -> None:
        self.name = name
        self.children: list[Member] = []
        self.threshold = -1 if threshold is None else threshold
        self.topology = topology


Member = PodSet | Group


def build(job: specs.Job) -> Group:
    """Return the tree of a job.

    :raises SetAside: for duplicate names, unknown or cyclic parents, negative or absurd minimums
    """
    root = Group("", job.min_subgroup, job.topology)
    if not job.subgroups:
        minimum = 1 if job.min_member is None else job.min_member
        _check_minimum(minimum, "minMember")
        root.children.append(PodSet(DEFAULT, minimum))
        root.threshold = 1
        return root
    by_name: dict[str, specs.Subgroup] = {}
    for subgroup in job.subgroups:
        if not subgroup.name or subgroup.name in by_name:
            raise errors.SetAside(
                "InvalidPodGroup", f'subgroup name "{subgroup.name}" is empty or used twice'
            )
        by_name[subgroup.name] = subgroup
    parents = {subgroup.parent for subgroup in job.subgroups}
    members: dict[str, Member] = {}
    for subgroup in job.subgroups:
        if subgroup.name in parents:
            threshold = subgroup.min_subgroup
            members[subgroup.name] = Group(subgroup.name, threshold, subgroup.topology)
        else:
            # A leaf without a minimum: what a flat group without one means, one pod.
            minimum = 1 if subgroup.min_member is None else subgroup.min_member
            _check_minimum(minimum, f"minMember of subgroup {subgroup.name}")
            members[subgroup.name] = PodSet(subgroup.name, minimum, subgroup.topology)
    for subgroup in job.subgroups:
        _check_line(subgroup, by_name)
        parent = members[subgroup.parent] if subgroup.parent else root
        if isinstance(parent, Group):
            parent.children.append(members[subgroup.name])
    for group in (root, *(member for member in members.values() if isinstance(member, Group))):
        if group.threshold < 0:
            group.threshold = len(group.children)
    return root


def _check_minimum(minimum: int, field: str) -> None:
    if not 0 <= minimum <= MOST_TASKS:
        raise errors.SetAside(
            "InvalidPodGroup", f"{field} is {minimum}; accepted is 0 to {MOST_TASKS}"
        )


def _check_line(subgroup: specs.Subgroup, by_name: dict[str, specs.Subgroup]) -> None:
    seen = {subgroup.name}
    name = subgroup.parent
    while name:
        if name not in by_name:
            raise errors.SetAside(
                "InvalidPodGroup", f'subgroup "{subgroup.name}" has the unknown parent "{name}"'
            )
        if name in seen:
            raise errors.SetAside(
                "InvalidPodGroup", f'subgroup "{subgroup.name}" is its own ancestor'
            )
        if len(seen) >= MOST_LEVELS:
            raise errors.SetAside(
                "InvalidPodGroup",
                f'subgroup "{subgroup.name}" is more than {MOST_LEVELS} levels deep',
            )
        seen.add(name)
        name = by_name[name].parent


def podsets(member: Member) -> Iterator[PodSet]:
    """Yield the leaves in order."""
    if isinstance(member, PodSet):
        yield member
    else:
        for child in member.children:
            yield from podsets(child)


def satisfied(member: Member, state: tables.Tables) -> bool:
    """Tell whether enough of it is active."""
    if isinstance(member, PodSet):
        return state.active(member.index) >= member.minimum
    return sum(satisfied(child, state) for child in member.children) >= member.threshold


def ready(member: Member, state: tables.Tables) -> bool:
    """Tell whether enough pods exist, gated ones apart, for it to start at all."""
    if isinstance(member, PodSet):
        return alive(member, state) >= member.minimum
    return sum(ready(child, state) for child in member.children) >= member.threshold


def alive(podset: PodSet, state: tables.Tables) -> int:
    """Count the pods that run or may run."""
    return state.active(podset.index) + state.pending(podset.index)


def below_minimum(member: Member, state: tables.Tables) -> bool:
    """Tell whether something runs there and fewer than the gang needs.

    Groups need `threshold` children, so optional subgroups that never started do not count.
    """
    if isinstance(member, PodSet):
        return used(member, state) < member.minimum
    enough = sum(not below_minimum(child, state) for child in member.children)
    return enough < member.threshold


def used(podset: PodSet, state: tables.Tables) -> int:
    """Count the pods that hold resources, leaving ones included."""
    return (
        state.active(podset.index)
        + state.in_state(podset.index, status.RELEASING)
        + state.in_state(podset.index, status.STUCK)
    )


def elasticity(
    leaves: Sequence[PodSet], state: tables.Tables, gone: Mapping[int, int] = NONE_GONE
) -> int:
    """Return -1 below the minimum somewhere, 1 above it somewhere, else 0.

    :param gone: tasks by pod set that are thought away
    """
    above = False
    for leaf in leaves:
        active = state.active(leaf.index)
        if gone:
            active -= gone.get(leaf.index, 0)
        if active < leaf.minimum:
            return -1
        above = above or active > leaf.minimum
    return 1 if above else 0


def order(member: Member, state: tables.Tables) -> tuple[float, float, float, str]:
    """Return the key by which members are served: unsatisfied first, then the least filled."""
    if isinstance(member, PodSet):
        filled, minimum = state.active(member.index), member.minimum
    else:
        filled = sum(satisfied(child, state) for child in member.children)
        minimum = member.threshold
    if filled < minimum:
        return 0, 0, 0, member.name
    if minimum > 0:
        return 1, 0, filled / minimum, member.name
    return 1, 1, filled, member.name
