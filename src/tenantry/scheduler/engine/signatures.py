"""Skip jobs that cannot do better than one that failed already in the same action."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenantry.scheduler.engine import session as sessions

Sizes = list[tuple[int, ...]]


class Failures:
    """The smallest job that failed, for each signature."""

    def __init__(self, session: sessions.Session, *, per_queue: bool) -> None:
        self._session = session
        self._per_queue = per_queue
        self._smallest: dict[object, Sizes] = {}
        self._known: dict[int, tuple[int, ...]] = {}
        self._on = session.config.signatures

    def hopeless(self, job: sessions.JobState, rows: Sequence[int]) -> bool:
        """Tell whether a job like this, and not larger, failed before."""
        if not self._on:
            return False
        if not self._smallest:
            return False
        failed = self._smallest.get(self._signature(job, rows))
        return failed is not None and not _easier(self._sizes(rows), failed)

    def add(self, job: sessions.JobState, rows: Sequence[int]) -> None:
        """Remember a failure."""
        if self._on:
            self._smallest[self._signature(job, rows)] = self._sizes(rows)

    def _signature(self, job: sessions.JobState, rows: Sequence[int]) -> object:
        spec = job.spec
        assert spec is not None
        shapes = {self._session.state.shape_of[row].constraints for row in rows}
        leaves = tuple((leaf.name, leaf.topology) for leaf in job.leaves)
        return (
            job.queue if self._per_queue else "",
            spec.topology,
            leaves if len(leaves) > 1 or leaves[0][1] is not None else (),
            frozenset(shapes),
            spec.priority if self._per_queue else 0,
            job.preemptible,
        )

    def _sizes(self, rows: Sequence[int]) -> Sizes:
        shape_of, known = self._session.state.shape_of, self._known
        sizes = []
        for row in rows:
            shape = shape_of[row]
            size = known.get(shape.index)
            if size is None:
                vector = shape.vector.tolist()
                size = (*vector[:3], shape.gpus, shape.gpu_memory, *vector[4:])
                known[shape.index] = size
            sizes.append(size)
        sizes.sort()
        return sizes


def _easier(sizes: Sizes, failed: Sizes) -> bool:
    if len(sizes) < len(failed):
        return True
    for mine, theirs in zip(sizes, failed, strict=False):
        if any(a < b for a, b in zip(mine, theirs, strict=False)):
            return True
    return False
