"""The platform as `tenantry local` runs it, and what people type into a shell."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence

import pytest

from tenantry.cli import local
from tenantry.local import testing


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
def shell(planes: testing.Planes) -> Shell:
    manifests, roles = local.tenantry_roles()
    made = Shell(planes.start(manifests=manifests, roles=roles))
    deadline = time.monotonic() + 40
    # The right to create namespaces comes with the controller's first reconcile.
    while made("somebody", "auth can-i create namespaces").returncode:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return made
