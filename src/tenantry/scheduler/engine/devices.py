"""Shared GPUs of one node: who holds how much of each, and what is left.

A *group* is one physical GPU in shared use. The first task on it takes a whole GPU out of the
node's vector, the last one gives it back; in between only the group's memory moves.
"""

from __future__ import annotations

from tenantry.scheduler.engine import status

#: Positions in a group's record: MiB and number of tasks by how they hold the device.
HELD, LEAVING, PLANNED, HOLDERS, LEAVERS, PLANNERS = range(6)
Group = list[int]
Groups = dict[str, Group]
GPU = 1000


def new() -> Group:
    """Return the record of a device that nobody uses."""
    return [0, 0, 0, 0, 0, 0]


def whole(group: Group) -> tuple[int, int]:
    """Return what the group takes from (idle, free) whole GPUs, in milli.

    *Free* is what remains when everything that is leaving has left and all plans are carried out.
    """
    held = group[HOLDERS] > 0
    stays = group[HOLDERS] > group[LEAVERS] or group[PLANNERS] > 0
    return (GPU if held else 0), (GPU if stays else 0)


def change(group: Group, state: int, memory: int, sign: int) -> None:
    """Add (sign 1) or remove (sign -1) one task of this state."""
    if status.ON_IDLE[state]:
        group[HELD] += sign * memory
        group[HOLDERS] += sign
        if not status.ON_FREE[state]:
            group[LEAVING] += sign * memory
            group[LEAVERS] += sign
    elif status.ON_FREE[state]:
        group[PLANNED] += sign * memory
        group[PLANNERS] += sign


def remaining(group: Group, capacity: int) -> int:
    """Return the MiB that are left when everything that is leaving has left."""
    return capacity - group[HELD] + group[LEAVING] - group[PLANNED]


def fits(group: Group, capacity: int, memory: int) -> bool:
    """Tell whether the task would fit once everything that is leaving has left.

    A device whose holders are all leaving counts as a whole releasing GPU instead, unless
    somebody already plans to stay on it.
    """
    if not group[HOLDERS] and not group[PLANNERS]:
        return False
    if group[HOLDERS] and group[HOLDERS] == group[LEAVERS]:
        return False
    return remaining(group, capacity) >= memory


def fits_now(group: Group, capacity: int, memory: int) -> bool:
    """Tell whether the task fits beside everyone who holds the device at this moment."""
    return group[HOLDERS] > 0 and group[HELD] + memory <= capacity


def used_share(group: Group, capacity: int) -> float:
    """Return the used part of the device, for packing."""
    return (group[HELD] + group[PLANNED]) / max(capacity, 1)
