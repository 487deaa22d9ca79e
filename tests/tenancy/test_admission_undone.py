from __future__ import annotations

from typing import Any

import pytest

from tenantry.tenancy import metadata
from tenantry.tenancy.admission import undone


def ns(**labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": labels}}


@pytest.mark.parametrize(
    ("old", "asked", "kept", "expected"),
    [
        (ns(a="1"), ns(a="1"), {"a": "1"}, []),
        (ns(a="1"), ns(a="1", b="2"), {"a": "1", "b": "2"}, []),
        (
            ns(a="1"),
            ns(a="2"),
            {"a": "1"},
            ['label "a" is kept by tenant "oil": it stays "1", "2" does not last'],
        ),
        (
            ns(a="1"),
            ns(),
            {"a": "1"},
            ['label "a" is kept by tenant "oil": it stays "1", removing it does nothing'],
        ),
        (
            None,
            ns(a="2"),
            {"a": "1"},
            ['label "a" is kept by tenant "oil": it stays "1", "2" does not last'],
        ),
        (
            ns(),
            ns(b="2"),
            {},
            [
                'label "b" is kept by tenant "oil": "2" does not last; '
                "namespaces have only what the tenant sets"
            ],
        ),
        # What the tenant changed in the meantime is nobody's change.
        (ns(a="1"), ns(a="1"), {"a": "2"}, []),
    ],
)
def test_warnings(
    old: dict[str, Any] | None, asked: dict[str, Any], kept: dict[str, str], expected: list[str]
) -> None:
    found = undone.warnings("oil", old, asked, metadata.Metadata(labels=kept, annotations={}))
    assert found == expected


def test_warnings_are_few_short_and_printable() -> None:
    asked = {"metadata": {"annotations": {f"k{i:03}": "\r\n" + "x" * 5000 for i in range(100)}}}
    kept = metadata.Metadata(labels={}, annotations={f"k{i:03}": "1" for i in range(100)})
    found = undone.warnings("oil", None, asked, kept)
    assert len(found) == undone.MOST + 1
    assert found[-1] == "and 92 more that do not last"
    assert all(len(text) < 256 and text.isprintable() for text in found)
