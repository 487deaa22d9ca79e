"""One process: what it starts, in which order, and how it ends.

Up: probes, caches filled, setups, webhooks, leadership, controllers. Down: readiness goes, running
reconciles finish, the lease is given back, webhooks drain, caches close. Several roles share a
process by adding to the same manager. A part that ends although nobody stopped it ends the process
with code 1; a lost lease ends it on the spot, because somebody else is already at work.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import signal
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from tenantry.kube import config as kube_config
from tenantry.runtime import (
    cluster,
    controller,
    errors,
    health,
    leadership,
    memory,
    metrics,
    mortality,
    webhook,
)
from tenantry.runtime import timing as timings

logger = logging.getLogger(__name__)

#: Exit codes.
STOPPED, CRASHED, LEASE_LOST = 0, 1, 3

Work = Callable[[], Coroutine[Any, Any, None]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Election:
    """Where the Lease is, and as whom to reach it (on connections of its own)."""

    config: kube_config.Config
    namespace: str
    name: str
    identity: str = ""


class Manager:
    """Add parts, then `run`."""

    def __init__(
        self,
        name: str,
        *,
        cluster: cluster.Cluster,
        timing: timings.Timing | None = None,
        election: Election | None = None,
        probes: tuple[str, int] | None = None,
        exit: Callable[[int], Any] = os._exit,
    ) -> None:
        self.name = name
        self.cluster = cluster
        self.timing = timing or cluster.timing
        self.metrics: metrics.Registry = cluster.metrics
        self._election = election
        self._exit = exit
        self._health = health.Server(*probes, registry=self.metrics) if probes is not None else None
        self._controllers: list[tuple[controller.Controller[Any], bool]] = []
        self._webhooks: list[webhook.Server] = []
        self._setups: list[tuple[str, Callable[[], Awaitable[None]]]] = []
        self._works: list[tuple[str, Work, bool]] = []
        self._heartbeat = leadership.Heartbeat()
        self._leadership: leadership.Leadership | None = None
        self._parts: dict[asyncio.Task[None], str] = {}
        self._controller_tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        self._crash: BaseException | None = None
        self._crashed = asyncio.Event()
        #: Set when everything this process can start by itself is started (not: leading).
        self.up = asyncio.Event()
        #: Set when the controllers run.
        self.active = asyncio.Event()
        self._leader_metric = self.metrics.gauge(
            "leader_election_master_status", "Whether this process leads.", ("name",)
        )

    @property
    def probes_port(self) -> int:
        """The port of the probes, 0 when there are none."""
        return self._health.port if self._health is not None else 0

    def add_controller(self, part: controller.Controller[Any], *, leader: bool = True) -> None:
        """Add a controller; with `leader` it runs only while this process leads."""
        self._controllers.append((part, leader))

    def add_webhook(self, part: webhook.Server) -> None:
        """Add a webhook server; it listens once the caches are filled."""
        self._webhooks.append(part)

    def add_setup(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Add something to be done once, after the caches are filled and before webhooks listen."""
        self._setups.append((name, work))

    def add_work(self, name: str, work: Work, *, leader: bool = False) -> None:
        """Add something that goes on until it is cancelled; ending by itself is a crash."""
        self._works.append((name, work, leader))

    def listen(self, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> None:
        """Serve probes and metrics at another address as well."""
        if self._health is not None:
            self._health.also(host, port, tls=tls)

    def add_check(self, name: str, check: health.Check) -> None:
        """Add a condition without which this process is not ready."""
        if self._health is not None:
            self._health.ready.add(name, check)

    async def run(self, stop: asyncio.Event | None = None) -> int:
        """Run until SIGTERM, SIGINT, `stop` or a crash; return the exit code."""
        stop = stop or asyncio.Event()
        with _signals(stop, self._exit):
            waiting = [
                asyncio.create_task(stop.wait()),
                asyncio.create_task(self._crashed.wait()),
            ]
            bringing_up = asyncio.create_task(self._bring_up(), name="start")
            bringing_up.add_done_callback(self._brought_up)
            try:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._stopping = True
                for task in (*waiting, bringing_up):
                    task.cancel()
                await asyncio.gather(*waiting, bringing_up, return_exceptions=True)
                await self._take_down()
        if self._crash is not None:
            logger.error("manager_crashed", extra={"manager": self.name}, exc_info=self._crash)
            return CRASHED
        logger.info("manager_stopped", extra={"manager": self.name})
        return STOPPED

    async def _bring_up(self) -> None:
        memory.tune()
        if self._health is not None:
            self._health.ready.add("caches", self._check_caches)
            for number, server in enumerate(self._webhooks):
                self._health.ready.add(f"webhook-{number}", server.check)
            await self._health.start()
        self._spawn("heartbeat", self._heartbeat.run(self.timing.heartbeat))
        await self.cluster.start()
        self._spawn("caches", self.cluster.run_until_crash())
        for name, work, leader in self._works:
            if not leader:
                self._spawn(name, work())
        await self.cluster.wait_synced(self.timing.sync)
        memory.settle()
        for name, setup in self._setups:
            logger.info("setup", extra={"manager": self.name, "setup": name})
            await setup()
        for server in self._webhooks:
            await server.start()
            self._spawn("webhook", server.run())
        for part, leader in self._controllers:
            if not leader:
                self._control(part)
        self.up.set()
        logger.info("manager_started", extra={"manager": self.name})
        await self._lead()

    async def _lead(self) -> None:
        parts = [part for part, leader in self._controllers if leader]
        works = [(name, work) for name, work, leader in self._works if leader]
        if self._election is not None and (parts or works):
            self._leadership = leadership.Leadership(
                self._election.config,
                namespace=self._election.namespace,
                name=self._election.name,
                identity=self._election.identity or mortality.name(),
                heartbeat=self._heartbeat,
                lost=self._lost,
                timing=self.timing,
            )
            self._leader_metric.set(0, self._election.name)
            if self._health is not None:
                self._health.ready.note("leader", self._leadership.waits_for)
            self._leadership.start()
            await self._leadership.acquired()
            self._leader_metric.set(1, self._election.name)
        for name, work in works:
            self._spawn(name, work())
        for part in parts:
            self._control(part)
        self.active.set()

    async def _take_down(self) -> None:
        if self._health is not None:
            self._health.ready.add("shutdown", lambda: "stopping")
        draining = [asyncio.create_task(server.stop()) for server in self._webhooks]
        for part, _ in self._controllers:
            part.stop()
        if self._controller_tasks:
            _, late = await asyncio.wait(self._controller_tasks, timeout=self.timing.grace)
            for task in late:
                logger.warning("reconcile_cut", extra={"part": self._parts.get(task, "")})
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        # Only now: a successor must not begin while we still write.
        await self._cancel({name for name, _, leader in self._works if leader})
        if self._leadership is not None:
            await self._leadership.release()
        await asyncio.gather(*draining, return_exceptions=True)
        await self._cancel(set(self._parts.values()))
        await self.cluster.close()
        if self._health is not None:
            await self._health.stop()

    async def _cancel(self, names: set[str]) -> None:
        tasks = [task for task, name in self._parts.items() if name in names]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _control(self, part: controller.Controller[Any]) -> None:
        self._controller_tasks.append(self._spawn(f"controller {part.name}", part.run()))

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._parts[task] = name
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if self._stopping or task.cancelled():
            self._parts.pop(task, None)
            return
        name = self._parts.pop(task)
        self._fail(task.exception() or errors.CrashedError(name))

    def _brought_up(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._crash = self._crash or error
        self._crashed.set()

    def _lost(self, reason: str) -> None:
        # In the thread of the election; the main loop may hang, so nothing can be asked of it.
        logger.critical("manager_ends", extra={"manager": self.name, "why": reason})
        for handler in logging.getLogger().handlers:
            with contextlib.suppress(Exception):
                handler.flush()
        self._exit(LEASE_LOST)

    def _check_caches(self) -> str:
        waiting = self.cluster.not_synced()
        return f"waiting for {', '.join(waiting)}" if waiting else ""


@contextlib.contextmanager
def _signals(stop: asyncio.Event, exit: Callable[[int], Any]) -> Any:
    """Turn the first signal into `stop` and the second into an end on the spot."""
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if stop.is_set():
            exit(CRASHED)
        stop.set()

    installed = []
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
            # Only the main thread may; a manager in a test's thread goes without.
            loop.add_signal_handler(number, on_signal)
            installed.append(number)
    try:
        yield
    finally:
        for number in installed:
            loop.remove_signal_handler(number)


def main(build: Callable[[], Awaitable[Manager]]) -> int:
    """Build a manager inside a fresh event loop, run it, and return the exit code."""

    async def run() -> int:
        return await (await build()).run()

    try:
        import uvloop
    except ImportError:
        factory = None
    else:
        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(run())
