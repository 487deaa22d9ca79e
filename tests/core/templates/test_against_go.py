"""Every recorded template gives what Go's text/template with sprig gave for it."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from tenantry.core.templates import engine, errors

FIXTURE = pathlib.Path(__file__).parents[2] / "fixtures" / "templates" / "cases.json"
RECORDED: dict[str, Any] = json.loads(FIXTURE.read_text(encoding="utf-8"))


def _ours(source: str, missing_key: engine.MissingKey) -> str | None:
    try:
        return engine.compile(source, "f", missing_key=missing_key).render(RECORDED["data"])
    except (errors.TemplateRefusedError, errors.TemplateFailedError):
        return None


def test_all_recorded_cases() -> None:
    before = json.dumps(RECORDED["data"])
    wrong = [
        (source, missing_key, expected, found)
        for missing_key, source, expected in RECORDED["cases"]
        if (found := _ours(source, missing_key)) != expected
    ]
    assert wrong == []
    assert len(RECORDED["cases"]) > 2500
    # Functions that change maps have changed none of the caller's.
    assert json.dumps(RECORDED["data"]) == before


@pytest.mark.parametrize("name", ["if", "range", "with", "define", "template", "block", "break"])
def test_the_record_covers(name: str) -> None:
    assert sum("{{" + name in case[1].replace("{{- ", "{{") for case in RECORDED["cases"]) >= 2
