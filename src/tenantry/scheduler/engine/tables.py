"""The mutable columns behind both the observed state and a session, and the one way to change them.

Everything that depends on a task's state (room on nodes, shared devices, counters of gangs, what
queues hold) changes in `Tables.move` and nowhere else; a journal of moves can therefore be undone
by moving back, and a copy of the columns is a session.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from tenantry.scheduler.engine import claims, devices, resources, shapes, specs, status

NOWHERE = -1
_SHIFT = 4  # status.COUNT == 1 << _SHIFT


class Account(Protocol):
    """Something that is charged with what tasks hold: a queue, or a queue's ledger."""

    allocated: list[int | float]
    allocated_fixed: list[int | float]


class Nodes:
    """Facts about nodes that no task changes, by row; rows are in name order."""

    __slots__ = ("by_name", "gpu_memory", "names", "products", "specs", "usable")

    def __init__(self) -> None:
        self.names: list[str] = []
        self.by_name: dict[str, int] = {}
        self.specs: list[specs.Node] = []
        self.gpu_memory: list[int] = []
        self.products: list[str] = []
        self.usable = np.zeros(0, np.bool_)


class Tables:
    """Columns by task row, by node row, and counters by pod set."""

    def __init__(self) -> None:
        self.dimensions = resources.Dimensions()
        self.nodes = Nodes()
        self.alloc = np.zeros((4, 0), np.int64)
        self.idle = np.zeros((4, 0), np.int64)
        self.free = np.zeros((4, 0), np.int64)
        #: Nodes that host tasks asking for what the node does not have; that part is ignored.
        self.odd: set[int] = set()
        self.groups: dict[int, devices.Groups] = {}
        self._own_groups: set[int] = set()

        self.tasks: list[specs.Task | None] = []
        self.shape_of: list[shapes.Shape] = []
        self.status = bytearray()
        self.node = array("i")
        self.podset = array("i")
        self.task_groups: dict[int, tuple[str, ...]] = {}

        #: Tasks by pod set and status.
        self.counts = array("i")
        self.podset_account = array("i")
        self.podset_fixed = bytearray()
        self.accounts: list[Sequence[Account]] = []
        #: Accounted resources after CPU, memory and GPU.
        self.extras: tuple[str, ...] = ()
        self._per_product = False

        self.claims: dict[specs.Key, claims.Claim] = {}
        #: Device -> claims that hold it; several while one leaves and another is planned.
        self.holders: dict[claims.Id, tuple[specs.Key, ...]] = {}
        #: Devices that leaving tasks hold which are planned elsewhere.
        self.ghosts: dict[claims.Id, int] = {}
        #: Chooses devices for claims on a node; without it they have what they are known to have.
        self.choose: Callable[[Sequence[claims.Claim], int], None] | None = None
        #: Rows of nodes in the order in which they changed, for whoever keeps derived columns.
        self.changed: list[int] = []

    def fork(self) -> Tables:
        """Return a copy that can be changed without touching this one."""
        size = len(self.nodes.names)
        twin = Tables.__new__(Tables)
        # Both sides copy a node's record before they write to it again.
        self._own_groups = set()
        twin.__dict__.update(self.__dict__, _own_groups=set())
        twin.alloc = self.alloc[:, :size]
        twin.idle = self.idle[:, :size].copy()
        twin.free = self.free[:, :size].copy()
        twin.groups = dict(self.groups)
        twin.status = bytearray(self.status)
        twin.node = self.node[:]
        twin.task_groups = dict(self.task_groups)
        twin.counts = self.counts[:]
        twin.claims = {key: claim.copy() for key, claim in self.claims.items()}
        twin.holders = dict(self.holders)
        twin.ghosts = {}
        twin.changed = []
        return twin

    def account_for(self, extras: tuple[str, ...]) -> None:
        """Charge queues for these resources too."""
        self.extras = extras
        self._per_product = any(name.startswith("gpu:") for name in extras)
        for shape in self.shape_of:
            shape.accounts.clear()

    # -- questions ---------------------------------------------------------------------------

    def pending(self, podset: int) -> int:
        """Count the pending tasks of a pod set."""
        return self.counts[podset << _SHIFT]

    def active(self, podset: int) -> int:
        """Count the tasks of a pod set that hold or are planned to hold resources."""
        base = podset << _SHIFT
        c = self.counts
        return c[base + 2] + c[base + 3] + c[base + 4] + c[base + 5] + c[base + 6]

    def in_state(self, podset: int, state: int) -> int:
        """Count the tasks of a pod set in one state."""
        return self.counts[(podset << _SHIFT) + state]

    def charge(self, shape: shapes.Shape, node: int) -> tuple[int, ...]:
        """Return what queues are charged for a task of this shape on this node.

        Without a node, GPU memory is left out: the caller converts it.
        """
        key: object = None
        if shape.kind == shapes.MEMORY or self._per_product:
            key = (self.nodes.gpu_memory[node], self.nodes.products[node]) if node >= 0 else -1
        found = shape.accounts.get(key)
        if found is None or len(found) != 3 + len(self.extras):
            found = shape.accounts[key] = self._charge(shape, node)
        return found

    def _charge(self, shape: shapes.Shape, node: int) -> tuple[int, ...]:
        amounts = shape.requests
        gpus = shape.gpus
        if node >= 0:
            gpus = shape.gpus_on(self.nodes.gpu_memory[node])
        charges = [amounts.get("cpu", 0), amounts.get("memory", 0), gpus]
        for name in self.extras:
            if name.startswith("gpu:"):
                here = node >= 0 and self.nodes.products[node] == name[4:]
                charges.append(gpus if here else 0)
            else:
                charges.append(amounts.get(name, 0))
        return tuple(charges)

    def group_record(self, node: int) -> devices.Groups:
        """Return the shared devices of a node for changing."""
        if node not in self._own_groups:
            self._own_groups.add(node)
            self.groups[node] = {
                name: list(group) for name, group in self.groups.get(node, {}).items()
            }
        return self.groups[node]

    # -- the change --------------------------------------------------------------------------

    def move(self, row: int, state: int, node: int, groups: tuple[str, ...] = ()) -> None:
        """Put a task into a state on a node (NOWHERE for none), undoing what it was before."""
        old, before = self.status[row], self.node[row]
        shape = self.shape_of[row]
        podset = self.podset[row]
        if before >= 0:
            self._occupy(row, shape, old, before, -1)
        if shape.shared:
            if groups:
                self.task_groups[row] = groups
            elif row in self.task_groups:
                del self.task_groups[row]
        self.status[row] = state
        self.node[row] = node
        if node >= 0:
            self._occupy(row, shape, state, node, 1)
        if podset >= 0:
            base = podset << _SHIFT
            self.counts[base + old] -= 1
            self.counts[base + state] += 1
            was = before >= 0 and status.IS_ACTIVE[old]
            now = node >= 0 and status.IS_ACTIVE[state]
            if was != now or (was and before != node):
                if was:
                    self.bill(podset, self.charge(shape, before), -1)
                if now:
                    self.bill(podset, self.charge(shape, node), 1)
        if shape.constraints.claims:
            claims.use(self, self.claims_of(row), row, state)

    def _occupy(self, row: int, shape: shapes.Shape, state: int, node: int, sign: int) -> None:
        on_idle, on_free = status.ON_IDLE[state], status.ON_FREE[state]
        if not on_idle and not on_free:
            return
        vector = shape.vector
        if node in self.odd:
            vector = np.where(self.alloc[:, node] > 0, vector, 0)
        if sign > 0:
            if on_idle:
                self.idle[:, node] -= vector
            if on_free:
                self.free[:, node] -= vector
        else:
            if on_idle:
                self.idle[:, node] += vector
            if on_free:
                self.free[:, node] += vector
        if shape.shared:
            self._share(row, shape, state, node, sign)
        self.changed.append(node)

    def haunt(self, row: int, node: int, groups: tuple[str, ...], sign: int) -> None:
        """Add or remove the leaving half of a task that is planned elsewhere."""
        planned = self.task_groups.get(row)
        if groups:
            self.task_groups[row] = groups
        self._occupy(row, self.shape_of[row], status.RELEASING, node, sign)
        for claim in self.claims_of(row):
            claims.haunt(self, claim, node, sign)
        if planned is not None:
            self.task_groups[row] = planned
        else:
            self.task_groups.pop(row, None)

    def _share(self, row: int, shape: shapes.Shape, state: int, node: int, sign: int) -> None:
        memory = shape.memory_on(self.nodes.gpu_memory[node])
        records = self.group_record(node)
        for name in self.task_groups.get(row, ()):
            group = records.get(name)
            if group is None:
                group = records[name] = devices.new()
            idle, free = devices.whole(group)
            devices.change(group, state, memory, sign)
            idle_now, free_now = devices.whole(group)
            if idle != idle_now:
                self.idle[resources.GPU, node] += idle - idle_now
            if free != free_now:
                self.free[resources.GPU, node] += free - free_now
            if not group[devices.HOLDERS] and not group[devices.PLANNERS]:
                del records[name]

    def bill(self, podset: int, charges: tuple[int, ...], sign: int) -> None:
        """Charge the queues above a pod set, or give back."""
        fixed = self.podset_fixed[podset]
        for account in self.accounts[self.podset_account[podset]]:
            held = account.allocated
            for r, amount in enumerate(charges):
                if amount:
                    held[r] += sign * amount
            if fixed:
                held = account.allocated_fixed
                for r, amount in enumerate(charges):
                    if amount:
                        held[r] += sign * amount

    def claims_of(self, row: int) -> list[claims.Claim]:
        """Return the claims of a task that exist."""
        task, names = self.tasks[row], self.shape_of[row].constraints.claims
        if task is None or not names:
            return []
        keys = ((task.namespace, name) for name in names)
        return [claim for key in keys if (claim := self.claims.get(key)) is not None]
