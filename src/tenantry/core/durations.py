"""What a duration in Go's notation is worth. Which forms are accepted, each caller says itself."""

from __future__ import annotations

import re

#: Nanoseconds.
_UNITS = {
    "ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9,
    "h": 3600 * 10**9,
}  # fmt: skip
_PIECE = re.compile(r"(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)")


def nanoseconds(text: str) -> int:
    """Add up the pieces of a well-formed duration such as "1h30m", "-2.5s" or "0"; exact.

    :param text: short, since numbers of any length are read
    """
    total = 0
    for whole, part, unit in _PIECE.findall(text):
        size = _UNITS[unit]
        total += int(whole or 0) * size + int(part or 0) * size // 10 ** len(part)
    return -total if text.startswith("-") else total


def seconds(text: str) -> float:
    """Add them up in seconds; more than a float can hold is infinite."""
    total = sum(
        float(f"{whole or 0}.{part or 0}") * (_UNITS[unit] / 10**9)
        for whole, part, unit in _PIECE.findall(text)
    )
    return -total if text.startswith("-") else total
