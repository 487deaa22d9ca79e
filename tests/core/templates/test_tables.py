"""TOML in templates: what is written is what is read again, and nothing else comes out than text."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry.core.templates import engine


def render(source: str, data: Any = None) -> str:
    return engine.compile(source, "spec.x").render(data)


@pytest.mark.parametrize(
    ("data", "written"),
    [
        ({"b": 1, "a": "x"}, 'a = "x"\nb = 1\n'),
        ({"t": {"k": True}, "z": 1.5}, "z = 1.5\n\n[t]\nk = true\n"),
        ({"n": None, "t": {"n": None}}, "[t]\n"),
        ({"q": 'say "hi"\n'}, 'q = "say \\"hi\\"\\n"\n'),
        ({"a.b": {"c d": 1}}, '["a.b"]\n"c d" = 1\n'),
        ({}, ""),
        (None, "not a map: <nil>"),
        ([1], "not a map: []interface {}"),
        ({"l": [1, None]}, "a list with null in it has no TOML"),
    ],
)
def test_writing(data: Any, written: str) -> None:
    assert render("{{toToml .}}", data) == written


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('a = 1\n[b]\nc = ["x"]', '{"a":1,"b":{"c":["x"]}}'),
        ("[[a]]\nx = 1\n[[a]]\nx = 2", '{"a":[{"x":1},{"x":2}]}'),
        ("a.b.c = true", '{"a":{"b":{"c":true}}}'),
        ("", "{}"),
        (
            "a = 1979-05-27T07:32:00Z\nb = 1979-05-27\nc = 07:32:00",
            '{"a":"1979-05-27T07:32:00Z","b":"1979-05-27","c":"07:32:00"}',
        ),
    ],
)
def test_reading(text: str, read: str) -> None:
    assert render("{{fromToml . | toJson}}", text) == read


@pytest.mark.parametrize(
    "text",
    [
        "a = ",
        "a = 1\na = 2",
        "x = 9223372036854775808",
        "x = " + "9" * 5000,
        "x = " + "[" * 500 + "]" * 500,
        "a = \ud800",
    ],
)
def test_what_is_wrong_is_said_under_a_key(text: str) -> None:
    found = render('{{$t := fromToml .}}{{keys $t | join ","}} {{typeOf $t.Error}}', text)
    assert found == "Error string"


KEYS = st.text(max_size=4)
TABLES = st.dictionaries(
    KEYS,
    st.recursive(
        st.booleans()
        | st.integers(-(2**63), 2**63 - 1)
        | st.floats(allow_nan=False)
        | st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
        max_leaves=10,
    ),
    max_size=4,
)


@given(TABLES)
def test_what_is_written_is_read_again(data: dict[str, Any]) -> None:
    assert tomllib.loads(render("{{toToml .}}", data)) == data
    assert render("{{deepEqual (fromToml (toToml .)) .}}", data) == "true"
