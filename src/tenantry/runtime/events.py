"""Events that people see in `kubectl describe`: recorded at once, written in the background.

What is written is decided by `aggregation.Aggregator`. Events are help, not state: they are written
at a pace that leaves the API server to the work they tell of; when the queue is full the oldest
goes, and one that the API server refuses is dropped and counted.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
from collections.abc import Callable
from typing import Literal

from tenantry.api import resources
from tenantry.core import allowance, clock
from tenantry.kube import client as kube_client
from tenantry.kube import errors as kube_errors
from tenantry.runtime import aggregation, metrics
from tenantry.runtime import timing as timings

logger = logging.getLogger(__name__)

_LONGEST_QUEUE = 1024
#: Events written in a row, before the pace holds.
_BURST = 25

reference = aggregation.reference


class Recorder:
    """Record events as one controller."""

    def __init__(
        self,
        client: kube_client.Client,
        controller: str,
        instance: str,
        *,
        timing: timings.Timing | None = None,
        registry: metrics.Registry | None = None,
        wall: clock.Clock = clock.wall,
        home: Callable[[], str] = lambda: aggregation.DEFAULT,
    ) -> None:
        """Make one.

        :param home: gives the namespace for events about cluster-wide objects
        """
        self._client = client
        self._timing = timing or timings.Timing()
        self._wall = wall
        self._aggregator = aggregation.Aggregator(
            controller=controller, instance=instance, timing=self._timing, home=home
        )
        self._writes: collections.deque[aggregation.Write] = collections.deque()
        self._some = asyncio.Event()
        self._total = (registry or metrics.Registry()).counter(
            "events_total", "Events by what became of them.", ("result",)
        )

    def event(
        self,
        regarding: aggregation.Reference,
        type: Literal["Normal", "Warning"],
        reason: str,
        action: str,
        note: str,
        *,
        related: aggregation.Reference | None = None,
        annotations: dict[str, str] | None = None,
        labels: dict[str, str] | None = None,
        apart: str = "",
    ) -> None:
        """Record that something happened to an object; never waits, never raises.

        :param apart: keeps apart what differs in nothing else but shall not be counted together
        """
        occurrence = aggregation.Occurrence(
            regarding=regarding,
            type=type,
            reason=reason,
            action=action,
            note=note,
            related=related,
            annotations=annotations or {},
            labels=labels or {},
            apart=apart,
        )
        self._put(self._aggregator.record(occurrence, self._wall()))

    async def run(self) -> None:
        """Write until cancelled, at a pace."""
        now = asyncio.get_running_loop().time
        pace = allowance.Allowance(_BURST, self._timing.event_pace, now())
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._timing.event_flush):
                    await self._some.wait()
            self._put(self._aggregator.flush(self._wall()))
            while self._writes:
                await asyncio.sleep(pace.wait(now()))
                pace.take(now())
                await self._write(self._writes.popleft())
            self._some.clear()

    async def drain(self) -> None:
        """Write all that waits, at once."""
        while self._writes:
            await self._write(self._writes.popleft())
        self._some.clear()

    def _put(self, writes: list[aggregation.Write]) -> None:
        for write in writes:
            if len(self._writes) >= _LONGEST_QUEUE:
                self._writes.popleft()
                self._total.inc("dropped")
            self._writes.append(write)
            self._some.set()

    async def _write(self, write: aggregation.Write) -> None:
        try:
            if isinstance(write, aggregation.Create):
                await self._create(write.event)
            else:
                try:
                    await self._client.patch(
                        resources.EVENTS,
                        write.name,
                        write.namespace,
                        kind="merge",
                        body={"series": write.series},
                        timeout=self._timing.write,
                    )
                except kube_errors.NotFound:
                    await self._create(write.event)  # it has expired
        except kube_errors.KubeError as error:
            self._total.inc("failed")
            logger.debug("event_not_written", extra={"why": str(error)})
        else:
            self._total.inc("written")

    async def _create(self, event: dict[str, object]) -> None:
        # Already there: an earlier try whose answer was lost.
        with contextlib.suppress(kube_errors.AlreadyExists):
            await self._client.create(resources.EVENTS, event, timeout=self._timing.write)
