"""What a cycle decided, in the order in which it was decided."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tenantry.scheduler.engine import device_specs, reasons, specs, tables

#: Claim name and its devices.
Devices = tuple[tuple[str, tuple[device_specs.Allocated, ...]], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Bind:
    """Start a task on a node; `groups` name the shared devices."""

    task: specs.Task
    node: str
    groups: tuple[str, ...] = ()
    gpus: int = 0
    numa: tuple[int, ...] = ()
    devices: Devices = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Evict:
    """Ask a task to leave; `evictor` is the job that needs the room, if one does."""

    task: specs.Task
    node: str
    action: str
    evictor: specs.Key | None
    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """A task will go to a node as soon as that is free; decided again in the next cycle."""

    task: specs.Task
    node: str
    groups: tuple[str, ...] = ()


@dataclasses.dataclass(slots=True)
class Timing:
    """How long one part of the cycle took."""

    name: str
    seconds: float


class Decisions:
    """Collects decisions while actions run."""

    def __init__(self, state: tables.Tables) -> None:
        self._state = state
        self.binds: list[Bind] = []
        self._bound: dict[int, Bind] = {}
        #: A start was taken back: its room may be more than the job that wanted it needs.
        self.cancelled = False
        self.evictions: list[Evict] = []
        self.plans: list[Plan] = []
        self.started: dict[specs.Key, float] = {}
        self.stale_since: dict[specs.Key, float | None] = {}
        self.reasons: dict[specs.Key, list[reasons.Reason]] = {}
        self.timings: list[Timing] = []
        #: True when the time budget ended the cycle before all actions were through.
        self.cut_short = False
        self.errors: list[str] = []
        #: Seconds of the longest piece of work between two yields.
        self.longest_slice = 0.0
        #: Filled by a plugin: row -> zones.
        self.numa: dict[int, tuple[int, ...]] = {}
        #: Set by a plugin that allocates devices of claims.
        self.assign: Callable[[int, int], Devices] | None = None

    def bind(self, row: int) -> None:
        """Record a start."""
        task = self._task(row)
        node = self._state.node[row]
        gpus = self._state.charge(self._state.shape_of[row], node)[2]
        made = Bind(
            task,
            self._state.nodes.names[node],
            self._state.task_groups.get(row, ()),
            gpus,
            self.numa.get(row, ()),
            self.assign(row, node) if self.assign is not None else (),
        )
        self._bound[row] = made
        self.binds.append(made)

    def cancel(self, row: int) -> None:
        """Take back a start of this same cycle.

        A later action may want the room for somebody else: then the pod need not start at all.
        """
        self.binds.remove(self._bound.pop(row))
        self.cancelled = True

    def starts(self, row: int) -> bool:
        """Tell whether a task is to start in this cycle."""
        return row in self._bound

    def starting(self) -> list[int]:
        """Return the rows of the tasks that are to start in this cycle."""
        return list(self._bound)

    def evict(self, row: int, node: int, action: str, evictor: specs.Key | None) -> None:
        """Record an eviction with the text that its owner reads."""
        task = self._task(row)
        name = f"{task.namespace}/{task.name}"
        by = "/".join(evictor) if evictor else ""
        if action == "preempt":
            message = f"Pod {name} was preempted by higher priority workload {by}."
        elif action == "reclaim":
            message = f"Pod {name} was preempted by workload {by}."
        elif action == "consolidation":
            message = f"Pod {name} was preempted to make room for {by} by bin packing."
        elif action == "maxruntime":
            message = f"Pod {name} was evicted because its job ran longer than it may."
        else:
            message = f"Pod {name} was evicted because its gang has fewer pods than it needs."
        self.evictions.append(Evict(task, self._state.nodes.names[node], action, evictor, message))

    def pipeline(self, row: int) -> None:
        """Record a plan."""
        node = self._state.nodes.names[self._state.node[row]]
        self.plans.append(Plan(self._task(row), node, self._state.task_groups.get(row, ())))

    def _task(self, row: int) -> specs.Task:
        task = self._state.tasks[row]
        assert task is not None, row
        return task
