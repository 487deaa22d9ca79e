"""The supervisor with small programs in place of a control plane."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from tenantry.local import children, errors, plan, plane, state, status, supervision, supervisor

SERVER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


class Chores:
    """Chores that a test decides."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.fail = ""
        self.closed = False
        self.renewed = 0

    def task(self, name: str) -> Callable[[], Awaitable[None]]:
        async def work() -> None:
            if self.fail:
                raise errors.LocalError(self.fail)
            self.done.append(name)

        return work

    async def renew(self) -> None:
        self.renewed += 1

    async def close(self) -> None:
        self.closed = True


class Running:
    """A supervisor at work, and what its status file says."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paths = state.layout("one", tmp_path)
        state.prepare(self.paths, minimum_free=0)
        self.processes: list[plane.Process] = []
        self.tasks: list[supervision.Unit] = []
        self.chores = Chores()
        self.ended: asyncio.Task[supervision.Overall] | None = None
        monkeypatch.setattr(plane, "processes", lambda *_: tuple(self.processes))
        monkeypatch.setattr(plane, "tasks", lambda *_: tuple(self.tasks))

    def add(self, name: str, *argv: str, probe: str = "", after: tuple[str, ...] = ()) -> None:
        unit = supervision.Unit(name=name, after=after, stop_grace=0.3, start_timeout=10)
        self.processes.append(
            plane.Process(unit=unit, argv=argv, probe=plane.Probe(url=probe) if probe else None)
        )

    def start(self) -> None:
        described = plan.Plan(name="one", binaries={}, api_ports=(20001,))
        self.made = supervisor.Supervisor(described, self.paths, lambda: self.chores)
        self.ended = asyncio.create_task(self.made.run())

    def told(self) -> status.Status:
        return status.load(self.paths)

    def unit(self, name: str) -> status.UnitStatus:
        units = {unit.name: unit for unit in self.told().units}
        return units.get(name) or status.UnitStatus(name=name, kind="", phase="")

    async def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < deadline, self.told()
            await asyncio.sleep(0.01)

    async def until_phase(self, phase: str) -> None:
        await self.until(lambda: self.told().phase == phase)

    async def end(self) -> supervision.Overall:
        assert self.ended is not None
        return await asyncio.wait_for(self.ended, 20)


@pytest.fixture
async def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Running]:
    made = Running(tmp_path, monkeypatch)
    # The lock is what makes the status of a living supervisor believed.
    with state.locked(made.paths.lock):
        yield made
    if made.ended is not None and not made.ended.done():
        made.made.events.put_nowait(supervision.Stop())
        await made.end()


def stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


async def test_up_and_down(running: Running, unused_port: int) -> None:
    running.add(
        "server",
        "python3",
        "-c",
        SERVER,
        str(unused_port),
        probe=f"http://127.0.0.1:{unused_port}/",
    )
    running.add("role", "sleep", "60", after=("objects",))
    running.tasks.append(supervision.Unit(name="objects", kind="task", after=("server",)))
    running.start()
    await running.until_phase("ready")
    assert running.chores.done == ["objects"]
    pids = [running.unit(name).pid for name in ("server", "role")]
    assert all(pids)
    assert running.unit("server").took is not None
    stop()
    assert await running.end() is supervision.Overall.STOPPED
    assert running.chores.closed
    assert running.told().phase == "stopped"
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


async def test_who_ignores_the_request_is_killed(running: Running) -> None:
    running.add("stubborn", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
    running.start()
    log = running.paths.log("stubborn")
    await running.until(lambda: log.exists() and "ready" in log.read_text())
    stop()
    assert await running.end() is supervision.Overall.STOPPED


async def test_a_killed_process_comes_back(running: Running) -> None:
    running.add("role", "sleep", "60")
    running.start()
    await running.until_phase("ready")
    first = running.unit("role").pid
    assert first
    os.kill(first, signal.SIGKILL)
    await running.until(lambda: running.unit("role").pid not in {None, first})
    assert running.unit("role").restarts == 1
    await running.until_phase("ready")
    stop()
    await running.end()


async def test_a_start_that_fails_says_why_and_stops_the_rest(running: Running) -> None:
    running.add("good", "sleep", "60")
    running.add("bad", "sh", "-c", "echo cannot; sleep 0.2; exit 7", after=("good",))
    running.tasks.append(supervision.Unit(name="never", kind="task", after=("bad",)))
    running.chores.fail = "refused"
    running.start()
    assert await running.end() is supervision.Overall.FAILED
    assert running.told().phase == "failed"
    assert running.told().reason in {"bad: exited with code 7", "never: refused"}


async def test_what_cannot_be_run_is_named(running: Running, tmp_path: Path) -> None:
    program = tmp_path / "etcd"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    running.add("etcd", str(program))
    running.start()
    assert await running.end() is supervision.Overall.FAILED
    assert running.told().reason == f"etcd: {program} cannot be run: Exec format error"


async def test_a_failing_task_is_tried_again(running: Running) -> None:
    running.tasks.append(supervision.Unit(name="objects", kind="task"))
    running.chores.fail = "the server is not there"
    running.start()
    await running.until(lambda: running.unit("objects").restarts == 1)
    assert running.unit("objects").reason == "the server is not there"
    running.chores.fail = ""
    await running.until_phase("ready")
    stop()
    await running.end()


async def test_a_status_that_cannot_be_written_does_not_end_it(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.add("role", "sleep", "60")
    running.start()
    await running.until_phase("ready")

    def full(*_: object) -> None:
        raise errors.StorageError(running.paths.status, "No space left on device")

    pid = running.unit("role").pid
    assert pid
    with monkeypatch.context() as patched:
        patched.setattr(status, "store", full)
        os.kill(pid, signal.SIGKILL)
        at_work = running.made.running
        await running.until(lambda: "role" in at_work and at_work["role"].pid != pid)
    stop()
    assert await running.end() is supervision.Overall.STOPPED
    assert running.told().phase == "stopped"


async def test_house_keeping(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervisor, "HOUSEKEEPING", 0.01)
    running.add("role", "sleep", "60")
    running.start()
    await running.until(lambda: running.chores.renewed > 2)

    def defect(_: Path) -> None:
        raise RuntimeError("a defect of ours")

    monkeypatch.setattr(children, "cut", defect)
    for error in (errors.LocalError("not now"), OSError("disk"), RuntimeError("a defect of ours")):

        async def refuse(error: Exception = error) -> None:
            running.chores.renewed += 1
            raise error

        monkeypatch.setattr(running.chores, "renew", refuse)
        running.chores.renewed = 0
        await running.until(lambda: running.chores.renewed > 2)
    assert caplog.text.count("RuntimeError: a defect of ours") >= 4
    stop()
    assert await running.end() is supervision.Overall.STOPPED


@pytest.mark.parametrize(
    ("key", "kept"),
    [("PATH", True), ("HTTPS_PROXY", True), ("KUBECONFIG", False), ("ETCD_NAME", False)],
)
def test_what_children_inherit(key: str, kept: bool) -> None:
    assert (key in supervisor.inherited({key: "x"})) is kept
