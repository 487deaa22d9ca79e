"""Run cycles and carry out what they decide: binds run, evicted pods come back pending."""

from __future__ import annotations

import dataclasses
from typing import Any

from tenantry.scheduler.engine import (
    config,
    cycle,
    decisions,
    observed,
    resources,
    session,
    specs,
    status,
)

Json = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Share:
    """The arithmetic of one queue at the end of a cycle, GPUs in milli."""

    name: str
    parent: str
    depth: int
    quota: float
    limit: float
    fair: float
    allocated: float
    request: float


@dataclasses.dataclass(slots=True)
class Cycle:
    """What one cycle decided, and how the cluster looked afterwards."""

    number: int
    time: float
    decided: decisions.Decisions
    shares: list[Share]
    #: GPUs in milli: in the cluster, in use, being freed.
    gpus: tuple[int, int, int]
    pending: int
    #: Used part of the GPUs of each node.
    nodes: list[tuple[str, float]]
    #: Queue of each job.
    queues: dict[specs.Key, str]


def carry_out(seen: observed.Observed, decided: decisions.Decisions) -> None:
    """Change the observed state as a cluster would that does at once what it is told."""
    for eviction in decided.evictions:
        task = dataclasses.replace(eviction.task, status=status.PENDING, node="", groups=())
        seen.put_task(task)
        for name in task.constraints.claims:
            _leave_claim(seen, task, name)
    for bind in decided.binds:
        task = dataclasses.replace(
            bind.task, status=status.RUNNING, node=bind.node, groups=bind.groups
        )
        seen.put_task(task)
        for name, devices in bind.devices:
            claim = seen.tables.claims.get((task.namespace, name))
            if claim is not None:
                users = dict.fromkeys((*claim.spec.reserved_for, task.name))
                seen.put_claim(
                    dataclasses.replace(claim.spec, allocated=devices, reserved_for=tuple(users))
                )
    for key, started in decided.started.items():
        _amend(seen, key, started=started)
    for key, since in decided.stale_since.items():
        _amend(seen, key, stale_since=since)


def _leave_claim(seen: observed.Observed, task: specs.Task, name: str) -> None:
    """Take a pod off a claim; the last one leaves its devices free."""
    claim = seen.tables.claims.get((task.namespace, name))
    if claim is not None:
        left = tuple(user for user in claim.spec.reserved_for if user != task.name)
        allocated = claim.spec.allocated if left else ()
        seen.put_claim(dataclasses.replace(claim.spec, allocated=allocated, reserved_for=left))


def _amend(seen: observed.Observed, key: specs.Key, **change: Any) -> None:
    state = seen.jobs.get(key)
    if state is not None and state.spec is not None:
        seen.put_job(dataclasses.replace(state.spec, **change))


def run(
    seen: observed.Observed,
    settings: config.Config,
    *,
    cycles: int,
    now: float,
    period: float = 1.0,
) -> list[Cycle]:
    """Run cycles, each `period` seconds after the other; ends early when nothing changes."""
    engine = cycle.Engine(settings)
    played: list[Cycle] = []
    for number in range(1, cycles + 1):
        decided = engine.run(seen, now=now)
        if engine.last is None:
            played.append(Cycle(number, now, decided, [], (0, 0, 0), 0, [], {}))
            break
        played.append(_picture(number, engine.last))
        if not decided.binds and not decided.evictions and number < cycles:
            break
        carry_out(seen, decided)
        now += period
    return played


def start(seen: observed.Observed, settings: config.Config, *, now: float) -> Cycle | None:
    """Return the cluster as it is before the first cycle."""
    engine = cycle.Engine(dataclasses.replace(settings, actions=()))
    engine.run(seen, now=now)
    return _picture(0, engine.last) if engine.last is not None else None


def _picture(number: int, opened: session.Session) -> Cycle:
    state = opened.state
    alloc, idle = state.alloc[resources.GPU], state.idle[resources.GPU]
    free = state.free[resources.GPU]
    shares = []
    for queue in opened.queues.values():
        depth = sum(1 for _ in queue.path()) - 1
        shares.append(
            Share(
                queue.name,
                queue.parent.name if queue.parent is not None else "",
                depth,
                queue.quota[2],
                queue.limit[2],
                queue.fair[2],
                queue.allocated[2],
                queue.request[2],
            )
        )
    shares.sort(key=lambda share: share.name)
    pending = sum(
        state.pending(leaf.index) for job in opened.observed.jobs.values() for leaf in job.leaves
    )
    nodes = [
        (name, (int(alloc[row]) - int(idle[row])) / int(alloc[row]) if alloc[row] else 0.0)
        for row, name in enumerate(state.nodes.names)
        if alloc[row]
    ]
    gpus = int(alloc.sum()), int((alloc - idle).sum()), int((free - idle).clip(min=0).sum())
    queues = {key: job.queue for key, job in opened.observed.jobs.items()}
    return Cycle(number, opened.now, opened.decisions, shares, gpus, pending, nodes, queues)
