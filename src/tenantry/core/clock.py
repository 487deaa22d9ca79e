"""Time as an argument, and the two forms in which Kubernetes writes it."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

#: Seconds since the epoch; machines and pure functions take `now`, shells pass `clock()`.
Clock = Callable[[], float]

wall: Clock = time.time
monotonic: Clock = time.monotonic


def rfc3339(seconds: float) -> str:
    """Write a time as `metav1.Time` does: UTC, whole seconds."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(seconds: float) -> str:
    """Write a time as `metav1.MicroTime` does: UTC, six digits."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_rfc3339(text: str) -> float:
    """Read either form; raises ValueError on anything else."""
    return datetime.fromisoformat(text).timestamp()
