from __future__ import annotations

from typing import Any

import pytest
from tools.crdgen import structural

TEXT = {"type": "string"}


def root(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    "node",
    [
        root(a=TEXT),
        root(a={"x-kubernetes-preserve-unknown-fields": True}),
        root(a={"anyOf": structural.INT_OR_STRING, "x-kubernetes-int-or-string": True}),
        root(a={"type": "object", "additionalProperties": TEXT}),
        root(metadata={"type": "object", "properties": {"name": {"type": "string"}}}),
        root(a={"type": "object", "anyOf": [{"required": ["b"]}], "properties": {"b": TEXT}}),
        root(
            a={
                "type": "object",
                "default": {},
                "required": ["b"],
                "properties": {"b": {"type": "string", "default": "x"}},
            }
        ),
    ],
)
def test_good(node: dict[str, Any]) -> None:
    assert structural.problems(node) == []


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        (root(a={}), ".a: has no type"),
        (root(a={"type": "text"}), ".a: type text is unknown"),
        (root(a={"$ref": "#/b", "type": "string"}), ".a: $ref is not a keyword"),
        (root(a={"type": "array"}), ".a: an array needs items"),
        (root(a={"type": "array", "items": {}}), ".a[]: has no type"),
        (root(a={"type": "object", "additionalProperties": {}}), ".a.*: has no type"),
        (
            root(a={"type": "object", "properties": {}, "additionalProperties": TEXT}),
            ".a: properties and additionalProperties exclude each other",
        ),
        (root(a={"type": "object", "required": ["b"]}), ".a: requires b, which it does not have"),
        (root(a={"type": "string", "anyOf": [TEXT]}), ".a.anyOf: type may not stand in a branch"),
        (root(a={"type": "string", "not": TEXT}), ".a.not: type may not stand in a branch"),
        (
            root(a={"x-kubernetes-int-or-string": True}),
            ".a: int-or-string is written as anyOf integer, string",
        ),
        (
            root(
                a={
                    "type": "string",
                    "anyOf": structural.INT_OR_STRING,
                    "x-kubernetes-int-or-string": True,
                }
            ),
            ".a: int-or-string has no type of its own",
        ),
        (
            root(a={"type": "array", "items": TEXT, "x-kubernetes-list-type": "map"}),
            ".a: list type map and its keys go together",
        ),
        (
            root(
                a={
                    "type": "array",
                    "items": root(b=TEXT),
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["b", "c"],
                }
            ),
            ".a: map key b must be required or have a default; .a: map key c is not a field",
        ),
        (
            root(a={"type": "string", "x-kubernetes-validations": [{"rule": "true"}]}),
            ".a: a rule needs a text and a message",
        ),
        (root(a={"type": "integer", "default": True}), ".a.default: True is not of type integer"),
        (root(a={"type": "string", "default": 1}), ".a.default: 1 is not of type string"),
        (
            root(a={"type": "string", "enum": ["x"], "default": "y"}),
            ".a.default: 'y' is not one of ['x']",
        ),
        (
            root(a={"type": "array", "items": TEXT, "default": [1]}),
            ".a.default[]: 1 is not of type string",
        ),
        (
            root(a={"type": "object", "default": {"c": 1}, "properties": {"b": TEXT}}),
            ".a.default: c is not a field",
        ),
        (
            root(
                a={
                    "type": "object",
                    "default": {},
                    "properties": {"b": TEXT},
                    "required": ["b"],
                }
            ),
            ".a.default: lacks b",
        ),
        (
            root(metadata={"type": "object", "properties": {"labels": {"type": "object"}}}),
            ".metadata: only ['generateName', 'name'] can be restricted",
        ),
    ],
)
def test_bad(node: dict[str, Any], problem: str) -> None:
    found = structural.problems(node)

    assert found
    assert problem in "; ".join(found)
