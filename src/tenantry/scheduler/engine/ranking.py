"""Rank nodes for shapes of tasks; kept up to date by looking only at nodes that changed.

For each shape a column of scores over all nodes is kept, minus infinity where it cannot run. Nodes
are in name order and ties go to the first, so the best node is one `argmax`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tenantry.scheduler.engine import devices, plugin, resources, shapes

if TYPE_CHECKING:
    from tenantry.scheduler.engine import session as sessions

NEVER = -np.inf
#: Refreshing one node costs about a tenth of refreshing five hundred at once.
_MANY = 24
#: Columns are kept up to about 50 MB of them.
_MOST_CELLS = 2_000_000
_LEAST_COLUMNS = 64


class Column:
    """Scores of all nodes for one shape."""

    __slots__ = (
        "checks",
        "fixed_ok",
        "fixed_score",
        "masks",
        "needs",
        "now",
        "relative",
        "relative_score",
        "score",
        "scores",
        "seen",
        "shape",
        "volatile",
    )

    def __init__(self, session: sessions.Session, shape: shapes.Shape) -> None:
        self.shape = shape
        points = session.points
        size = len(session.state.nodes.names)
        masks = [mask for make in points.node_masks if (mask := make(shape)) is not None]
        scores = [score for make in points.node_scores if (score := make(shape)) is not None]
        self.checks: list[plugin.NodeCheck] = [
            check for make in points.node_checks if (check := make(shape)) is not None
        ]
        self.fixed_ok: resources.Bools = np.ones(size, np.bool_)
        if shape.kind == shapes.MEMORY:
            self.fixed_ok &= np.array(session.state.nodes.gpu_memory) >= shape.gpu_memory
        self.fixed_score: resources.Floats = np.zeros(size, np.float64)
        for fixed in masks:
            if fixed.fixed:
                self.fixed_ok &= fixed.everywhere()
        self.relative: list[plugin.RelativeScore] = []
        self.scores: list[plugin.NodeScore] = []
        for bonus in scores:
            if isinstance(bonus, plugin.RelativeScore):
                self.relative.append(bonus)
            elif bonus.fixed:
                self.fixed_score += bonus.everywhere()
            else:
                self.scores.append(bonus)
        #: What relative scores said when feasibility last changed.
        self.relative_score: resources.Floats = np.zeros(size if self.relative else 0)
        self.masks = [moving for moving in masks if not moving.fixed]
        shape.fit(len(session.state.idle))
        self.needs = [(int(r), int(shape.vector[r])) for r in shape.columns]
        self.score: resources.Floats = np.full(size, NEVER)
        #: Nodes where the task fits beside what runs at this moment.
        self.now: resources.Bools = np.zeros(size, np.bool_)
        self.seen = -1
        # What depends on other pods changes on nodes that nobody touched.
        self.volatile = bool(
            shape.constraints.pod_affinity
            or shape.constraints.pod_anti_affinity
            or shape.constraints.spread
            or shape.constraints.claims
        )


class Ranker:
    """Columns by shape for one session."""

    def __init__(self, session: sessions.Session) -> None:
        self._session = session
        self._columns: dict[int, Column] = {}
        #: Memo of `explain`, by shape.
        self.explained: dict[int, tuple[object, dict[str, Any]]] = {}
        #: Added where a task could start at once.
        self.now_score = 0.0

    def clear(self) -> None:
        """Forget all columns."""
        self._columns.clear()
        self.explained.clear()

    def has(self, shape: shapes.Shape) -> bool:
        """Tell whether the column of a shape was made."""
        return shape.index in self._columns

    def column(self, shape: shapes.Shape) -> Column:
        """Return the column of a shape, up to date."""
        column = self._columns.get(shape.index)
        if column is None:
            size = len(self._session.state.nodes.names)
            if len(self._columns) >= max(_MOST_CELLS // max(size, 1), _LEAST_COLUMNS):
                # The oldest goes: where each pod is a shape of its own, it is not needed again.
                del self._columns[next(iter(self._columns))]
            column = self._columns[shape.index] = Column(self._session, shape)
        log = self._session.state.changed
        end = len(log)
        seen = column.seen
        if seen != end:
            if seen < 0 or column.volatile:
                self._refresh_all(column)
            elif end - seen == 1:
                self._refresh(column, log[seen])
            else:
                dirty = set(log[seen:end])
                if len(dirty) > _MANY:
                    self._refresh_all(column)
                else:
                    for node in dirty:
                        self._refresh(column, node)
            column.seen = end
        return column

    def _refresh_all(self, column: Column) -> None:
        state, shape = self._session.state, column.shape
        rows = shape.columns
        fits = np.logical_and.reduce(state.free[rows] >= shape.needs)
        now = np.logical_and.reduce(state.idle[rows] >= shape.needs)
        if shape.shared:
            self._judge_devices(shape, fits, now)
        column.now = now
        ok = fits & column.fixed_ok
        for mask in column.masks:
            ok &= mask.everywhere()
        score = column.fixed_score.copy()
        if self.now_score:
            score += self.now_score * now
        for part in column.scores:
            score += part.everywhere()
        if column.relative:
            column.relative_score = sum((part.among(ok) for part in column.relative), np.zeros(1))
            score += column.relative_score
        score[~ok] = NEVER
        column.score = score

    def _judge_devices(
        self, shape: shapes.Shape, fits: resources.Bools, now: resources.Bools
    ) -> None:
        """Narrow what fits to nodes that have the shared devices, too."""
        state = self._session.state
        wanted = shape.devices * resources.MILLI
        known = [node for node, groups in state.groups.items() if groups and node >= 0]
        before = fits[known], now[known]
        fits &= state.free[resources.GPU] >= wanted
        now &= state.idle[resources.GPU] >= wanted
        # A whole device that becomes shared needs a pod that holds it.
        fits &= state.free[resources.PODS] >= 1 + shape.devices
        for node, could, can in zip(known, *before, strict=True):
            gpus, pods = int(state.free[resources.GPU, node]), int(state.free[resources.PODS, node])
            fits[node] = could and self._shared_fits(shape, node, gpus, pods)
            idle = int(state.idle[resources.GPU, node])
            now[node] = fits[node] and can and self._shared_fits_now(shape, node, idle)

    def _refresh(self, column: Column, node: int) -> None:
        state = self._session.state
        free = state.free[:, node].tolist()
        fits = bool(column.fixed_ok[node])
        if fits:
            for r, amount in column.needs:
                if free[r] < amount:
                    fits = False
                    break
        shape = column.shape
        if fits and shape.shared:
            fits = self._shared_fits(shape, node, free[resources.GPU], free[resources.PODS])
        if fits:
            for mask in column.masks:
                if not mask.at(node):
                    fits = False
                    break
        if column.relative and fits != (column.score[node] != NEVER):
            self._refresh_all(column)
            return
        if not fits:
            column.score[node] = NEVER
            column.now[node] = False
            return
        idle = state.idle[:, node].tolist()
        now = True
        for r, amount in column.needs:
            if idle[r] < amount:
                now = False
                break
        if now and shape.shared:
            now = self._shared_fits_now(shape, node, idle[resources.GPU])
        column.now[node] = now
        score = float(column.fixed_score[node]) + (self.now_score if now else 0.0)
        for part in column.scores:
            score += part.at(node)
        if column.relative:
            score += float(column.relative_score[node])
        column.score[node] = score

    def _shared_fits(self, shape: shapes.Shape, node: int, gpus: int, pods: int) -> bool:
        state = self._session.state
        capacity = state.nodes.gpu_memory[node]
        memory = shape.memory_on(capacity)
        if memory > capacity:
            return False
        whole = max(gpus, 0) // resources.MILLI
        groups = state.groups.get(node)
        shared = 0
        if groups:
            shared = sum(devices.fits(group, capacity, memory) for group in groups.values())
        if whole + shared < shape.devices:
            return False
        return pods >= 1 + max(shape.devices - shared, 0)

    def _shared_fits_now(self, shape: shapes.Shape, node: int, gpus: int) -> bool:
        state = self._session.state
        capacity = state.nodes.gpu_memory[node]
        memory = shape.memory_on(capacity)
        whole = max(gpus, 0) // resources.MILLI
        groups = state.groups.get(node)
        shared = 0
        if groups:
            shared = sum(
                devices.fits(group, capacity, memory) and devices.fits_now(group, capacity, memory)
                for group in groups.values()
            )
        return whole + shared >= shape.devices
