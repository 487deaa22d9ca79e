"""Platforms as their users start, break and remove them; all real, each in its own directory."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tenantry.core import errors as core_errors
from tenantry.local import (
    cache,
    errors,
    nodes,
    plan,
    progress,
    state,
    status,
    stopping,
    supervision,
    testing,
)
from tenantry.local import platform as platforms

#: The least that can be ready: etcd and one API server.
SMALL = platforms.Options(components=(), durable=False, make_binaries=False)

UP = """
import signal, sys
from tenantry.core import errors
from tenantry.local import platform, progress
# As in a terminal: what runs in the background of a script inherits that it is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
progress.PATIENCE = 0.0
options = platform.Options(components=(), durable=False)
try:
    platform.Platform("one").up(options, progress.Progress())
except errors.TenantryError as err:
    sys.exit(str(err))
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "TENANTRY_STATE_DIR": str(tmp_path / "state")}


@pytest.fixture
def platform(environ: dict[str, str]) -> Iterator[platforms.Platform]:
    made = platforms.Platform("one", environ=environ)
    yield made
    if made.paths.root.exists():
        made.destroy(progress.Silent())


def start_up(environ: dict[str, str]) -> subprocess.Popen[str]:
    """Run `up` in a process of its own, as a shell would."""
    return subprocess.Popen(
        [sys.executable, "-c", UP], env=environ, stderr=subprocess.PIPE, text=True
    )


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def processes(platform: platforms.Platform) -> list[str]:
    """Return the programs that run for a platform, by their command lines."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if str(platform.paths.root) in line:
            found.append(line)
    return found


@pytest.mark.plane
class TestLife:
    def test_data_and_port_survive_and_destroy_removes_all(
        self, platform: platforms.Platform, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Nobody knows the API server's port yet: one that is taken meanwhile is no obstacle.
        out = io.StringIO()
        with snatched(platform, lambda chosen: chosen.api_ports[0], monkeypatch) as taken:
            assert platform.up(SMALL, progress.Progress(out)) is None
        assert platform.require().api_ports[0] not in taken
        _, *_, again = out.getvalue().split("a port was taken by somebody else meanwhile")
        told = [line.split()[0] for line in again.splitlines()[1:]]
        assert told == ["binaries", "certificates", "etcd", "kube-apiserver", "manifests"]
        server = platform.require().server
        kubectl(platform, "create", "namespace", "kept")

        # A second `up` joins the first, and what it cannot change it refuses.
        pid = platform.status().pid
        assert platform.up(SMALL, progress.Silent()) is None
        assert platform.status().pid == pid
        other = platforms.Options(api_servers=2, components=())
        with pytest.raises(errors.LocalError, match=r"runs; --api-servers takes effect when"):
            platform.up(other, progress.Silent())

        # Killed as hard as can be: nothing is left over, and the next start begins with the data.
        assert pid
        os.kill(pid, signal.SIGKILL)
        until(lambda: not processes(platform))
        assert platform.status().phase == "stopped"
        assert platform.status().reason == "its supervisor was killed"
        platform.up(SMALL, progress.Silent())
        assert platform.require().server == server
        kubectl(platform, "get", "namespace", "kept")

        assert platform.down(progress.Silent())
        assert not platform.down(progress.Silent())
        assert not processes(platform)

        # A port that only the platform knows may change, even after it was chosen; the one in
        # kubeconfigs may not.
        before = platform.require()
        etcd = before.ports[plan.ETCD]
        out = io.StringIO()
        with snatched(platform, lambda chosen: chosen.ports[plan.ETCD], monkeypatch) as taken:
            platform.up(SMALL, progress.Progress(out))
        assert taken == [etcd]
        assert "once more with another" in out.getvalue()
        assert platform.status().phase == "ready"
        assert platform.require().ports[plan.ETCD] != etcd
        kubectl(platform, "get", "namespace", "kept")
        platform.down(progress.Silent())
        port = before.api_ports[0]
        with (
            socket.create_server(("127.0.0.1", port)),
            pytest.raises(errors.PortTakenError, match=rf"port {port}.*--api-port"),
        ):
            platform.up(SMALL, progress.Silent())
        assert platform.status().phase == "stopped"

        platform.destroy(progress.Silent())
        assert not platform.paths.root.exists()
        with pytest.raises(errors.NoSuchPlatformError):
            platform.status()


@contextlib.contextmanager
def snatched(
    platform: platforms.Platform,
    port: Callable[[plan.Plan], int],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[list[int]]:
    """Let somebody take a port between the first choice of it and its use; gives that port."""
    choose = platform._plan
    taken: list[int] = []
    with contextlib.ExitStack() as stack:

        def once(*args: Any) -> plan.Plan:
            monkeypatch.setattr(platform, "_plan", choose)
            chosen = choose(*args)
            taken.append(port(chosen))
            stack.enter_context(socket.create_server(("127.0.0.1", taken[0])))
            return chosen

        monkeypatch.setattr(platform, "_plan", once)
        yield taken


def kubectl(platform: platforms.Platform, *args: str) -> str:
    program = platforms.kubectl(platform.require())
    command = [str(program), f"--kubeconfig={platform.paths.admin_kubeconfig}", *args]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.plane
class TestDownDuringUp:
    def test_by_down_or_control_c_and_then_two_at_once(
        self, platform: platforms.Platform, environ: dict[str, str]
    ) -> None:
        """What ends an `up` leaves nothing behind, and nothing that is in the next one's way."""
        with start_up(environ) as up:
            until(lambda: any("kube-apiserver" in line for line in processes(platform)))
            assert platform.down(progress.Silent())
            _, told = up.communicate(timeout=30)
        assert up.returncode == 1
        assert "stopped" in told
        assert not processes(platform)
        assert platform.status().phase == "stopped"

        with start_up(environ) as up:
            # Early: the command that starts the supervisor may not know yet that it did.
            until(lambda: any("/etcd " in line for line in processes(platform)))
            up.send_signal(signal.SIGINT)
            up.communicate(timeout=30)
        assert up.returncode
        assert not processes(platform)

        both = [start_up(environ) for _ in range(2)]
        notes = [up.communicate(timeout=90)[1] for up in both]
        assert [up.returncode for up in both] == [0, 0], notes
        joined = ("another `tenantry local up`", "runs already")
        assert sum(any(words in note for words in joined) for note in notes) == 1
        assert sum("kube-apiserver" in line for line in processes(platform)) == 1

    def test_while_binaries_are_prepared(
        self, platform: platforms.Platform, environ: dict[str, str], tmp_path: Path
    ) -> None:
        environ["TENANTRY_CACHE_DIR"] = str(tmp_path / "cache")
        environ.pop("TENANTRY_BIN_DIR", None)
        kept = cache.Cache(tmp_path / "cache")
        kept.prepare(0)
        with state.locked(kept.lock), start_up(environ) as up:
            assert up.stderr is not None
            for line in up.stderr:
                if f"for process {os.getpid()}, which makes" in line:
                    break
            assert platform.down(progress.Silent())
            _, told = up.communicate(timeout=30)
        assert up.returncode == 1
        assert "stopped by `tenantry local down`" in told
        assert not processes(platform)


@pytest.mark.plane
@pytest.mark.long
def test_whoever_is_killed_comes_back(new_plane: Callable[..., testing.Plane]) -> None:
    """SIGKILL for every unit at once, and work goes on; test_testing.py has the short form."""
    own = new_plane(components=plan.OPTIONAL, nodes=nodes.generated(2, 8), api_servers=2)
    own.run("create", "deployment", "web", "--image=none", "--replicas=3")
    own.run("wait", "--for=condition=Available", "--timeout=30s", "deployment/web")
    before = {unit.name: unit.pid for unit in own.platform.status().units if unit.pid}
    assert len(before) == 6
    for name in before:
        own.signal(name, signal.SIGKILL)

    def back() -> bool:
        found = own.platform.status()
        now = {unit.name: unit.pid for unit in found.units if unit.pid}
        return found.phase == "ready" and not before.items() & now.items()

    until(back)
    own.run("scale", "deployment/web", "--replicas=5")
    own.run("wait", "--for=jsonpath={.status.readyReplicas}=5", "--timeout=60s", "deployment/web")


class TestWithoutStarting:
    """What is refused before any process exists."""

    def test_a_platform_that_never_was(self, environ: dict[str, str]) -> None:
        ghost = platforms.Platform("ghost", environ=environ)
        for use in (
            ghost.status,
            lambda: ghost.down(progress.Silent()),
            lambda: ghost.kubeconfig("", ()),
        ):
            with pytest.raises(errors.NoSuchPlatformError, match="there is none yet"):
                use()

    def test_one_says_which_others_there_are(self, environ: dict[str, str], tmp_path: Path) -> None:
        (tmp_path / "state" / "other").mkdir(parents=True)
        (tmp_path / "state" / "other" / "plan.json").write_text("{}")
        with pytest.raises(errors.NoSuchPlatformError, match="there are: other"):
            platforms.Platform("ghost", environ=environ).status()

    def test_a_corrupt_binary_is_named(self, platform: platforms.Platform, tmp_path: Path) -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        (folder / "etcd").write_bytes(b"\x7fELF" + b"\0" * 100)
        options = platforms.Options(bin_dir=str(folder), components=())
        with pytest.raises(errors.LocalError, match=r"bin/etcd is not a program for a 64 bit"):
            platform.up(options, progress.Silent())

    @pytest.mark.parametrize("count", [-1, 10])
    def test_too_many_api_servers(self, platform: platforms.Platform, count: int) -> None:
        options = platforms.Options(api_servers=count, components=())
        with pytest.raises(core_errors.InvalidValueError, match="1 to 9"):
            platform._plan(options, None, {})

    def test_a_broken_plan_can_still_be_destroyed(self, platform: platforms.Platform) -> None:
        state.prepare(platform.paths, minimum_free=0)
        platform.paths.plan.write_text("{")
        for use in (platform.status, lambda: platform.up(SMALL, progress.Silent())):
            with pytest.raises(errors.BrokenStateError, match="destroy"):
                use()
        platform.destroy(progress.Silent())
        assert not platform.paths.root.exists()

    def test_a_full_disk(
        self, platform: platforms.Platform, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shutil.disk_usage", lambda _: _Usage)
        with pytest.raises(errors.StorageError, match="almost full: 3 MiB free, 512 MiB needed"):
            platform.up(SMALL, progress.Silent())
        assert not platform.paths.root.exists()

    @pytest.mark.parametrize(("phase", "blamed"), [("degraded", True), ("ready", False)])
    def test_a_disk_that_became_full_is_blamed(
        self,
        platform: platforms.Platform,
        monkeypatch: pytest.MonkeyPatch,
        phase: str,
        *,
        blamed: bool,
    ) -> None:
        state.prepare(platform.paths, minimum_free=0)
        plan.store(plan.Plan(name="one", binaries={}, api_ports=(20001,)), platform.paths)
        status.store(status.Status(name="one", phase=phase), platform.paths)
        monkeypatch.setattr("shutil.disk_usage", lambda _: _Usage)
        with state.locked(platform.paths.lock):
            assert ("almost full" in platform.status().reason) is blamed

    def test_ports_of_other_platforms_are_left_alone(
        self, platform: platforms.Platform, environ: dict[str, str]
    ) -> None:
        other = state.layout("other", platform.home)
        state.prepare(other, minimum_free=0)
        plan.store(
            plan.Plan(name="other", binaries={}, api_ports=(20001,), ports={"etcd": 20002}), other
        )
        broken = state.layout("broken", platform.home)
        state.prepare(broken, minimum_free=0)
        broken.plan.write_text("{")
        assert platform._ports_of_others() == {20001, 20002}

    def test_a_port_that_is_taken_is_replaced(self, platform: platforms.Platform) -> None:
        first = platform._plan(SMALL, None, {})
        with socket.create_server(("127.0.0.1", first.ports[plan.ETCD])):
            second = platform._plan(SMALL, first, {})
        assert second.ports[plan.ETCD] != first.ports[plan.ETCD]
        assert second.api_ports == first.api_ports

    def test_a_new_plan_has_defaults_and_an_old_one_stays(
        self, platform: platforms.Platform
    ) -> None:
        first = platform._plan(platforms.Options(), None, {})
        assert len(first.nodes) == nodes.DEFAULT_COUNT
        assert len(first.api_ports) == 1
        changed = platform._plan(
            platforms.Options(nodes=nodes.generated(1, 8), api_servers=3), first, {}
        )
        assert changed.api_ports[0] == first.api_ports[0]
        assert len(changed.api_ports) == 3
        again = platform._plan(platforms.Options(), changed, {})
        assert again == changed


class TestWaitingForOthers:
    """Who holds what for too long is named; nobody waits for ever."""

    def test_another_up(
        self, platform: platforms.Platform, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(platforms, "SETUP_TIMEOUT", 0.1)
        state.prepare(platform.paths, minimum_free=0)
        with (
            state.locked(platform.paths.setup_lock),
            pytest.raises(errors.HeldError, match=rf"process {os.getpid()} still holds .*up\.lock"),
        ):
            platform.up(SMALL, progress.Silent())

    def test_a_failed_supervisor_that_does_not_go(
        self, platform: platforms.Platform, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(platforms, "STOP_TIMEOUT", 0.1)
        described(platform)
        told = status.Status(name="one", phase="failed", reason="etcd: exited with code 1")
        status.store(told, platform.paths)
        with (
            state.locked(platform.paths.lock),
            pytest.raises(
                errors.StartFailedError, match=rf"code 1; process {os.getpid()} still holds"
            ),
        ):
            platform.up(SMALL, progress.Silent())

    def test_a_supervisor_that_ignores_the_request(
        self, platform: platforms.Platform, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(platforms, "STOP_TIMEOUT", 0.1)
        asked: list[int] = []
        monkeypatch.setattr(stopping, "terminate", asked.append)
        state.prepare(platform.paths, minimum_free=0)
        with state.locked(platform.paths.lock), pytest.raises(errors.HeldError):
            platform._stop(None)
        assert asked[0] == os.getpid()


class TestWhileItRuns:
    """What a running platform cannot take over is refused, by the flag's name."""

    @pytest.fixture
    def running(self, platform: platforms.Platform) -> Iterator[platforms.Platform]:
        described(platform, {plan.ETCD: "/elsewhere/etcd"})
        status.store(status.Status(name="one", phase="ready"), platform.paths)
        lock = state.Lock(platform.paths.lock)
        assert lock.acquire()
        yield platform
        lock.release()

    @pytest.mark.parametrize(
        ("flag", "options"),
        [
            ("--nodes", platforms.Options(nodes=nodes.generated(1, 0))),
            ("--api-servers", platforms.Options(api_servers=2)),
            ("--api-port", platforms.Options(api_port=20002)),
        ],
    )
    def test_a_change(
        self, running: platforms.Platform, flag: str, options: platforms.Options
    ) -> None:
        with pytest.raises(errors.LocalError, match=rf"runs; {flag} takes effect when it starts"):
            running.up(options, progress.Silent())

    def test_other_binaries(self, running: platforms.Platform, tmp_path: Path) -> None:
        own = tmp_path / "bin"
        own.mkdir()
        options = platforms.Options(bin_dir=str(own))
        assert running.up(options, progress.Silent()) is None, "it has nothing to offer"
        (own / plan.ETCD).touch()
        with pytest.raises(errors.LocalError, match="--bin-dir takes effect when it starts"):
            running.up(options, progress.Silent())
        described(running, {plan.ETCD: str(own / plan.ETCD)})
        assert running.up(options, progress.Silent()) is None


def described(platform: platforms.Platform, binaries: dict[str, str] | None = None) -> None:
    """Store a plan as `up` would, without starting anything."""
    state.prepare(platform.paths, minimum_free=0)
    made = plan.Plan(name="one", binaries=binaries or {}, api_ports=(20001,))
    plan.store(made, platform.paths)


class _Usage:
    free = 3 * 2**20


class TestStatus:
    def test_what_is_not_there_is_stopped(self, tmp_path: Path) -> None:
        assert status.load(state.Layout(tmp_path / "one")).phase == "stopped"

    @pytest.mark.parametrize("phase", [overall.value for overall in supervision.Overall])
    def test_only_a_living_supervisor_is_believed(self, tmp_path: Path, phase: str) -> None:
        paths = state.layout("one", tmp_path)
        state.prepare(paths, minimum_free=0)
        told = status.Status(name="one", phase=phase, reason="why", pid=1)
        status.store(told, paths)
        with state.locked(paths.lock):
            assert status.load(paths) == told
        final = phase in {"stopped", "failed"}
        assert status.load(paths).phase == (phase if final else "stopped")

    @pytest.mark.parametrize("content", ["", "{", '{"phase": 1}'])
    def test_what_makes_no_sense_is_named(self, tmp_path: Path, content: str) -> None:
        paths = state.layout("one", tmp_path)
        state.prepare(paths, minimum_free=0)
        paths.status.write_text(content)
        with pytest.raises(errors.BrokenStateError):
            status.load(paths)

    def test_is_json_for_programs(self, tmp_path: Path) -> None:
        paths = state.layout("one", tmp_path)
        state.prepare(paths, minimum_free=0)
        unit = status.UnitStatus(name="etcd", kind="process", phase="ready", took=1.5)
        status.store(status.Status(name="one", phase="ready", units=(unit,)), paths)
        assert json.loads(paths.status.read_text())["units"][0]["took"] == 1.5
