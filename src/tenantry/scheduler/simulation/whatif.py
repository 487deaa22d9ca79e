"""Change a cluster before it is simulated: more nodes, other quotas."""

from __future__ import annotations

import dataclasses
import math

from tenantry.core import errors
from tenantry.scheduler.engine import observed, specs

_UNITS = {"gpu": 1000, "cpu": 1000, "memory": 1_000_000_000}
#: More nodes than this are a slip of the keyboard.
MOST_NODES = 100_000


def add_nodes(seen: observed.Observed, count: int, like: str = "") -> list[str]:
    """Add copies of a node (the first one unless named); return their names.

    :raises InvalidValueError: when there is no such node
    """
    if not 0 <= count <= MOST_NODES:
        raise errors.InvalidValueError("--add-nodes", count, f"0 to {MOST_NODES}")
    seen.settle()
    nodes = seen.tables.nodes
    if not nodes.names:
        raise errors.InvalidValueError("--add-nodes", count, "the snapshot has no node to copy")
    model = like or nodes.names[0]
    if model not in nodes.by_name:
        raise errors.InvalidValueError("--like", model, "must be the name of a node")
    spec = nodes.specs[nodes.by_name[model]]
    names = [f"{model}-added-{number:04d}" for number in range(1, count + 1)]
    for name in names:
        labels = dict(spec.labels)
        if "kubernetes.io/hostname" in labels:
            labels["kubernetes.io/hostname"] = name
        seen.put_node(dataclasses.replace(spec, name=name, labels=labels))
    return names


def drop_node(seen: observed.Observed, name: str) -> None:
    """Take a node away; its pods are lost with it.

    :raises InvalidValueError: when there is no such node
    """
    row = seen.tables.nodes.by_name.get(name)
    if row is None:
        raise errors.InvalidValueError("--drop-node", name, "must be the name of a node")
    for task in [seen.tables.tasks[r] for r in sorted(seen.on_node[row])]:
        if task is not None:
            seen.drop_task(task.uid)
    seen.drop_node(name)


def set_bound(seen: observed.Observed, text: str, *, limit: bool = False) -> None:
    """Change a quota or limit, written as QUEUE=8 (GPUs) or QUEUE:cpu=64, memory in GB; -1 is none.

    :raises InvalidValueError: when it cannot be read or there is no such queue
    """
    flag = "--limit" if limit else "--quota"
    target, _, value = text.rpartition("=")
    name, _, resource = target.partition(":")
    resource = resource or "gpu"
    queue = seen.queues.get(name)
    if queue is None:
        known = ", ".join(sorted(seen.queues)) or "none"
        raise errors.InvalidValueError(flag, text, f"QUEUE=NUMBER with one of the queues {known}")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or (number < 0 and number != -1):
        raise errors.InvalidValueError(flag, text, "a number of 0 or more, or -1 for no bound")
    amount = -1 if number == -1 else round(number * _UNITS.get(resource, 1000))
    old = queue.resources.get(resource, specs.Bound(quota=-1))
    bound = dataclasses.replace(old, **{"limit" if limit else "quota": amount})
    seen.put_queue(dataclasses.replace(queue, resources={**queue.resources, resource: bound}))
