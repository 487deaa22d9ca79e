"""Choose which tasks of a job to try next, and which to evict next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from tenantry.scheduler.engine import gangs, status, tables

if TYPE_CHECKING:
    from tenantry.scheduler.engine import session as sessions

JobState = "sessions.JobState"


def by_leaf(state: tables.Tables, rows: Iterable[int]) -> dict[int, list[int]]:
    """Group rows by pod set."""
    grouped: dict[int, list[int]] = {}
    for row in rows:
        grouped.setdefault(state.podset[row], []).append(row)
    return grouped


def next_tasks(
    session: sessions.Session,
    job: sessions.JobState,
    evicted: Collection[int] = (),
    avoid: Collection[int] = (),
) -> list[int]:
    """Return the tasks that would be placed together next: a gang's minimum, or one elastic pod.

    :param evicted: rows that count as pending, because a simulation has evicted them
    :param avoid: ids of members of the gang that come last, because they found no room
    """
    if job.tree is None:
        return []
    session.sort_tasks(job)
    if len(job.leaves) == 1 and len(job.tree.children) == 1:
        leaf = job.leaves[0]
        return _of_leaf(session.state, leaf, evicted)
    return _collect(session, job.tree, evicted, avoid)


def _of_leaf(state: tables.Tables, leaf: gangs.PodSet, evicted: Collection[int]) -> list[int]:
    missing = leaf.minimum - state.active(leaf.index)
    wanted = missing if missing > 0 else 1
    if not evicted and not state.pending(leaf.index):
        return []
    states = state.status
    if not evicted:
        if wanted == 1:
            return [next(row for row in leaf.rows if states[row] == status.PENDING)]
        return [row for row in leaf.rows if states[row] == status.PENDING][:wanted]
    found: list[int] = []
    for row in leaf.rows:
        if states[row] == status.PENDING or (row in evicted and states[row] == status.RELEASING):
            found.append(row)
            if len(found) == wanted:
                break
    return found


def _collect(
    session: sessions.Session,
    member: gangs.Member,
    evicted: Collection[int],
    avoid: Collection[int],
) -> list[int]:
    state = session.state
    if isinstance(member, gangs.PodSet):
        return _of_leaf(state, member, evicted)
    key: Callable[[gangs.Member], object] = session.points.member_key or (
        lambda child: gangs.order(child, state)
    )
    children = sorted(member.children, key=key)  # type: ignore[arg-type]
    if len(children) > member.threshold:
        # What lacks pods cannot be completed: others stand in for it where they may.
        children.sort(key=lambda child: (id(child) in avoid, not _complete(child, state, evicted)))
    if gangs.satisfied(member, state):
        for child in children:
            found = _collect(session, child, evicted, avoid)
            if found:
                return found
        return []
    found = []
    for child in children[: member.threshold]:
        if not gangs.satisfied(child, state):
            found.extend(_collect(session, child, evicted, avoid))
    return found


def _complete(member: gangs.Member, state: tables.Tables, evicted: Collection[int]) -> bool:
    """Tell whether enough pods exist, those that a simulation evicted included."""
    if isinstance(member, gangs.PodSet):
        there = gangs.alive(member, state)
        if evicted:
            there += sum(
                row in evicted and state.status[row] == status.RELEASING for row in member.rows
            )
        return there >= member.minimum
    enough = sum(_complete(child, state, evicted) for child in member.children)
    return enough >= member.threshold


def optional(group: gangs.Group, podset: int) -> gangs.Member | None:
    """Return the part of a gang with this pod set that others could stand in for."""
    for child in group.children:
        if any(leaf.index == podset for leaf in gangs.podsets(child)):
            inner = optional(child, podset) if isinstance(child, gangs.Group) else None
            if inner is not None:
                return inner
            return child if group.threshold < len(group.children) else None
    return None


def evict_unit(
    session: sessions.Session, job: sessions.JobState, gone: Collection[int]
) -> list[int]:
    """Return the tasks that leave next: one surplus pod, a surplus subgroup, or all that is left.

    :param gone: rows that left already, in this thought
    """
    assert job.tree is not None
    session.sort_tasks(job)
    state = session.state
    left = {
        leaf.index: [
            row for row in leaf.rows if status.IS_ALLOCATED[state.status[row]] and row not in gone
        ]
        for leaf in job.leaves
    }
    everything = [row for leaf in job.leaves for row in left[leaf.index]]
    if len(everything) <= 1:
        return everything
    unit = _unit(job.tree, left, session)
    return unit or everything


def _enough(member: gangs.Member, left: dict[int, list[int]]) -> bool:
    if isinstance(member, gangs.PodSet):
        return len(left[member.index]) >= member.minimum
    return sum(_enough(child, left) for child in member.children) >= member.threshold


def _unit(group: gangs.Group, left: dict[int, list[int]], session: sessions.Session) -> list[int]:
    content = [child for child in group.children if _enough(child, left)]
    if not content:
        return []
    children = sorted(group.children, key=lambda child: _eviction_order(child, left))
    for child in reversed(children):
        found = _surplus(child, left, session)
        if found:
            return found
    if len(content) > group.threshold:
        for child in reversed(children):
            rows = [row for leaf in gangs.podsets(child) for row in left[leaf.index]]
            if rows:
                return rows
    return []


def _surplus(
    member: gangs.Member, left: dict[int, list[int]], session: sessions.Session
) -> list[int]:
    if isinstance(member, gangs.PodSet):
        rows = left[member.index]
        return [rows[-1]] if len(rows) > member.minimum else []
    if not _enough(member, left):
        return []
    return _unit(member, left, session)


def _eviction_order(
    member: gangs.Member, left: dict[int, list[int]]
) -> tuple[float, float, float, str]:
    if isinstance(member, gangs.PodSet):
        filled, minimum = len(left[member.index]), member.minimum
    else:
        filled = sum(_enough(child, left) for child in member.children)
        minimum = member.threshold
    if filled < minimum:
        return 0, 0, 0, member.name
    if minimum > 0:
        return 1, 0, filled / minimum, member.name
    return 1, 1, filled, member.name
