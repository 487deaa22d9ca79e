"""The supervisor's hands: it does what `supervision` decides, and tells it what happened."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from tenantry.core import clock, errors
from tenantry.local import children, plan, plane, probing, state, status, supervision

log = logging.getLogger(__name__)
#: Seconds between two looks at what needs care while all is well: logs and tokens.
HOUSEKEEPING = 60.0


class Chores(Protocol):
    """What has to be done at the API server; see `bootstrap`."""

    def task(self, name: str) -> Callable[[], Awaitable[None]]: ...

    async def renew(self) -> None: ...

    async def close(self) -> None: ...


class Supervisor:
    """Runs one platform until told to stop.

    :param chores: called once the first process is on its way: what it imports takes about as
        long as etcd's start
    """

    def __init__(
        self, described: plan.Plan, paths: state.Layout, chores: Callable[[], Chores]
    ) -> None:
        self.plan = described
        self.paths = paths
        self._chores = chores
        self.chores: Chores | None = None
        self.processes = {p.name: p for p in plane.processes(described, paths)}
        units = [*(p.unit for p in self.processes.values()), *plane.tasks(described)]
        self.machine = supervision.Supervision(units)
        self.events: asyncio.Queue[supervision.Event] = asyncio.Queue()
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.started = clock.wall()
        #: What turns a time of the machine into one that others understand.
        self._epoch = clock.wall() - clock.monotonic()
        self._background: set[asyncio.Task[None]] = set()
        self._stored: status.Status | None = None

    async def run(self) -> supervision.Overall:
        """Start everything, keep it running, and return once all has ended."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.events.put_nowait, supervision.Stop())
        housekeeping = asyncio.create_task(self._keep_house())
        try:
            event: supervision.Event | None = None
            while True:
                for action in self.machine.step(event, clock.monotonic()):
                    self._do(action)
                self._tell()
                overall = self.machine.overall
                if overall in {supervision.Overall.STOPPED, supervision.Overall.FAILED}:
                    return overall
                if self.chores is None:
                    self.chores = self._chores()
                event = await self._next()
        finally:
            housekeeping.cancel()
            await asyncio.gather(housekeeping, return_exceptions=True)
            if self.chores:
                await self.chores.close()

    async def _next(self) -> supervision.Event | None:
        deadline = self.machine.next_deadline()
        left = None if deadline is None else max(0.0, deadline - clock.monotonic())
        try:
            return await asyncio.wait_for(self.events.get(), left)
        except TimeoutError:
            return None

    def _do(self, action: supervision.Action) -> None:
        match action:
            case supervision.Spawn(name):
                self._spawn(self.processes[name])
            case supervision.Probe(name):
                self._keep(self._probe(self.processes[name]))
            case supervision.Run(name):
                self.tasks[name] = asyncio.create_task(self._run(name))
            case supervision.Terminate(name) if name in self.tasks:
                self.tasks[name].cancel()
            case supervision.Terminate(name):
                self._signal(name, signal.SIGTERM)
            case supervision.Kill(name):
                self._signal(name, signal.SIGKILL)

    def _spawn(self, process: plane.Process) -> None:
        env = {**inherited(os.environ), **process.env}
        try:
            child = children.start(process.argv, env=env, log=self.paths.log(process.name))
        except OSError as err:
            reason = f"{process.argv[0]} cannot be run: {os.strerror(err.errno or 0)}"
            log.error("not_started unit=%s reason=%r", process.name, reason)
            self.events.put_nowait(supervision.NotStarted(process.name, reason))
            return
        log.info("started unit=%s pid=%d", process.name, child.pid)
        self.running[process.name] = child

        def ended(reason: str) -> None:
            log.info("ended unit=%s pid=%d reason=%r", process.name, child.pid, reason)
            self.running.pop(process.name, None)
            self.events.put_nowait(supervision.Exited(process.name, reason))

        children.watch(child, ended)

    def _signal(self, name: str, number: signal.Signals) -> None:
        if child := self.running.get(name):
            children.send(child, number)

    async def _probe(self, process: plane.Process) -> None:
        child = self.running.get(process.name)
        detail = await probing.ask(process.probe) if process.probe else ""
        if child is self.running.get(process.name):  # else it is about one that is gone
            self.events.put_nowait(supervision.Probed(process.name, not detail, detail))

    async def _run(self, name: str) -> None:
        reason = ""
        try:
            if self.chores:
                await self.chores.task(name)()
        except asyncio.CancelledError:
            reason = "cancelled"
        except Exception as err:
            reason = str(err) or type(err).__name__
            log.exception("task_failed unit=%s", name)
        finally:
            self.tasks.pop(name, None)
            self.events.put_nowait(supervision.Done(name, reason))

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(HOUSEKEEPING)
            # Whatever goes wrong with one chore, the others are done, and all of them next time.
            try:
                for name in self.processes:
                    children.cut(self.paths.log(name))
            except Exception:
                log.exception("logs_not_cut")
            try:
                if self.chores:
                    # The tokens are renewed long before they expire; there are more chances.
                    await self.chores.renew()
            except (errors.TenantryError, OSError) as err:
                log.warning("tokens_not_renewed error=%r", str(err))
            except Exception:
                log.exception("tokens_not_renewed")

    def _keep(self, coroutine: Awaitable[None]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _tell(self) -> None:
        now = status.Status(
            name=self.plan.name,
            phase=self.machine.overall.value,
            reason=self.machine.failure,
            pid=os.getpid(),
            started=self.started,
            servers=self.plan.servers,
            kubeconfig=str(self.paths.admin_kubeconfig),
            units=tuple(self._unit(known) for known in self.machine.states.values()),
        )
        if now == self._stored:
            return
        try:
            status.store(now, self.paths)
            self._stored = now
        except errors.TenantryError as err:
            log.error("status_not_stored error=%r", str(err))

    def _unit(self, known: supervision.State) -> status.UnitStatus:
        child = self.running.get(known.unit.name)
        return status.UnitStatus(
            name=known.unit.name,
            kind=known.unit.kind,
            phase=known.phase.value,
            pid=child.pid if child else None,
            since=self._epoch + known.since if known.since else self.started,
            took=None if known.took is None else round(known.took, 3),
            restarts=known.restarts,
            reason=known.reason,
        )


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """Choose what children get of this process' environment: nothing that steers a program."""
    steering = ("ETCD_", "KUBERNETES_", "KWOK_", "KUBECONFIG")
    return {key: value for key, value in environ.items() if not key.startswith(steering)}
