"""Conditions of a status: one per type, with a transition time that means something."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tenantry.api import meta
from tenantry.core import clock

#: The API machinery's limit.
LONGEST_MESSAGE = 32768


def set_condition(
    conditions: Sequence[meta.Condition], new: meta.Condition, now: float
) -> tuple[list[meta.Condition], bool]:
    """Return the conditions with `new` among them, and whether anything differs.

    `lastTransitionTime` moves only when the status does. The order is kept.
    """
    message = new.message
    if len(message) > LONGEST_MESSAGE:
        message = message[: LONGEST_MESSAGE - 3] + "..."
    result = list(conditions)
    for index, old in enumerate(result):
        if old.type != new.type:
            continue
        keep = old.status == new.status and old.last_transition_time
        since = old.last_transition_time if keep else clock.rfc3339(now)
        replaced = msgspec.structs.replace(new, message=message, last_transition_time=since)
        result[index] = replaced
        return result, replaced != old
    added = msgspec.structs.replace(
        new, message=message, last_transition_time=new.last_transition_time or clock.rfc3339(now)
    )
    return [*result, added], True


def remove_condition(
    conditions: Sequence[meta.Condition], type: str
) -> tuple[list[meta.Condition], bool]:
    """Return the conditions without one type, and whether it was there."""
    result = [condition for condition in conditions if condition.type != type]
    return result, len(result) != len(conditions)


def find_condition(conditions: Sequence[meta.Condition], type: str) -> meta.Condition | None:
    """Return the condition of one type."""
    return next((condition for condition in conditions if condition.type == type), None)


def is_true(conditions: Sequence[meta.Condition], type: str) -> bool:
    """Tell whether a condition is there with status True."""
    found = find_condition(conditions, type)
    return found is not None and found.status == "True"
