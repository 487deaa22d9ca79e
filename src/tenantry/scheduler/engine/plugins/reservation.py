"""Hold nodes for a starving gang for a bounded time, and let short jobs pass. Off by default.

Arguments: `after` (waiting time before nodes are held, default 10m), `hold` (longest hold, default
1h), `jobs` (gangs that may hold at once, default 1). Others may use a held node only if they say
how long they run (`expected_runtime`) and end before the gang could start. A hold that ran out is
not renewed before as much time has passed again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from tenantry.scheduler.engine import (
    durations,
    gangs,
    plugin,
    reasons,
    selection,
    session,
    shapes,
    specs,
    status,
)


@dataclasses.dataclass(slots=True)
class Hold:
    """Nodes kept for a job."""

    since: float
    nodes: tuple[str, ...]


class _Memory:
    """Holds from cycle to cycle; a restart merely starts waiting anew."""

    def __init__(self) -> None:
        self.holds: dict[specs.Key, Hold] = {}
        self.ended: dict[specs.Key, float] = {}


class Reservation:
    """Keeps jobs off nodes that are held for others."""

    name = "reservation"

    def __init__(self, after: float, hold: float, jobs: int) -> None:
        self._after = after
        self._hold = hold
        self._jobs = jobs

    def open(self, session: session.Session) -> None:
        """Renew holds, and register the check while there are any."""
        memory = session.observed.keep(self.name, _Memory)
        self._expire(session, memory)
        self._begin(session, memory)
        if not memory.holds:
            return
        by_name = session.state.nodes.by_name
        holder: dict[int, specs.Key] = {}
        for key, hold in memory.holds.items():
            for name in hold.nodes:
                if name in by_name:
                    holder[by_name[name]] = key
        start = {key: self._start(session, key, hold) for key, hold in memory.holds.items()}

        def make(shape: shapes.Shape) -> plugin.NodeCheck:
            del shape

            def check(row: int, node: int) -> reasons.Reason | None:
                key = holder.get(node)
                job = session.job_of(row)
                if key is None or job is None or job.key == key or job.spec is None:
                    return None
                runtime = job.spec.expected_runtime
                if runtime is not None and session.now + runtime <= start[key]:
                    return None
                return reasons.Reason(
                    reasons.RESERVED,
                    f"node(s) are held for {'/'.join(key)}",
                    {"holder": "/".join(key), "until": start[key]},
                    "declare an expected runtime that ends before then",
                )

            return check

        session.points.node_checks.append(make)

    def _expire(self, session: session.Session, memory: _Memory) -> None:
        for key, hold in list(memory.holds.items()):
            job = session.observed.jobs.get(key)
            waits = job is not None and key in session.observed.pending
            started = job is not None and any(
                session.state.active(leaf.index) for leaf in job.leaves
            )
            if not waits or started or session.now >= hold.since + self._hold:
                del memory.holds[key]
                memory.ended[key] = session.now
        for key in [key for key in memory.ended if key not in session.observed.jobs]:
            del memory.ended[key]

    def _begin(self, session: session.Session, memory: _Memory) -> None:
        waiting = [
            job
            for job in session.observed.pending.values()
            if job.key not in memory.holds and self._starves(session, memory, job)
        ]
        waiting.sort(key=session.job_key)
        taken = {name for hold in memory.holds.values() for name in hold.nodes}
        for job in waiting[: max(self._jobs - len(memory.holds), 0)]:
            nodes = _nodes_for(session, job, taken)
            if nodes:
                memory.holds[job.key] = Hold(session.now, nodes)
                taken.update(nodes)

    def _starves(self, session: session.Session, memory: _Memory, job: plugin.JobState) -> bool:
        spec = job.spec
        if spec is None or job.tree is None or session.leaf(job) is None or spec.held:
            return False
        if session.now - spec.created < self._after or not gangs.ready(job.tree, session.state):
            return False
        if session.now - memory.ended.get(job.key, -self._hold) < self._hold:
            return False
        return len(selection.next_tasks(session, job)) > 1

    def _start(self, session: session.Session, key: specs.Key, hold: Hold) -> float:
        """Return when the held nodes are expected to be free, at most when the hold ends."""
        del key
        state, latest = session.state, session.now
        end = hold.since + self._hold
        rows = {state.nodes.by_name[name] for name in hold.nodes if name in state.nodes.by_name}
        nodes = np.frombuffer(state.node, np.int32)
        for row in np.flatnonzero(np.isin(nodes, list(rows))).tolist():
            if not status.ON_IDLE[state.status[row]]:
                continue
            job = session.job_of(row)
            spec = job.spec if job is not None else None
            if spec is None or spec.started is None or spec.expected_runtime is None:
                return end
            latest = max(latest, spec.started + spec.expected_runtime)
        return min(latest, end)


def _nodes_for(session: session.Session, job: plugin.JobState, taken: set[str]) -> tuple[str, ...]:
    """Choose the nodes with most room now that could hold the gang when they are empty."""
    state = session.state
    rows = selection.next_tasks(session, job)
    shape = state.shape_of[rows[0]]
    allowed = session.ranker.column(shape).fixed_ok
    free = np.maximum(state.free[shape.columns], 0) // shape.needs
    whole = state.alloc[shape.columns] // shape.needs
    now, most = free.min(axis=0), whole.min(axis=0)
    chosen, slots = [], 0
    for node in sorted(range(len(state.nodes.names)), key=lambda node: (-int(now[node]), node)):
        name = state.nodes.names[node]
        if most[node] > 0 and allowed[node] and name not in taken:
            chosen.append(name)
            slots += int(most[node])
            if slots >= len(rows):
                return tuple(chosen)
    return ()


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin with its times."""
    return Reservation(
        durations.seconds(arguments.get("after"), 600.0),
        durations.seconds(arguments.get("hold"), 3600.0),
        int(arguments.get("jobs", 1)),
    )
