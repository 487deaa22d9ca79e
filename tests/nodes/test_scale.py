"""5,000 nodes at a real API server; the benchmark asserts what it finds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.plane
@pytest.mark.long
@pytest.mark.timeout(700)
def test_pools_on_five_thousand_nodes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.nodes_live"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["dedicated"]["nodes"] == 500
    assert found["rest"]["writes"] == 0
    assert found["audit"]["exit_code"] == 2
