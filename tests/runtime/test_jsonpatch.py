from __future__ import annotations

import copy
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from tenantry.runtime import errors, jsonpatch

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "~1", "x/y"])
DOCUMENTS = st.recursive(
    SCALARS,
    lambda below: (
        st.lists(below, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "a/b", "~", "~1", "", "0"]), below, max_size=4)
    ),
    max_leaves=12,
)


@hypothesis.given(DOCUMENTS, DOCUMENTS)
def test_the_difference_leads_from_one_document_to_the_other(old: Any, new: Any) -> None:
    before = copy.deepcopy(old)
    operations = jsonpatch.difference(old, new)

    assert jsonpatch.same(jsonpatch.apply(old, operations), new)
    assert bool(operations) != jsonpatch.same(old, new)
    assert jsonpatch.same(old, before), "the document itself stays as it is"


def test_is_small() -> None:
    old = {"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [{"n": 1}, {"n": 2, "x": 3}]}}
    new = {
        "metadata": {"labels": {"a": "1", "example.com/b": "2"}},
        "spec": {"containers": [{"n": 1}, {"n": 2, "x": 4}]},
    }

    assert jsonpatch.difference(old, new) == [
        {"op": "add", "path": "/metadata/labels/example.com~1b", "value": "2"},
        {"op": "replace", "path": "/spec/containers/1/x", "value": 4},
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ([1, 2, 3], [1, 3], [("remove", "/1")]),
        ([1, 2], [0, 1, 2], [("add", "/0")]),
        ([1, 2], [1, 2, 3, 4], [("add", "/2"), ("add", "/3")]),
        ([1, 2, 3, 4], [4], [("remove", "/2"), ("remove", "/1"), ("remove", "/0")]),
        ({"a": 1}, {}, [("remove", "/a")]),
        ({}, {"": 1}, [("add", "/")]),
        (1, True, [("replace", "")]),
        ([False], [0], [("replace", "/0")]),
        ({"a": None}, {}, [("remove", "/a")]),
        (1, 1.0, []),
    ],
)
def test_differences(old: Any, new: Any, expected: list[tuple[str, str]]) -> None:
    operations = jsonpatch.difference(old, new)
    assert [(operation["op"], operation["path"]) for operation in operations] == expected


@pytest.mark.parametrize(
    ("document", "operation", "expected"),
    [
        ({"a": [1]}, {"op": "add", "path": "/a/-", "value": 2}, {"a": [1, 2]}),
        ({"a": [1]}, {"op": "add", "path": "/a/0", "value": 2}, {"a": [2, 1]}),
        ({"a": 1}, {"op": "add", "path": "", "value": 2}, 2),
        ({"a": 1}, {"op": "replace", "path": "", "value": None}, None),
        ({"a": 1}, {"op": "test", "path": "/a", "value": 1}, {"a": 1}),
        ({"a": 1, "b": 2}, {"op": "move", "from": "/a", "path": "/b"}, {"b": 1}),
        ({"a": [1]}, {"op": "copy", "from": "/a", "path": "/b"}, {"a": [1], "b": [1]}),
        ({"~1": 1}, {"op": "remove", "path": "/~01"}, {}),
        ([1, 2], {"op": "replace", "path": "/1", "value": 3}, [1, 3]),
    ],
)
def test_applies(document: Any, operation: dict[str, Any], expected: Any) -> None:
    assert jsonpatch.apply(document, [operation]) == expected


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": True},
        {"op": "remove", "path": "/x"},
        {"op": "remove", "path": ""},
        {"op": "replace", "path": "/x", "value": 1},
        {"op": "replace", "path": "/l/2", "value": 1},
        {"op": "add", "path": "/l/3", "value": 1},
        {"op": "add", "path": "/l/01", "value": 1},
        {"op": "add", "path": "/l/٣", "value": 1},
        {"op": "add", "path": "/a/b", "value": 1},
        {"op": "add", "path": "a", "value": 1},
        {"op": "add", "path": "/a"},
        {"op": "add", "value": 1},
        {"op": "move", "from": "/l", "path": "/l/0"},
        {"op": "swap", "path": "/a"},
    ],
)
def test_refuses_what_does_not_fit(operation: dict[str, Any]) -> None:
    with pytest.raises(errors.PatchError):
        jsonpatch.apply({"a": 1, "l": [1, 2]}, [operation])


def test_writes_pointers() -> None:
    assert jsonpatch.pointer("a/b", "~", 0) == "/a~1b/~0/0"
