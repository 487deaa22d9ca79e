"""Several processes on one port: all serve, one that dies ends all, and all end gently."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenantry.apps import workers

from .harness import World, eventually

pytestmark = [pytest.mark.plane, pytest.mark.timeout(240)]


def free_ports() -> int:
    """Return the first of three ports that are free."""
    for base in range(20000 + os.getpid() % 10000, 60000, 7):
        try:
            for port in range(base, base + 3):
                with socket.socket() as trying:
                    trying.bind(("127.0.0.1", port))
        except OSError:
            continue
        return base
    raise AssertionError("no ports")


@pytest.fixture
def running(world: World, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    base = free_ports()
    paths = world.plane.platform.paths
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                sys.executable, "-m", "tenantry", "gateway",
                f"--kubeconfig={paths.kubeconfig('gateway')}", "--bind=127.0.0.1",
                f"--listening-port={base}", f"--ssl-cert-path={paths.pki / 'gateway.crt'}",
                f"--ssl-key-path={paths.pki / 'gateway.key'}", f"--probes=127.0.0.1:{base + 1}",
                "--workers=2", "--linger=0", "--grace=1",
            ],
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        for port in (base + 1, base + 2):
            eventually(lambda port=port: ready(port), 60)  # type: ignore[misc]
        yield process, base
    finally:
        process.kill()
        process.wait()


def ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as got:
            return bool(got.status == 200)
    except OSError:
        return False


def children(process: subprocess.Popen[bytes]) -> list[int]:
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(pid) for pid in path.read_text().split()]


def test_both_serve_and_both_end(
    world: World, running: tuple[subprocess.Popen[bytes], int]
) -> None:
    process, base = running
    assert len(children(process)) == 2
    ca = str(world.plane.platform.paths.pki / "ca.crt")
    context = ssl.create_default_context(cafile=ca)
    for _ in range(8):
        url = f"https://127.0.0.1:{base}/_healthz"
        with urllib.request.urlopen(url, timeout=10, context=context) as got:
            assert got.read() == b"ok"
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    assert not ready(base + 1)
    assert not ready(base + 2)


def test_one_that_dies_ends_all(running: tuple[subprocess.Popen[bytes], int]) -> None:
    process, base = running
    os.kill(children(process)[0], signal.SIGKILL)
    assert process.wait(30) == 1
    assert not ready(base + 1)
    assert not ready(base + 2)


def test_a_workers_command_line() -> None:
    given = ["gateway", "--workers=4", "--probes=127.0.0.1:8081"]
    more = ["--workers=1", "--reuse-port"]
    first, third = (workers.arguments(given, n, probes=("127.0.0.1", 8081)) for n in (0, 2))
    assert first == [*given, *more, "--probes=127.0.0.1:8081"]
    assert third == [*given, *more, "--probes=127.0.0.1:8083", "--metrics-addr=0"]
