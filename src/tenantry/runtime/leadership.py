"""The thread around `election.Elector`: a lease held while the main loop is alive.

It has an event loop and a client of its own, so that a long decode in the main loop cannot lose the
lease; and it renews only while the main loop beats, so that a main loop that hangs does lose it.
When the lease is lost the process must end at once, whatever the main loop does; `lost` is called
in this thread for that.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from tenantry.api import resources
from tenantry.kube import client as kube_client
from tenantry.kube import config as kube_config
from tenantry.kube import errors as kube_errors
from tenantry.runtime import election
from tenantry.runtime import timing as timings

logger = logging.getLogger(__name__)


class Heartbeat:
    """Signs of life of the main loop, readable from any thread."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def beat(self) -> None:
        """Give a sign of life."""
        self._last = time.monotonic()

    def silence(self) -> float:
        """Return seconds since the last one."""
        return time.monotonic() - self._last

    async def run(self, interval: float) -> None:
        """Beat for as long as the loop turns."""
        while True:
            self.beat()
            await asyncio.sleep(interval)


class Leadership:
    """Hold one Lease. `start`, await `acquired`, `release` at the end."""

    def __init__(
        self,
        config: kube_config.Config,
        *,
        namespace: str,
        name: str,
        identity: str,
        heartbeat: Heartbeat,
        lost: Callable[[str], None],
        timing: timings.Timing | None = None,
    ) -> None:
        self._config = config
        self._timing = timing or timings.Timing()
        self._heartbeat = heartbeat
        self._lost = lost
        self._about = {"lease": f"{namespace}/{name}", "identity": identity}
        self._place = (name, namespace)
        self._elector = election.Elector(
            namespace=namespace, name=name, identity=identity, timing=self._timing
        )
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._main: asyncio.AbstractEventLoop | None = None
        self._acquired = asyncio.Event()
        self._ready = threading.Event()
        self._failing = False

    @property
    def leading(self) -> bool:
        """Whether this process is the leader."""
        return self._elector.leading

    def waits_for(self) -> str:
        """Say what this process waits for to lead, "" once it does."""
        if self.leading:
            return ""
        return f"waiting for the lease, held by {self._elector.holder or 'nobody yet'}"

    def start(self) -> None:
        """Begin to seek the lease; called in the main loop."""
        self._main = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="leadership", daemon=True)
        self._thread.start()

    async def acquired(self) -> None:
        """Wait until this process leads."""
        await self._acquired.wait()

    async def release(self) -> None:
        """Give the lease back, so that a standby need not wait for it to expire."""
        thread = self._thread
        if thread is None:
            return
        await asyncio.to_thread(self._ready.wait, self._timing.write)
        if self._loop is not None and self._stop is not None and thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        await asyncio.to_thread(thread.join, 2 * self._timing.write)
        self._thread = None

    def _run(self) -> None:
        try:
            asyncio.run(self._hold())
        except BaseException as error:
            logger.exception("leadership_crashed", extra=self._about)
            self._lost(f"the election ended with {error!r}")
            raise
        finally:
            self._ready.set()

    async def _hold(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._ready.set()
        elector = self._elector
        async with kube_client.Client(
            self._config, connections=2, timeout=self._timing.write
        ) as client:
            while not self._stop.is_set():
                tick = election.Tick(self._heartbeat.silence())
                await self._perform(client, elector.step(tick, time.monotonic()))
                if elector.ended:
                    return
                try:
                    async with asyncio.timeout(max(0.0, elector.deadline - time.monotonic())):
                        await self._stop.wait()
                except TimeoutError:
                    continue
            was_leading = elector.leading
            await self._perform(client, elector.step(election.Stop(), time.monotonic()))
            if was_leading:
                logger.info("lease_released", extra=self._about)

    async def _perform(self, client: kube_client.Client, actions: list[election.Action]) -> None:
        pending = list(actions)
        while pending:
            action = pending.pop(0)
            match action:
                case election.Lead():
                    logger.info("lease_acquired", extra=self._about)
                    assert self._main is not None
                    self._main.call_soon_threadsafe(self._acquired.set)
                case election.Lose():
                    logger.error("lease_lost", extra={**self._about, "why": action.reason})
                    self._lost(action.reason)
                case _:
                    answer = await self._request(client, action)
                    pending += self._elector.step(answer, time.monotonic())

    async def _request(
        self, client: kube_client.Client, action: election.Get | election.Create | election.Update
    ) -> election.Input:
        # A leader must notice in time that it is none any longer, so nothing waits beyond that.
        left = self._elector.expires - time.monotonic()
        timeout = max(0.05, min(self._timing.write, left))
        reading = isinstance(action, election.Get)
        try:
            async with asyncio.timeout(timeout):
                answer = await self._send(client, action, timeout)
        except kube_errors.Conflict:
            return election.WriteFailed(election.Problem.CONFLICT)
        except kube_errors.NotFound as error:
            if reading:
                return self._heard(election.Read(None))
            self._note(action, error)
        except (kube_errors.KubeError, TimeoutError, OSError) as error:
            self._note(action, error)
        else:
            return self._heard(election.Read(answer) if reading else election.Written(answer))
        return election.ReadFailed() if reading else election.WriteFailed(election.Problem.UNKNOWN)

    async def _send(
        self,
        client: kube_client.Client,
        action: election.Get | election.Create | election.Update,
        timeout: float,
    ) -> dict[str, Any]:
        match action:
            case election.Get():
                return await client.get(resources.LEASES, *self._place, timeout=timeout)
            case election.Create():
                return await client.create(resources.LEASES, action.lease, timeout=timeout)
            case election.Update():
                return await client.replace(resources.LEASES, action.lease, timeout=timeout)

    def _heard(self, answer: election.Input) -> election.Input:
        self._failing = False
        return answer

    def _note(self, action: object, error: Exception) -> None:
        # Once per outage: retries come every two seconds.
        level = logging.DEBUG if self._failing else logging.WARNING
        self._failing = True
        why = str(error) or type(error).__name__
        logger.log(
            level,
            "lease_request_failed",
            extra={**self._about, "request": type(action).__name__.lower(), "why": why},
        )
