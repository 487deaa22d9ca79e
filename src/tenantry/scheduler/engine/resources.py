"""Names of resources, their units inside the engine, and vectors of them.

Node vectors count CPU in milli, memory in bytes, pods, GPUs in milli (whole ones only) and every
other resource in milli units; their dimensions grow with the names that are seen. Queues account
for `ACCOUNTED` first, then for any further resource that some queue limits.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

CPU, MEMORY, PODS, GPU = range(4)
BASE = ("cpu", "memory", "pods", "gpu")
ACCOUNTED = ("cpu", "memory", "gpu")
GPU_RESOURCE = "nvidia.com/gpu"
MILLI = 1000
#: More than this of anything is taken for a mistake: sums must stay far inside 64 bits.
ABSURD = 1 << 53

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_MIG = re.compile(r"nvidia\.com/mig-(\d+)g\.\d+gb.*")


class Dimensions:
    """The ordered names behind the rows of node vectors; append only."""

    __slots__ = ("index", "names")

    def __init__(self) -> None:
        self.names: list[str] = list(BASE)
        self.index: dict[str, int] = {name: i for i, name in enumerate(BASE)}

    def __len__(self) -> int:
        return len(self.names)

    def add(self, name: str) -> int:
        """Return the row of a resource, making one when it is new."""
        row = self.index.get(name)
        if row is None:
            row = self.index[name] = len(self.names)
            self.names.append(name)
        return row

    def vector(self, amounts: Mapping[str, int]) -> Ints:
        """Return amounts by name as a vector over all dimensions known by now."""
        rows = [(self.add(name), amount) for name, amount in amounts.items()]
        vector = np.zeros(len(self.names), np.int64)
        for row, amount in rows:
            vector[row] = amount
        return vector


@functools.lru_cache(maxsize=256)
def mig_weight(name: str) -> int:
    """Return how many GPUs one MIG device of this name counts for in queues; 0 if it is none."""
    match = _MIG.fullmatch(name)
    return int(match.group(1)) if match else 0


def padded(vector: Ints, width: int) -> Ints:
    """Return the vector with zeros for dimensions that were learned after it was made."""
    if len(vector) == width:
        return vector
    wide = np.zeros(width, np.int64)
    wide[: len(vector)] = vector
    return wide
