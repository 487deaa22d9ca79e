"""Durations as arguments give them: seconds, or Go's notation."""

from __future__ import annotations

import re

from tenantry.core import durations

_DURATION = re.compile(r"-?(?:(?:\d+(?:\.\d+)?(?:h|ms|m|s|us|ns))+|0)")


def parse(text: object) -> float | None:
    """Return seconds; None when absent or not a duration."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        return float(text)
    if not isinstance(text, str) or _DURATION.fullmatch(text) is None:
        return None
    return durations.seconds(text)


def seconds(text: object, missing: float) -> float:
    """Return seconds, or `missing` when there is no duration."""
    found = parse(text)
    return missing if found is None else found
