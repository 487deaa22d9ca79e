"""The platform as `tenantry local` runs it, and what people type into a shell."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tenantry.local import platform, testing

Tenantry = Callable[..., subprocess.CompletedProcess[str]]
NAME = "tour"


class Shell:
    """Run kubectl as different people, each with a client certificate of their own."""

    def __init__(self, plane: testing.Plane) -> None:
        self.plane = plane

    def __call__(
        self, who: str, line: str, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a kubectl command line; "admin" may do everything, others are Capsule users."""
        user, groups = self._identity(who)
        return self.plane.run(*line.split(), user=user, groups=groups, stdin=stdin, check=False)

    def ok(self, who: str, line: str, stdin: str | None = None) -> str:
        """Return the output of what must succeed."""
        done = self(who, line, stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refused(self, who: str, line: str, stdin: str | None = None) -> str:
        """Return the error of what must fail."""
        done = self(who, line, stdin)
        assert done.returncode != 0, done.stdout
        return done.stderr.strip()

    @staticmethod
    def _identity(who: str) -> tuple[str, Sequence[str]]:
        return ("", ()) if who == "admin" else (who, ("projectcapsule.dev",))


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables with which `tenantry local` knows no platforms but those of these tests."""
    return {**os.environ, "TENANTRY_STATE_DIR": str(tmp_path_factory.mktemp("state"))}


@pytest.fixture(scope="session")
def tenantry(environment: dict[str, str]) -> Iterator[Tenantry]:
    """Run `tenantry` against the platform of these tests, which is up."""

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

    run("local", "up", "--name", NAME)
    yield run
    run("local", "destroy", "--name", NAME)


@pytest.fixture
def shell(tenantry: Tenantry, environment: dict[str, str], tmp_path: Path) -> Shell:
    made = Shell(testing.Plane(platform.Platform(NAME, environ=environment), None, tmp_path))
    deadline = time.monotonic() + 40
    # The right to create namespaces comes with the controller's first reconcile.
    while made("somebody", "auth can-i create namespaces").returncode:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return made
