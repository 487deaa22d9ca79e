"""The page for users lists every function, and none that there is not."""

from __future__ import annotations

import pathlib
import re

from tenantry.core import cel_functions, cel_texts
from tenantry.core.templates.functions import catalogue

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "expressions.md"


def _chapter(begin: str, end: str) -> str:
    text = PAGE.read_text(encoding="utf-8")
    return text[text.index(begin) : text.index(end, text.index(begin))]


def _listed(chapter: str) -> dict[str, str]:
    cells = [line.split("|")[1] for line in chapter.splitlines() if line.startswith("| `")]
    codes = [code for cell in cells for code in re.findall(r"`([^`]+)`", cell)]
    return {code.partition(" ")[0]: code for code in codes}


def test_every_function_of_templates_is_listed_with_its_parameters() -> None:
    listed = _listed(_chapter("### Functions", "Unknown on purpose"))
    assert listed.keys() == catalogue.FUNCTIONS.keys()
    for name, usage in listed.items():
        if usage != name:
            assert usage == catalogue.FUNCTIONS[name].usage


def test_every_function_of_cel_is_listed() -> None:
    chapter = _chapter("## CEL", "Not there:")
    for entry in (*cel_functions.FUNCTIONS, *cel_texts.FUNCTIONS):
        assert f"`{entry.name.replace('matchRE', 'matches')}`" in chapter
