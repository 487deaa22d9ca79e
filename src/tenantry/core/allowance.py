"""A token bucket: a burst, refilled slowly; pure, with the time as an argument."""

from __future__ import annotations

#: Who has waited as long as was said gets one, however times are rounded.
_GRAIN = 1e-6


class Allowance:
    """How often something may be done.

    :param burst: how many times in a row, 1 or more
    :param refill: seconds after which one more is allowed
    """

    __slots__ = ("_at", "_burst", "_refill", "_tokens")

    def __init__(self, burst: float, refill: float, now: float) -> None:
        self._burst = burst
        self._refill = refill
        self._tokens = burst
        self._at = now

    def take(self, now: float) -> bool:
        """Take one if there is one; tell whether there was."""
        self._catch_up(now)
        if self._tokens < 1 - _GRAIN:
            return False
        self._tokens -= 1
        return True

    def wait(self, now: float) -> float:
        """Return the seconds until there is one."""
        self._catch_up(now)
        missing = 1 - self._tokens
        return missing * self._refill if missing > _GRAIN else 0.0

    def _catch_up(self, now: float) -> None:
        # A clock that is set back gives nothing and takes nothing.
        passed = max(0.0, now - self._at)
        self._tokens = min(self._burst, self._tokens + passed / self._refill)
        self._at = now
