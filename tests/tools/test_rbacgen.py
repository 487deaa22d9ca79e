"""The RBAC manifests in the package are those that the code asks for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tenantry.apps import permissions
from tenantry.core import yamls

ROOT = Path(__file__).parents[2]
TARGET = ROOT / "src" / "tenantry" / "deploy" / "rbac" / "tenantry.yaml"


def rbacgen(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "tools" / "rbacgen"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_generated_file_is_current() -> None:
    found = rbacgen("--check")
    assert found.returncode == 0, "run: python tools/rbacgen"
    assert yamls.read(TARGET.read_text()) == permissions.manifests()
