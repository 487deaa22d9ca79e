from __future__ import annotations

import io
import re
import time

import pytest

from tenantry.core import clock
from tenantry.local import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Closed(io.StringIO):
    def write(self, _: str) -> int:
        raise BrokenPipeError


def test_each_step_is_a_line_with_its_time() -> None:
    out = io.StringIO()
    report = progress.Progress(out)
    with report.step("binaries") as step:
        step.detail = "from the cache"
    report.done("etcd", 1.25)
    report.note("ready")
    lines = out.getvalue().splitlines()
    assert re.fullmatch(r"  binaries +0\.\d s   from the cache", lines[0])
    assert re.fullmatch(r"  etcd +1\.2 s", lines[1])
    assert lines[2] == "  ready"


def test_a_failed_step_is_not_reported_as_done() -> None:
    out = io.StringIO()
    report = progress.Progress(out)

    def fail() -> None:
        with report.step("binaries"):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert "binaries" not in out.getvalue()


def test_on_a_terminal_the_running_step_is_overwritten() -> None:
    out = Terminal()
    with progress.Progress(out).step("building") as step:
        step.detail = "42 packages"
        deadline = time.monotonic() + 5
        while "42 packages" not in out.getvalue():
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert "\r\x1b[K  building" in out.getvalue()
    assert out.getvalue().count("\n") == 1


def test_elsewhere_a_long_step_is_mentioned_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    out = io.StringIO()

    def until(lines: int) -> None:
        deadline = time.monotonic() + 5
        while out.getvalue().count("\n") < lines:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    with progress.Progress(out).step("etcd") as step:
        step.detail = "building"
        step.count = "1 package"
        now[0] += 5
        until(1)
        step.count = "2 packages"
        time.sleep(0.5)
        now[0] += progress.QUIET + 1
        until(2)
        step.detail = "linking"
        until(3)
    assert [line.split("   ")[-1] for line in out.getvalue().splitlines()[:3]] == [
        "building, 1 package",
        "building, 2 packages",
        "linking, 2 packages",
    ]


def test_nobody_to_tell_is_no_error() -> None:
    with progress.Progress(Closed()).step("binaries"):
        pass


def test_silence() -> None:
    out = io.StringIO()
    with progress.Silent(out).step("binaries"):
        pass
    assert out.getvalue() == ""
