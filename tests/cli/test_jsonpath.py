from __future__ import annotations

from typing import Any

import pytest

from tenantry.cli import jsonpath
from tenantry.core import errors

OBJECT: dict[str, Any] = {
    "items": [
        {"metadata": {"name": "a", "labels": {"x.y/z": "1"}}, "n": 1, "ready": True},
        {"metadata": {"name": "b"}, "n": 2, "ready": False},
    ],
    "empty": [],
    "none": None,
}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{.items[0].metadata.name}", "a"),
        ("{.items[-1].metadata.name}", "b"),
        ("{.items[*].metadata.name}", "a b"),
        ("{.items[0:1].metadata.name}", "a"),
        ("{.items[0,1].n}", "1 2"),
        ("{.items[7].n}", ""),
        ("{$.items[0].n}", "1"),
        ("{@.items[0].n}", "1"),
        ("{['items'][0]['metadata']['labels']['x.y/z']}", "1"),
        (r"{.items[0].metadata.labels.x\.y/z}", "1"),
        ("{.items[?(@.n==2)].metadata.name}", "b"),
        ("{.items[?(@.n>1)].metadata.name}", "b"),
        ("{.items[?(@.ready==true)].metadata.name}", "a"),
        ("{.items[?(@.metadata.name!='a')].n}", "2"),
        ("{.items[?(@.metadata.labels)].n}", "1"),
        ("{.items[?(@.metadata.name > 1)].n}", ""),
        ("{..name}", "a b"),
        ("{.missing.field}", ""),
        ("{.none}", ""),
        ("{.items[0].metadata}", '{"name":"a","labels":{"x.y/z":"1"}}'),
        ("{.items[0].ready}", "true"),
        ("names: {.items[*].metadata.name}!", "names: a b!"),
        ('{range .items[*]}{.metadata.name}={.n}{"\\n"}{end}', "a=1\nb=2\n"),
        ("{range .empty[*]}x{end}done", "done"),
        ("{range .items[*]}{range .metadata.labels.*}{@}{end};{end}", "1;;"),
        ("{'it}s'}", "it}s"),
        (".items[0].n", "1"),
        ("items[0].n", "1"),
        ("{.items[0].metadata.*}", 'a {"x.y/z":"1"}'),
    ],
)
def test_as_kubectl_does(template: str, expected: str) -> None:
    assert jsonpath.render(template, OBJECT) == expected


@pytest.mark.parametrize(
    "template",
    [
        "{.items[0}",
        "{.items",
        "{end}",
        "{range .items[*]}{.n}",
        "{.items[x]}",
        "{.items[1:2:3:4]}",
        "{ .items{ }",
        '{"\\q"}',
        "{.items[?(nonsense)]}",
        "{.items[?(@.n==nonsense)]}",
        "{nope nope}",
    ],
)
def test_what_makes_no_sense_is_refused(template: str) -> None:
    with pytest.raises(errors.InvalidValueError, match="jsonpath"):
        jsonpath.render(template, OBJECT)
