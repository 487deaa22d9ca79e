"""Durations as arguments give them: seconds, or Go's notation."""

from __future__ import annotations

import re

_DURATION = re.compile(r"(-?)((?:\d+(?:\.\d+)?(?:h|ms|m|s|us|ns))+|0)")
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s|us|ns)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def parse(text: object) -> float | None:
    """Return seconds; None when absent or not a duration."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        return float(text)
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    total = sum(float(amount) * _SECONDS[unit] for amount, unit in _PART.findall(match.group(2)))
    return -total if match.group(1) else total


def seconds(text: object, missing: float) -> float:
    """Return seconds, or `missing` when there is no duration."""
    found = parse(text)
    return missing if found is None else found
