"""The generator is a tool of the repository, not a package: make it importable."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
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
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    ]
