"""Rebuild the observed state from the objects it holds, and compare: a fold must not drift."""

from __future__ import annotations

from typing import Any

from tenantry.scheduler.engine import observed, status

Content = dict[str, dict[Any, Any]]


def rebuilt(seen: observed.Observed) -> observed.Observed:
    """Return a state folded anew from the last version of every object."""
    fresh = observed.Observed()
    state = seen.tables
    for kind in seen.device_classes.values():
        fresh.put_class(kind)
    for piece in seen.slices.values():
        fresh.put_slice(piece)
    for row in state.nodes.by_name.values():
        fresh.put_node(state.nodes.specs[row])
    for node in seen.refused_nodes.values():
        fresh.put_node(node)
    for queue in seen.queues.values():
        fresh.put_queue(queue)
    for topology in seen.topologies.values():
        fresh.put_topology(topology)
    for claim in state.claims.values():
        fresh.put_claim(claim.spec)
    for job in seen.jobs.values():
        if job.spec is not None:
            fresh.put_job(job.spec)
    for task in state.tasks:
        if task is not None:
            fresh.put_task(task)
    for task in seen.refused.values():
        fresh.put_task(task)
    return fresh


def drift(seen: observed.Observed) -> list[str]:
    """Return where the state differs from a rebuilt one; empty is well."""
    fresh = rebuilt(seen)
    seen.settle()
    fresh.settle()
    ours, theirs = content(seen), content(fresh)
    return [
        f"{part} {key}: {entries.get(key)}, rebuilt {theirs[part].get(key)}"
        for part, entries in ours.items()
        for key in sorted({*entries, *theirs[part]}, key=str)
        if entries.get(key) != theirs[part].get(key)
    ]


def content(seen: observed.Observed) -> Content:
    """Return what a state says, by names, without regard to rows and order."""
    state = seen.tables
    names = state.nodes.names
    dimensions = state.dimensions.names

    def amounts(matrix: Any, row: int) -> dict[str, int]:
        column = matrix[:, row].tolist()
        return {name: value for name, value in zip(dimensions, column, strict=True) if value}

    nodes = {
        name: tuple(amounts(matrix, row) for matrix in (state.alloc, state.idle, state.free))
        for name, row in state.nodes.by_name.items()
    }
    tasks = {
        task.uid: (
            state.status[row],
            names[state.node[row]] if state.node[row] >= 0 else "",
            state.task_groups.get(row, ()),
        )
        for row, task in enumerate(state.tasks)
        if task is not None
    }
    return {
        "node": nodes,
        "devices": {
            names[row]: {name: list(group) for name, group in sorted(groups.items())}
            for row, groups in state.groups.items()
            if groups
        },
        "task": tasks,
        "ledger": {
            account: (ledger.allocated, ledger.allocated_fixed, ledger.pending)
            for account, ledger in seen.ledgers.items()
            if any(ledger.allocated) or any(ledger.pending)
        },
        "podset": {
            (job.key, leaf.name): [state.in_state(leaf.index, s) for s in range(len(status.TITLES))]
            for job in seen.jobs.values()
            for leaf in job.leaves
        },
        "pending": dict.fromkeys(seen.pending, True),
        "stale": dict.fromkeys(seen.stale, True),
        "aside": dict(seen.set_aside),
    }
