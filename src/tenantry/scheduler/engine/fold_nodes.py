"""The part of the observed state that is about nodes and devices."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterator

import numpy as np

from tenantry.scheduler.engine import (
    claims,
    device_inventory,
    device_specs,
    errors,
    resources,
    specs,
    tables,
    validation,
)

NOWHERE = tables.NOWHERE
#: A claim for more devices fits nowhere; the number itself must stay harmless in sums.
_MOST_DEVICES = 1 << 24


class NodeFold:
    """Nodes in any order of arrival, and the tasks on them."""

    def __init__(self) -> None:
        self.tables = tables.Tables()
        #: Grows with every change: equal versions mean equal decisions.
        self.version = 0
        #: Bumped when what predicates on nodes depend on changes; caches key on it.
        self.nodes_version = 0
        self.set_aside: dict[tuple[str, str], str] = {}
        #: Nodes that are set aside, by name.
        self.refused_nodes: dict[str, specs.Node] = {}
        self.on_node: dict[int, set[int]] = collections.defaultdict(set)
        self.awaiting_node: dict[str, set[int]] = collections.defaultdict(set)
        self.slices: dict[str, device_specs.DeviceSlice] = {}
        self.slices_of: dict[str, dict[str, device_specs.DeviceSlice]] = {}
        self.device_classes: dict[str, device_specs.DeviceClass] = {}
        self._inventory: device_inventory.Inventory | None = None
        #: Rows of tasks that use resource claims.
        self.claiming: set[int] = set()
        self.claim_users: dict[specs.Key, set[int]] = {}
        self.unsorted = False
        self.gone: set[int] = set()

    def move(self, row: int, state: int, node: int, groups: tuple[str, ...] = ()) -> None:
        """Move a task and keep the list of lodgers."""
        before = self.tables.node[row]
        if before != node:
            if before >= 0:
                self.on_node[before].discard(row)
            if node >= 0:
                self.on_node[node].add(row)
        if node >= 0:
            vector = self.tables.shape_of[row].vector
            if ((vector > 0) & (self.tables.alloc[: len(vector), node] == 0)).any():
                self.tables.odd.add(node)
        self.tables.move(row, state, node, groups)

    def settle_task(self, row: int) -> None:
        """Put a task where its manifest says, as far as that exists by now."""
        state = self.tables
        task = state.tasks[row]
        if task is None:
            return
        node = state.nodes.by_name.get(task.node, NOWHERE) if task.node else NOWHERE
        if task.node and node < 0:
            self.awaiting_node[task.node].add(row)
        groups = task.groups
        if state.shape_of[row].shared and node >= 0 and not groups:
            # Without a token the devices are not known: they are its own.
            groups = tuple(f"{task.uid}/{i}" for i in range(state.shape_of[row].devices))
        self.move(row, task.status, node, groups)

    # -- nodes -------------------------------------------------------------------------------

    def put_node(self, node: specs.Node) -> None:
        """Add or replace a node."""
        self.version += 1
        self.nodes_version += 1
        self._inventory = None
        try:
            validation.node(node)
        except errors.SetAside as problem:
            self.drop_node(node.name)
            self.set_aside["node", node.name] = str(problem)
            self.refused_nodes[node.name] = node
            return
        self._accept(node.name)
        state, table = self.tables, self.tables.nodes
        vector = state.dimensions.vector(node.allocatable)
        for piece in self.slices_of.get(node.name, {}).values():
            if piece.gpu:
                vector[resources.GPU] += device_inventory.gpus(piece)
        if node.max_pods is not None:
            vector[resources.PODS] = min(vector[resources.PODS], node.max_pods)
        self.widen()
        row = table.by_name.get(node.name)
        if row is None:
            row = self._append_node(node)
        lodgers = sorted(self.on_node.get(row, ()))
        was = {r: (state.status[r], state.task_groups.get(r, ())) for r in lodgers}
        for r in lodgers:
            self.move(r, state.status[r], NOWHERE)
        state.odd.discard(row)
        change = vector - state.alloc[:, row]
        state.alloc[:, row] = vector
        state.idle[:, row] += change
        state.free[:, row] += change
        table.specs[row] = node
        table.gpu_memory[row] = node.gpu_memory
        table.products[row] = node.labels.get("nvidia.com/gpu.product", "")
        table.usable[row] = node.usable
        for r in lodgers:
            self.move(r, was[r][0], row, was[r][1])
        for r in sorted(self.awaiting_node.pop(node.name, ())):
            self.settle_task(r)

    def drop_node(self, name: str) -> None:
        """Forget a node; its pods wait for it to come back."""
        self._accept(name)
        row = self.tables.nodes.by_name.get(name)
        if row is None:
            return
        self.version += 1
        self.nodes_version += 1
        self._inventory = None
        for r in sorted(self.on_node.pop(row, ())):
            self.move(r, self.tables.status[r], NOWHERE)
            self.awaiting_node[name].add(r)
        del self.tables.nodes.by_name[name]
        self.gone.add(row)

    def _accept(self, name: str) -> None:
        """Forget why a node was set aside."""
        if self.refused_nodes.pop(name, None) is not None:
            self.version += 1
            del self.set_aside["node", name]

    def _append_node(self, node: specs.Node) -> int:
        state, table = self.tables, self.tables.nodes
        row = len(table.names)
        if table.names and node.name < table.names[-1]:
            self.unsorted = True
        if row >= state.alloc.shape[1]:
            grow = max(64, row)
            for name in ("alloc", "idle", "free"):
                old = getattr(state, name)
                setattr(state, name, np.hstack([old, np.zeros((len(old), grow), np.int64)]))
            table.usable = np.hstack([table.usable, np.zeros(grow, np.bool_)])
        table.names.append(node.name)
        table.by_name[node.name] = row
        table.specs.append(node)
        table.gpu_memory.append(node.gpu_memory)
        table.products.append("")
        return row

    def widen(self) -> None:
        state = self.tables
        missing = len(state.dimensions) - len(state.alloc)
        if missing > 0:
            pad = np.zeros((missing, state.alloc.shape[1]), np.int64)
            state.alloc, state.idle, state.free = (
                np.vstack([old, pad]) for old in (state.alloc, state.idle, state.free)
            )

    def order_nodes(self) -> None:
        """Bring rows into name order, without gaps: ties between nodes go by name."""
        state, table = self.tables, self.tables.nodes
        kept = sorted(table.by_name.values(), key=table.names.__getitem__)
        state.alloc = state.alloc[:, kept]
        state.idle = state.idle[:, kept]
        state.free = state.free[:, kept]
        table.usable = table.usable[kept]
        table.names = [table.names[row] for row in kept]
        table.specs = [table.specs[row] for row in kept]
        table.gpu_memory = [table.gpu_memory[row] for row in kept]
        table.products = [table.products[row] for row in kept]
        table.by_name = {name: row for row, name in enumerate(table.names)}
        new = {old: row for row, old in enumerate(kept)}
        for r, row in enumerate(state.node):
            if row >= 0:
                state.node[r] = new[row]
        state.groups = {new[row]: records for row, records in state.groups.items() if row in new}
        state.odd = {new[row] for row in state.odd if row in new}
        for claim in state.claims.values():
            claim.node = new.get(claim.node, NOWHERE)
        lodgers = {new[row]: rows for row, rows in self.on_node.items() if row in new}
        self.on_node = collections.defaultdict(set, lodgers)
        self.gone.clear()
        self.unsorted = False

    # -- devices -----------------------------------------------------------------------------

    def put_slice(self, piece: device_specs.DeviceSlice) -> None:
        """Add or replace devices; those of one node join what the node itself offers."""
        self.drop_slice(piece.name)
        self.version += 1
        self._inventory = None
        self.slices[piece.name] = piece
        if piece.node:
            self.slices_of.setdefault(piece.node, {})[piece.name] = piece
            self._count_again(piece.node)

    def drop_slice(self, name: str) -> None:
        """Forget devices."""
        piece = self.slices.pop(name, None)
        if piece is None:
            return
        self.version += 1
        self._inventory = None
        if piece.node:
            self.slices_of[piece.node].pop(name)
            self._count_again(piece.node)

    def _count_again(self, node: str) -> None:
        row = self.tables.nodes.by_name.get(node)
        if row is not None:
            self.put_node(self.tables.nodes.specs[row])

    def put_class(self, kind: device_specs.DeviceClass) -> None:
        """Add or replace a device class."""
        self.version += 1
        self._inventory = None
        self.device_classes[kind.name] = kind
        for claim in list(self.tables.claims.values()):
            if any(o.device_class == kind.name for options in claim.spec.requests for o in options):
                self.put_claim(claim.spec)

    def inventory(self) -> device_inventory.Inventory:
        """Return the devices by node, as of now; made when it is first asked for."""
        if self._inventory is None:
            nodes = self.tables.nodes
            present = [nodes.specs[row] for row in nodes.by_name.values()]
            self._inventory = device_inventory.Inventory(self.slices, self.device_classes, present)
        return self._inventory

    def put_claim(self, claim: device_specs.Claim) -> None:
        """Add or replace a resource claim."""
        with self._without_claim((claim.namespace, claim.name)):
            count = 0
            for options in claim.requests:
                kind = self.device_classes.get(options[0].device_class) if options else None
                if kind is not None and kind.gpu and not options[0].admin:
                    count += options[0].count
            estimate = self.tables.dimensions.vector(
                {"gpu": min(count, _MOST_DEVICES) * resources.MILLI}
            )
            made = claims.Claim(claim, estimate)
            self.tables.claims[made.key] = made

    def drop_claim(self, key: specs.Key) -> None:
        """Forget a resource claim."""
        with self._without_claim(key):
            pass

    @contextlib.contextmanager
    def _without_claim(self, key: specs.Key) -> Iterator[None]:
        """Take the users of a claim off their nodes while it changes."""
        self.version += 1
        state = self.tables
        rows = sorted(self.claim_users.get(key, ()))
        was = [(state.status[r], state.node[r], state.task_groups.get(r, ())) for r in rows]
        for row, (now, _, _) in zip(rows, was, strict=True):
            self.move(row, now, NOWHERE)
        state.claims.pop(key, None)
        yield
        for row, (now, node, groups) in zip(rows, was, strict=True):
            self.move(row, now, node, groups)


def claim_keys(task: specs.Task) -> list[specs.Key]:
    """Return the claims that a task names."""
    return [(task.namespace, name) for name in task.constraints.claims]
