"""Time as an argument, and the two forms in which Kubernetes writes it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime

#: Seconds since the epoch; machines and pure functions take `now`, shells pass `clock()`.
Clock = Callable[[], float]

wall: Clock = time.time
monotonic: Clock = time.monotonic

#: Go writes as many digits of a fraction as it has; `fromisoformat` reads six of them.
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


def rfc3339(seconds: float) -> str:
    """Write a time as `metav1.Time` does: UTC, whole seconds."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(seconds: float) -> str:
    """Write a time as `metav1.MicroTime` does: UTC, six digits."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_rfc3339(text: str) -> float:
    """Read either form; raises ValueError on anything else, such as a time without its zone."""
    if _RFC3339.fullmatch(text) is None:
        raise ValueError(f"not a time as Kubernetes writes it: {text!r}")
    return datetime.fromisoformat(text).timestamp()
