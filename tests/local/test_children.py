from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.local import programs

from tenantry.local import children, launch


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "child.log"


async def run(argv: list[str], log: Path) -> str:
    """Run a program to its end, and return how that came."""
    ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    process = children.start(argv, env={"PATH": os.environ["PATH"], "A": "b"}, log=log)
    children.watch(process, ended.set_result)
    return await asyncio.wait_for(ended, 20)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 0", "exited with code 0"),
        ("exit 3", "exited with code 3"),
        ("kill -9 $$", "killed by SIGKILL"),
        ("kill -40 $$", "killed by signal 40"),
    ],
)
async def test_the_end_is_reported(log: Path, script: str, reason: str) -> None:
    assert await run(["sh", "-c", script], log) == reason


async def test_output_and_environment(log: Path) -> None:
    await run(["sh", "-c", "echo out $A $HOME; echo err >&2"], log)
    assert log.read_text() == "out b\nerr\n"
    await run(["sh", "-c", "echo more"], log)
    assert log.read_text() == "out b\nerr\nmore\n"


async def test_what_it_started_ends_with_it(log: Path) -> None:
    await run(["sh", "-c", "sleep 60 & echo $!"], log)
    programs.gone(int(log.read_text()))


async def test_a_signal_reaches_the_whole_group(log: Path) -> None:
    process = children.start(["sh", "-c", "sleep 60; true"], env=os.environ, log=log)
    ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    children.watch(process, ended.set_result)
    children.send(process, signal.SIGTERM)
    assert await asyncio.wait_for(ended, 20) == "killed by SIGTERM"
    children.send(process, signal.SIGTERM)  # to nobody: no error


@pytest.mark.parametrize("content", [b"", b"\x7fELF garbage", b"text"])
async def test_what_is_no_program_is_an_error(tmp_path: Path, log: Path, content: bytes) -> None:
    program = tmp_path / "program"
    program.write_bytes(content)
    program.chmod(0o755)
    with pytest.raises(OSError, match="Exec format error"):
        children.start([str(program)], env={}, log=log)
    with pytest.raises(FileNotFoundError):
        children.start([str(tmp_path / "none")], env={}, log=log)


async def test_the_environment_is_the_given_one_alone(log: Path) -> None:
    """In the C locale Python sets a variable of its own on its way."""
    ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    given = {"LC_ALL": "", "PATH": os.environ["PATH"], "EQUAL": "a=b"}
    children.watch(children.start(["env"], env=given, log=log), ended.set_result)
    await asyncio.wait_for(ended, 20)
    assert dict(line.split("=", 1) for line in log.read_text().splitlines()) == given


async def test_what_python_ignores_is_not_ignored(log: Path) -> None:
    await run(["grep", "SigIgn", "/proc/self/status"], log)
    ignored = int(log.read_text().split()[1], 16)
    assert not ignored & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1)


async def test_a_launch_that_hangs_is_an_error(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = tmp_path / "hang.py"
    launcher.write_text("import time; time.sleep(60)")
    monkeypatch.setattr(children, "LAUNCH_TIMEOUT", 0.05)
    monkeypatch.setattr(launch, "__file__", str(launcher))
    with pytest.raises(TimeoutError):
        children.start(["true"], env={}, log=log)


PARENT = """
import os, pathlib, sys, time
from tenantry.local import children
child = children.start(["sleep", "60"], env=os.environ, log=pathlib.Path(sys.argv[1]))
print(child.pid, flush=True)
time.sleep(60)
"""


def test_a_killed_parent_leaves_no_orphan(log: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(log)], stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert programs.runs(pid)
        parent.kill()
    programs.gone(pid)


def test_a_parent_that_is_gone_already_ends_it_at_once() -> None:
    script = "from tenantry.local import launch; launch.die_with_parent(1 << 22)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 1


class TestLogs:
    def test_a_large_one_is_put_aside(self, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(children, "LOG_LIMIT", 10)
        log.write_text("x" * 10)
        children.rotate(log)
        assert log.exists()
        log.write_text("x" * 11)
        children.rotate(log)
        assert not log.exists()
        assert log.with_name("child.log.1").exists()

    def test_one_in_use_is_emptied(self, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(children, "LOG_LIMIT", 10)
        with log.open("ab", buffering=0) as writer:
            writer.write(b"x" * 11)
            children.cut(log)
            writer.write(b"new")
        assert log.read_bytes() == b"new"

    def test_none_is_no_error(self, log: Path) -> None:
        children.rotate(log)
        children.cut(log)
        assert children.tail(log, 3) == ""

    def test_tail(self, log: Path) -> None:
        log.write_text("\n".join(map(str, range(100))) + "\n")
        assert children.tail(log, 2) == "98\n99"
        assert children.tail(log, 50, most=6) == "98\n99"
