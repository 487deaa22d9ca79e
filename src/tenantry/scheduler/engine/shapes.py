"""Shapes: equivalence classes of tasks. Tasks of one shape fit and score alike on every node.

Real workloads have few: a job's pods share a template. What is computed per (shape, node) is
computed once and then only for nodes that changed.
"""

from __future__ import annotations

import numpy as np

from tenantry.scheduler.engine import resources, specs

REGULAR, FRACTION, MEMORY = range(3)
MILLION = 1_000_000


class Shape:
    """What a task asks for, ready for arithmetic.

    `vector` is charged to the node; GPUs of shared devices are tracked by group instead.
    """

    __slots__ = (
        "accounts",
        "best_effort",
        "columns",
        "constraints",
        "devices",
        "gpu_memory",
        "gpus",
        "guaranteed",
        "index",
        "key",
        "kind",
        "mig",
        "namespace",
        "needs",
        "portion",
        "requests",
        "sample",
        "shared",
        "vector",
        "wants_gpu",
        "width",
    )

    def __init__(self, task: specs.Task, index: int, dimensions: resources.Dimensions) -> None:
        self.key = key_of(task)
        self.index = index
        self.constraints = task.constraints
        self.guaranteed = task.guaranteed
        #: One task of this shape, for rules that look at labels and namespace.
        self.sample = task
        self.namespace = task.namespace
        self.kind = FRACTION if task.portion else MEMORY if task.gpu_memory else REGULAR
        self.shared = self.kind != REGULAR
        self.portion = task.portion
        self.gpu_memory = task.gpu_memory
        self.devices = task.devices if self.shared else 1
        amounts = {name: amount for name, amount in task.requests.items() if amount}
        mig = {name: resources.mig_weight(name) for name in amounts}
        self.mig = any(mig.values())
        if task.gpus and not self.shared and not task.reservation:
            amounts["gpu"] = amounts.get("gpu", 0) + task.gpus
        #: Whole GPUs in milli that queues are charged, as far as no node is needed to tell.
        self.gpus = amounts.get("gpu", 0)
        if self.kind == FRACTION:
            self.gpus = milli_of(task.portion) * task.devices
        self.gpus += sum(amounts[name] * weight for name, weight in mig.items())
        self.best_effort = not amounts and not self.shared and not task.constraints.volumes
        self.requests = dict(amounts)
        amounts["pods"] = 1
        self.vector = dimensions.vector(amounts)
        self.width = 0
        self.columns = np.zeros(0, np.intp)
        self.needs = np.zeros((0, 1), np.int64)
        self.wants_gpu = self.gpus > 0 or self.shared
        #: Queue vectors by GPU memory of the node (or None), filled on demand.
        self.accounts: dict[object, tuple[int, ...]] = {}

    def fit(self, width: int) -> None:
        """Pad to the dimensions known by now."""
        if self.width != width:
            self.vector = resources.padded(self.vector, width)
            self.columns = np.flatnonzero(self.vector)
            self.needs = self.vector[self.columns][:, None]
            self.width = width

    def memory_on(self, gpu_memory: int) -> int:
        """Return the MiB taken on each of its devices, on a node with this much per device."""
        if self.kind == MEMORY:
            return self.gpu_memory
        return self.portion * gpu_memory // MILLION

    def gpus_on(self, gpu_memory: int) -> int:
        """Return what a queue is charged in milli GPUs on a node with this much per device."""
        if self.kind != MEMORY:
            return self.gpus
        hundredths = -(-100 * self.gpu_memory // max(gpu_memory, 1))
        return hundredths * 10 * self.devices


def milli_of(portion: int) -> int:
    """Round millionths of a GPU to milli, so that three times a third is not more than one."""
    return max((portion + 500) // 1000, 1)


def key_of(task: specs.Task) -> tuple[object, ...]:
    """Return what makes two tasks equal for placement."""
    return (
        tuple(sorted(task.requests.items())),
        task.gpus,
        task.portion,
        task.gpu_memory,
        task.devices,
        task.constraints,
        task.guaranteed,
        task.containers,
        task.reservation,
        # Its own terms may mean the task itself, and those without namespaces its namespace.
        _own_labels(task),
        task.namespace if needs_namespace(task.constraints) else "",
    )


def _own_labels(task: specs.Task) -> tuple[tuple[str, str | None], ...]:
    """Return the labels that the task's own terms ask for."""
    terms = task.constraints.pod_affinity
    spread = task.constraints.spread
    if not terms and not spread:
        return ()
    keys = {r.key for term in terms for r in term.selector}
    keys |= {r.key for rule in spread for r in rule.selector}
    return tuple((key, task.labels.get(key)) for key in sorted(keys))


def needs_namespace(constraints: specs.Constraints) -> bool:
    """Tell whether the namespace matters for where the pod may go."""
    return bool(
        constraints.claims
        or constraints.volumes
        or constraints.config_maps
        or constraints.pod_affinity
        or constraints.pod_anti_affinity
        or constraints.spread
    )
