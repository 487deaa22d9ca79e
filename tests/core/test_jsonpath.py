"""Kubernetes' JSONPath: what client-go's util/jsonpath gave, refusals with their place, bounds."""

from __future__ import annotations

import contextlib
import json
import pathlib
import time
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from tenantry.core import errors, jsonpath

FIXTURE = pathlib.Path(__file__).parents[1] / "fixtures" / "templates" / "jsonpath.json"
RECORDED: dict[str, Any] = json.loads(FIXTURE.read_text(encoding="utf-8"))
POD = {
    "spec": {
        "containers": [
            {"name": "a", "resources": {"requests": {"nvidia.com/gpu": "2", "cpu": "1"}}},
            {"name": "b", "resources": {"requests": {"cpu": "500m"}}, "ports": [80, 443]},
        ],
        "nodeName": "n1",
    }
}


def _ours(source: str, *, allow_missing: bool) -> str | None:
    try:
        return jsonpath.template(source).render(RECORDED["data"], allow_missing=allow_missing)
    except (errors.InvalidValueError, jsonpath.JSONPathError):
        return None


def test_all_recorded_cases() -> None:
    wrong = [
        (source, allow_missing, expected, found)
        for allow_missing, source, expected in RECORDED["cases"]
        if (found := _ours(source, allow_missing=allow_missing)) != expected
    ]
    assert wrong == []
    assert len(RECORDED["cases"]) > 1000


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (".spec.containers[*].resources.requests.cpu", ["1", "500m"]),
        ("{.spec.containers[*].resources.requests.cpu}", ["1", "500m"]),
        (r".spec.containers[*].resources.requests.nvidia\.com/gpu", ["2"]),
        (".spec.containers[?(@.name=='b')].ports[*]", [80, 443]),
        (".spec.containers[?(@.ports)].name", ["b"]),
        ("..cpu", ["1", "500m"]),
        (".spec.*", [POD["spec"]["containers"], "n1"]),
    ],
)
def test_a_path_finds_values(source: str, expected: list[Any]) -> None:
    assert jsonpath.path(source, "spec.sources[0].path").find(POD) == expected


def test_missing_fields() -> None:
    path = jsonpath.path(".spec.missing", "f")
    assert path.find(POD, allow_missing=True) == []
    with pytest.raises(jsonpath.JSONPathError, match=r'"\.spec\.missing": missing is not found'):
        path.find(POD)


def test_a_scalar_cannot_be_filtered() -> None:
    path = jsonpath.path(".spec.nodeName[?(@.x==1)]", "f")
    with pytest.raises(
        jsonpath.JSONPathError, match="n1 is not array or slice and cannot be filtered"
    ):
        path.find(POD)


@pytest.mark.parametrize(
    ("source", "column", "says"),
    [
        ("{.items[0}", 8, "the closing ] is missing"),
        ("{.items", 1, "the closing } is missing"),
        ("{'x}", 1, "the closing ' is missing"),
        ("a{end}", 2, "there is no {range} before this {end}"),
        ("{range .items[*]}{.n}", 22, "an {end} is missing"),
        ("{.items[x]}", 9, "invalid array index x; accepted: 0, -1"),
        ("{.items[1:2:3:4]}", 9, "invalid array index"),
        ("{.items[-]}", 9, "invalid array index"),
        ('{"\\q"}', 2, "unknown escape"),
        ("{.items[?(nonsense)]}", 11, "unrecognized identifier nonsense"),
        ("{.items[?(@.n==nonsense)]}", 16, "unrecognized identifier nonsense"),
        ("{.items[?(@.n=~1)]}", 11, "unrecognized filter operator =; accepted: =="),
        ("{.items[?(@.n<>1)]}", 11, "unrecognized filter operator <>; accepted: =="),
        ("{.items[?(@.n==1]}", 8, "the closing )] of a filter is missing"),
        ("{.items[?(@.n)}", 8, "a filter must end in )]"),
        ("{nope nope}", 2, "unrecognized identifier nope"),
        ("{#}", 2, "unrecognized character '#'"),
        ("x" * 8193, 1, "at most 8192 characters"),
        ("{" + "[?(@.a" * 20 + ")]" * 20 + "}", 101, "nested more than 16 levels"),
        ("{range .a}" * 20 + "{end}" * 20, 151, "15 levels deep"),
    ],
)
def test_refused_with_its_place(source: str, column: int, says: str) -> None:
    with pytest.raises(errors.InvalidValueError) as refused:
        jsonpath.template(source, "spec.x")
    assert str(refused.value).startswith("spec.x: Invalid value: ")
    assert f"column {column}: " in str(refused.value)
    assert says in str(refused.value)


def test_nothing_takes_long() -> None:
    wide = {"a": [{"a": [{"a": [{"a": list(range(20))}] * 20}] * 20}] * 20}
    deep: Any = "x"
    for _ in range(3000):
        deep = {"a": deep}
    began = time.process_time()
    for source in ("{........a}", "{..a..a..a..a}", "{range ..a}{range ..a}{..}{end}{end}", "{..}"):
        for value in (wide, deep):
            with pytest.raises(jsonpath.JSONPathError):
                jsonpath.template(source).render(value)
    with pytest.raises(jsonpath.JSONPathError):
        jsonpath.template("{.a}").render({"a": deep})
    assert time.process_time() - began < 30


PIECES = st.sampled_from(
    ["{", "}", ".", "..", "a", "b", "*", "[", "]", "[0]", "[-1:]", "[*]", "[?(", "@", "==", "<", "1",
     "2.5", '"x"', "'a'", ")]", "range ", "end", "true", "$", " ", ",", "\\", ":", "['a.b']", "{end}",
     "{range .a[*]}", "é"]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "é"]), inner, max_size=3)
    ),
    max_leaves=15,
)


@hypothesis.given(st.lists(PIECES | st.text(max_size=2), max_size=16).map("".join), VALUES)
def test_any_template_gives_a_text_or_our_error(source: str, value: Any) -> None:
    with contextlib.suppress(errors.InvalidValueError, jsonpath.JSONPathError):
        template = jsonpath.template(source)
        template.render(value).encode()
        template.render(value, allow_missing=False)
