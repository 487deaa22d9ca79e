"""The generator is a tool of the repository, not a package: make it importable."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tenantry.core import yamls
from tenantry.local import testing

ROOT = Path(__file__).parents[2]
CRDS = str(ROOT / "deploy" / "crds")
sys.path.insert(0, str(ROOT))


@pytest.fixture(scope="session")
def definitions() -> dict[str, dict[str, Any]]:
    """Give the generated definitions by kind, as they stand in the repository."""
    found = {}
    for path in sorted((ROOT / "deploy" / "crds").glob("*.yaml")):
        definition = yaml.safe_load(path.read_text(encoding="utf-8"))
        found[definition["spec"]["names"]["kind"]] = definition
    return found


@pytest.fixture(scope="session")
def schemas(definitions: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Give the schema of each kind."""
    return {
        kind: definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for kind, definition in definitions.items()
    }


@pytest.fixture(scope="session")
def manifests() -> list[dict[str, Any]]:
    """Give every manifest of the fixture set."""
    return [
        document
        for path in sorted((ROOT / "tests" / "fixtures" / "capsule").glob("*.yaml"))
        for document in yamls.read(path.read_text(encoding="utf-8"))
    ]


class Kubectl:
    """Run kubectl as an administrator, the way a person types it."""

    def __init__(self, plane: testing.Plane) -> None:
        self.plane = plane

    def __call__(
        self, *arguments: str, given: Sequence[Any] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run to its end, whatever the exit code; `given` are objects for standard input.

        They go as JSON: PyYAML leaves a text such as 1.5e10 bare, and Go's YAML then reads a
        number.
        """
        text = "\n".join(json.dumps(item) for item in given)
        return self.plane.run(*arguments, stdin=text, check=False)

    def ok(self, *arguments: str, given: Sequence[Any] = ()) -> str:
        """Run what must succeed and may not even warn; return its output."""
        done = self(*arguments, given=given)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return done.stdout

    def install(self) -> None:
        """Install the definitions, also over those of somebody else, Capsule's chart for one."""
        force = ("--server-side", "--force-conflicts", "--field-manager=tenantry")
        self.ok("apply", *force, "-f", CRDS)


@pytest.fixture(scope="session")
def kubectl(plane: testing.Plane) -> Kubectl:
    return Kubectl(plane)


@pytest.fixture(scope="session")
def installed(kubectl: Kubectl) -> Kubectl:
    """Give a kubectl for a cluster that has the definitions."""
    kubectl.install()
    kubectl.ok("wait", "--for=condition=Established", "--timeout=30s", "-f", CRDS)
    return kubectl
