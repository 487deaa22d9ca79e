from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tenantry.runtime import mortality

ASK = "from tenantry.runtime import mortality; print(mortality.name(), flush=True); input()"


@pytest.fixture
def bearer() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", ASK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_a_holder_that_was_killed_is_surely_dead(bearer: subprocess.Popen[str]) -> None:
    with bearer:
        assert bearer.stdout is not None
        name = bearer.stdout.readline().strip()
        assert not mortality.surely_dead(name)
        bearer.kill()
        os.waitid(os.P_PID, bearer.pid, os.WEXITED | os.WNOWAIT)
        assert mortality.surely_dead(name)  # not buried yet
        bearer.wait()
        assert mortality.surely_dead(name)


def test_a_process_with_the_same_number_is_another() -> None:
    name = mortality.name()
    assert not mortality.surely_dead(name)
    pid, _, born = name.split("_")[3].partition("-")
    assert int(pid) == os.getpid()
    assert mortality.surely_dead(name.replace(f"-{born}_", f"-{int(born) - 1}_"))


def gone() -> str:
    """The name of a process of here that does not exist."""
    host, boot, space, _, number = mortality.name().split("_")
    return f"{host}_{boot}_{space}_4194305-1_{number}"


@pytest.mark.parametrize("part", [0, 1, 2], ids=["host", "boot", "space"])
def test_whoever_is_elsewhere_may_be_alive(part: int) -> None:
    assert mortality.surely_dead(gone())
    parts = gone().split("_")
    last = parts[part][-1]
    parts[part] = parts[part][:-1] + ("1" if last != "1" else "2")
    assert not mortality.surely_dead("_".join(parts))


@pytest.mark.parametrize(
    "forged",
    [
        "",
        "host_7b9c0c9e-8a35-4d8e-9d0f-000000000000",
        "x" * 100_000,
        "host_boot_1_1-1_x",
        gone().replace("4194305-", "-1-"),
        gone().replace("4194305-", "0-"),
        gone().replace("4194305-", "99999999999-"),
        gone().replace("4194305-", "../1-"),
        gone().replace("4194305-", "٣-"),
        gone() + "\n",
    ],
    # Names of processes are never the same, and workers must collect the same.
    ids=["none", "uuid", "long", "parts", "minus", "zero", "huge", "path", "arabic", "newline"],
)
def test_a_name_that_says_something_else_proves_nothing(forged: str) -> None:
    assert not mortality.surely_dead(forged)


def fake(tmp_path: Path, *, self_pid: int | None = None) -> Path:
    """A /proc with ourselves in it and nobody else."""
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    (tmp_path / "sys/kernel/random/boot_id").write_text(boot)
    mine = tmp_path / str(self_pid or os.getpid())
    (mine / "ns").mkdir(parents=True)
    (mine / "ns/pid").symlink_to(Path("/proc/self/ns/pid").readlink())
    (mine / "stat").write_text(Path("/proc/self/stat").read_text())
    (tmp_path / "self").symlink_to(mine.name)
    return tmp_path


def test_what_a_mount_hides_may_be_alive(tmp_path: Path) -> None:
    proc = fake(tmp_path)
    hidden = gone().replace("4194305-", f"{os.getppid()}-")
    assert not mortality.surely_dead(hidden, proc)
    assert mortality.surely_dead(gone(), proc)


def test_the_proc_of_another_space_tells_nothing(tmp_path: Path) -> None:
    proc = fake(tmp_path, self_pid=1 + os.getpid())
    assert not mortality.surely_dead(gone(), proc)
    assert mortality.name(proc).count("_") == 1


def test_without_proc_nothing_is_known(tmp_path: Path) -> None:
    assert not mortality.surely_dead(gone(), tmp_path)
    first, second = mortality.name(tmp_path), mortality.name(tmp_path)
    assert first != second
