"""What the README promises: a platform comes up, and the seeds' walkthroughs are right on it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytestmark = [pytest.mark.plane, pytest.mark.timeout(240)]

if TYPE_CHECKING:
    from .conftest import Tenantry


@pytest.fixture(scope="module")
def toured(tenantry: Tenantry) -> Tenantry:
    """The same, after a first tour."""
    is_right(tenantry)
    return tenantry


def is_right(tenantry: Tenantry) -> None:
    tour = tenantry("tour", "000", "--name", "tour")
    assert "[WRONG]" not in tour.stdout
    assert tour.stdout.rstrip().endswith("all right")


def test_the_tour_is_right_and_can_be_taken_again(toured: Tenantry) -> None:
    is_right(toured)


def test_a_platform_that_is_up_stays_up(tenantry: Tenantry) -> None:
    before = tenantry("local", "status", "--name", "tour", "-o", "jsonpath={.pid}").stdout
    tenantry("local", "up", "--name", "tour")
    assert tenantry("local", "status", "--name", "tour", "-o", "jsonpath={.pid}").stdout == before


def test_a_tour_does_not_remove_what_is_somebodys(toured: Tenantry, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "admin.yaml"
    toured("local", "kubeconfig", "--name", "tour", "--output", str(kubeconfig))
    kubectl = toured("local", "binaries", "-o", "jsonpath={.kubectl}").stdout.strip()
    label = [kubectl, "--kubeconfig", str(kubeconfig), "label", "tenant", "hypersuite"]
    subprocess.run([*label, "tenantry.io/tour-"], check=True, capture_output=True, timeout=30)
    try:
        refused = toured("tour", "--name", "tour", code=1)
        assert 'tenant "hypersuite" exists and was not made by a tour' in refused.stderr
    finally:
        subprocess.run(
            [*label, "tenantry.io/tour=seed-000"], check=True, capture_output=True, timeout=30
        )


def test_state_survives_down_and_up(toured: Tenantry, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "admin.yaml"
    toured("local", "kubeconfig", "--name", "tour", "--output", str(kubeconfig))
    kubectl = toured("local", "binaries", "-o", "jsonpath={.kubectl}").stdout.strip()
    toured("local", "down", "--name", "tour")
    toured("local", "up", "--name", "tour")
    found = subprocess.run(
        [kubectl, "--kubeconfig", str(kubeconfig), "get", "tenant", "hypersuite", "-o", "name"],
        check=True, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert found.stdout.strip() == "tenant.capsule.clastix.io/hypersuite"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_process_may_be_killed_in_the_middle_of_the_tour(
    tenantry: Tenantry, environment: dict[str, str]
) -> None:
    """A step under way may fail; the platform comes back, and the next tour is all right."""

    def status() -> dict[str, Any]:
        command = [sys.executable, "-m", "tenantry", "local", "status", "--name", "tour"]
        # It exits with 1 while not all is ready.
        done = subprocess.run(
            [*command, "-o", "json"],
            env=environment, capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def pid_of(unit: str, found: dict[str, Any]) -> int:
        pid: int = next(each["pid"] for each in found["units"] if each["name"] == unit)
        return pid

    for unit in [unit["name"] for unit in status()["units"] if unit.get("pid")]:
        tour = subprocess.Popen(
            [sys.executable, "-m", "tenantry", "tour", "--name", "tour"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=environment,
        )  # fmt: skip
        pid = pid_of(unit, status())
        os.kill(pid, signal.SIGKILL)
        tour.wait(timeout=300)
        deadline = time.monotonic() + 60
        while (now := status())["phase"] != "ready" or pid_of(unit, now) == pid:
            assert time.monotonic() < deadline, f"after {unit} was killed: {now}"
        again = tenantry("tour", "--name", "tour")
        assert "[WRONG]" not in again.stdout, f"after {unit} was killed:\n{again.stdout}"
