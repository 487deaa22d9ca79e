"""One line of JSON per request, written together with those of the same instant.

Not by way of `logging`: its records cost more than the decision that they are about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from tenantry.core import clock
from tenantry.gateway import handler

#: Seconds for which lines are collected.
_COLLECT = 0.1


class _Line(msgspec.Struct, omit_defaults=True, gc=False):
    time: str
    method: str
    path: str
    user: str
    tenants: list[str]
    decision: str
    status: int
    bytes: int
    seconds: float
    upstream: float
    peer: str
    error: str = ""


_ENCODER = msgspec.json.Encoder()


class AccessLog:
    """Collects lines and hands them to `write`."""

    def __init__(self, write: Callable[[bytes], object], *, wall: clock.Clock = clock.wall) -> None:
        self._write = write
        self._wall = wall
        self._lines: list[_Line] = []
        self._second, self._prefix = 0, ""

    def add(self, entry: handler.Entry, seconds: float) -> None:
        """Note an exchange that is over; the query is left out, since it may hold secrets."""
        found, outcome = entry.found, entry.found.outcome
        if not self._lines:
            asyncio.get_running_loop().call_later(_COLLECT, self.flush)
        self._lines.append(
            _Line(
                time=self._time(),
                method=found.head.method.decode(),
                path=found.head.path.decode(),
                user=entry.who.user if entry.who is not None else "",
                tenants=list(entry.tenants),
                decision=entry.decision,
                status=outcome.status,
                bytes=outcome.sent,
                seconds=round(seconds, 6),
                upstream=round(outcome.upstream_seconds, 6),
                peer=found.peer.host,
                error=outcome.error,
            )
        )

    def _time(self) -> str:
        now = self._wall()
        second = int(now)
        if second != self._second:
            self._second, self._prefix = second, clock.rfc3339(second)[:-1]
        return f"{self._prefix}.{int((now - second) * 1e6):06}Z"

    def flush(self) -> None:
        """Write what was collected."""
        lines, self._lines = self._lines, []
        if lines:
            self._write(_ENCODER.encode_lines(lines))
