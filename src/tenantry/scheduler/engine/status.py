"""States of a task and the groups of states that the rules speak of.

States are small integers, because a column of them is copied in each cycle.
"""

from __future__ import annotations

PENDING = 0
GATED = 1
ALLOCATED = 2
PIPELINED = 3
BINDING = 4
BOUND = 5
RUNNING = 6
RELEASING = 7
SUCCEEDED = 8
FAILED = 9
UNKNOWN = 10
DELETED = 11
STUCK = 12
COUNT = 16  # a power of two, so that a row of counters is found by a shift

TITLES = (
    "Pending",
    "Gated",
    "Allocated",
    "Pipelined",
    "Binding",
    "Bound",
    "Running",
    "Releasing",
    "Succeeded",
    "Failed",
    "Unknown",
    "Deleted",
    "StuckInReleasing",
)
BY_TITLE = {title: value for value, title in enumerate(TITLES)}


def _group(*members: int) -> tuple[bool, ...]:
    return tuple(value in members for value in range(COUNT))


IS_ALLOCATED = _group(ALLOCATED, BINDING, BOUND, RUNNING)
IS_ACTIVE = _group(ALLOCATED, PIPELINED, BINDING, BOUND, RUNNING)
IS_USED = _group(ALLOCATED, PIPELINED, BINDING, BOUND, RUNNING, RELEASING, STUCK)

#: The task occupies its node now.
ON_IDLE = _group(ALLOCATED, BINDING, BOUND, RUNNING, RELEASING, STUCK)
#: The task occupies its node also when everything that is leaving has left.
ON_FREE = _group(ALLOCATED, PIPELINED, BINDING, BOUND, RUNNING, STUCK)
