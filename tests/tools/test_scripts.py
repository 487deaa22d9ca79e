"""The scripts that everybody starts with, as far as they can be run without changing anything."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted(path for path in (ROOT / "scripts").iterdir())


def bash(command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_they_can_be_read(script: Path) -> None:
    done = bash(f"bash -n {script}")
    assert done.returncode == 0, done.stderr
    assert os.access(script, os.X_OK) == (script.name != "_env")


def test_lock_uses_the_uv_of_its_own_pin(tmp_path: Path) -> None:
    """The cache keeps those of other pins and interpreters, too."""
    environ = {
        "TENANTRY_CACHE_DIR": str(tmp_path),
        "TENANTRY_PYTHON": sys.executable,
        "TENANTRY_VENV": sys.prefix,
    }
    key = bash(
        f"cat requirements/bootstrap.txt <(echo {sys.executable}) | sha256sum | cut -c1-12"
    ).stdout.strip()
    for name in ("000000000000", key, "ffffffffffff"):
        uv = tmp_path / "tools" / name / "bin" / "uv"
        uv.parent.mkdir(parents=True)
        uv.write_text(f"#!/bin/sh\necho {name} $2\n")
        uv.chmod(0o755)
    done = bash("scripts/lock", **environ)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [key, "compile"] * 2


def test_check_looks_at_every_generator() -> None:
    loop = re.search(r"for tool in (.*); do", (ROOT / "scripts" / "check").read_text())
    assert loop
    generators = {
        path.parent.name
        for path in (ROOT / "tools").glob("*/*.py")
        if "--check" in path.read_text()
    }
    assert set(loop[1].split()) == generators


@pytest.mark.parametrize(("least", "code"), [("80", 0), ("81", 1)])
def test_branches_are_counted_alone(tmp_path: Path, least: str, code: int) -> None:
    def file(taken: int, there: int) -> dict[str, dict[str, int]]:
        return {"summary": {"covered_branches": taken, "num_branches": there, "covered_lines": 99}}

    report = tmp_path / "report.json"
    files = {
        "src/tenantry/kube/a.py": file(1, 2),
        "src/tenantry/kube/b/c.py": file(7, 8),
        "src/tenantry/core/d.py": file(0, 0),
    }
    report.write_text(json.dumps({"files": files}))
    done = bash(f"{sys.executable} tools/branches {report} {least}")
    assert done.returncode == code
    assert done.stdout.splitlines() == [
        "core       100.0 % of 0 branches",
        "kube        80.0 % of 10 branches",
    ]
    assert ("kube" in done.stderr) == bool(code)
