"""What the design pages name as shown by a test is shown by one that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["fields.md", "policy.md"])
def test_named_tests_exist(page: str) -> None:
    files = list((ROOT / "tests").rglob("test_*.py"))
    known = {path.stem for path in files}
    for path in files:
        known |= set(re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8")))
    text = (ROOT / "docs" / "designs" / page).read_text(encoding="utf-8")
    named = set(re.findall(r"\btest_\w+(?!\w*[*])", text))
    assert named
    missing = {name for name in named if not any(one.startswith(name) for one in known)}
    assert missing == set()
