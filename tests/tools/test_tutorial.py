"""The tutorial works when typed in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"
#: A file's name in backquotes, then its content.
FILE = re.compile(r"^`([\w.]+)`:\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (python .*)$", re.MULTILINE)


def files() -> dict[str, str]:
    return dict(FILE.findall(TUTORIAL.read_text()))


def test_the_controller_is_short() -> None:
    code = [line for line in files()["cards.py"].splitlines() if line.strip()]
    assert len(code) <= 60


@pytest.mark.plane
def test_it_works_as_it_stands(tmp_path: Path) -> None:
    for name, text in files().items():
        (tmp_path / name).write_text(text)
    (command,) = COMMAND.findall(TUTORIAL.read_text())
    done = subprocess.run(
        [sys.executable, *command.split()[1:], "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
