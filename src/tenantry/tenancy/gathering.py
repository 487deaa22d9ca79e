"""When a report is made: at once while few are, else together with what comes a moment later.

Who makes a tenant waits for its status; who makes hundreds, each with its namespaces, is served
better by one status that has it all. A machine without I/O.
"""

from __future__ import annotations

from tenantry.core import allowance

#: Reports made at once in a row, and seconds after which one more is.
BURST, REFILL = 10, 0.5


class Gathering:
    """Decides for each key how long its report waits.

    :param longest: seconds after which a report is made however many are
    """

    def __init__(self, longest: float, now: float) -> None:
        self._longest = longest
        self._prompt = allowance.Allowance(BURST, REFILL, now)
        self._since: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._since)

    def patience(self, key: str, now: float) -> float:
        """Return the seconds after which to ask again; 0 when the report is to be made now."""
        left = self._since.setdefault(key, now) + self._longest - now
        if left > 0 and not self._prompt.take(now):
            return left
        del self._since[key]
        return 0.0

    def forget(self, key: str) -> None:
        """Forget what is gone."""
        self._since.pop(key, None)
