"""Delays that double until a limit."""

from __future__ import annotations

import random
from collections.abc import Callable


def exponential(failures: int, *, first: float, longest: float) -> float:
    """Return the delay after the given number of failures in a row: first, twice that, ..."""
    # The exponent is capped: 2.0 ** 1024 overflows, and a key may fail for months.
    return min(longest, first * 2.0 ** min(max(failures - 1, 0), 64))


class Backoff:
    """The delay before the next attempt at one thing; resets after a stretch of health.

    Jitter adds up to `jitter` times the delay, so that many clients do not return together.
    """

    def __init__(
        self,
        *,
        first: float,
        longest: float,
        healthy: float,
        jitter: float = 0.5,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self._first = first
        self._longest = longest
        self._healthy = healthy
        self._jitter = jitter
        self._rng = rng
        self.failures = 0

    def next(self, *, up: float = 0.0) -> float:
        """Count a failure after `up` seconds of health and return how long to wait."""
        if up >= self._healthy:
            self.failures = 0
        self.failures += 1
        delay = exponential(self.failures, first=self._first, longest=self._longest)
        return delay * (1.0 + self._jitter * self._rng())

    def reset(self) -> None:
        """Forget all failures."""
        self.failures = 0
