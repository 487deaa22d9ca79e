"""What the README promises: a platform comes up, and the seeds' walkthroughs are right on it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.plane, pytest.mark.timeout(240)]

Tenantry = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def tenantry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenantry]:
    """Run `tenantry` against a platform of this module's own, which is up."""
    state = tmp_path_factory.mktemp("state")
    environment = {**os.environ, "TENANTRY_STATE_DIR": str(state)}

    def run(*args: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "tenantry", *args],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    run("local", "up", "--name", "tour")
    yield run
    run("local", "destroy", "--name", "tour")


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
def test_every_process_may_be_killed_in_the_middle_of_the_tour(tenantry: Tenantry) -> None:
    """A step under way may fail; the platform comes back, and the next tour is all right."""
    import json
    import signal
    import time

    status = json.loads(tenantry("local", "status", "--name", "tour", "-o", "json").stdout)
    for unit in [unit["name"] for unit in status["units"] if unit.get("pid")]:
        tour = subprocess.Popen(
            [sys.executable, "-m", "tenantry", "tour", "--name", "tour"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, **_environment(tenantry)},
        )  # fmt: skip
        now = json.loads(tenantry("local", "status", "--name", "tour", "-o", "json").stdout)
        pid = next(u["pid"] for u in now["units"] if u["name"] == unit)
        os.kill(pid, signal.SIGKILL)
        tour.wait(timeout=300)
        deadline = time.monotonic() + 60
        while True:
            now = json.loads(tenantry("local", "status", "--name", "tour", "-o", "json").stdout)
            found = next(u for u in now["units"] if u["name"] == unit)
            if now["phase"] == "ready" and found["pid"] != pid:
                break
            assert time.monotonic() < deadline, f"{unit} did not come back: {found}"
        again = tenantry("tour", "--name", "tour")
        assert "[WRONG]" not in again.stdout, f"after {unit} was killed:\n{again.stdout}"


def _environment(tenantry: Tenantry) -> dict[str, str]:
    kubeconfig = tenantry("local", "status", "--name", "tour", "-o", "jsonpath={.kubeconfig}")
    return {"TENANTRY_STATE_DIR": str(Path(kubeconfig.stdout.strip()).parents[2])}
