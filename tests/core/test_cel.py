"""CEL with the functions of Kubernetes."""

from __future__ import annotations

import contextlib
import json
import pathlib
import time
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from tenantry.core import cel, cel_functions, cel_texts, cel_values

FIXTURE = pathlib.Path(__file__).parents[1] / "fixtures" / "templates" / "cel.json"
RECORDED: dict[str, Any] = json.loads(FIXTURE.read_text(encoding="utf-8"))

GPU = {
    "driver": "gpu.example.com",
    "attributes": {
        "gpu.example.com": {"model": "A100", "index": 3, "driverVersion": "550.1.0", "mig": False}
    },
    "capacity": {"gpu.example.com": {"memory": 80 * 1024**3 * 1000}},
}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ('device.driver == "gpu.example.com"', True),
        ('device.attributes["gpu.example.com"].model.startsWith("H")', False),
        ('device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) == 0', True),
        ('device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("80Gi"))', False),
        ('device.capacity["gpu.example.com"].memory.isLessThan(quantity("81Gi"))', True),
        ('quantity("1500m").add(quantity("500m")).sub(quantity("1")).asInteger() == 1', True),
        ('device.attributes["gpu.example.com"].driverVersion.isGreaterThan(semver("9.0.0"))', True),
        ('semver("1.0.0").isGreaterThan(semver("1.0.0-rc.2"))', True),
        ('semver("1.0.0-rc.10").compareTo(semver("1.0.0-rc.9")) == 1', True),
        ('"other" in device.attributes', False),
    ],
)
def test_values(text: str, holds: bool) -> None:
    assert cel.compiled(text, ("device",)).holds({"device": GPU}) is holds


@pytest.mark.parametrize(
    "text",
    ['device.attributes["other"].x == 1', "1 + 1", 'quantity("x").asInteger() == 1', "1/0 == 1"],
)
def test_no_value(text: str) -> None:
    program = cel.compiled(text, ("device",))
    with pytest.raises(cel.EvaluationError, match="not true or false"):
        program.holds({"device": GPU})


@pytest.mark.parametrize("text", ["device.driver ==", "nobody == 1", "a" * 20_000])
def test_refused(text: str) -> None:
    with pytest.raises(cel.InvalidExpression, match=r"expression: Invalid value"):
        cel.compiled(text, ("device",))


def test_all_recorded_cases() -> None:
    """Kubernetes' own environment gave these values."""
    wrong = []
    for text, expected, has_value in RECORDED["cases"]:
        try:
            found = cel.compiled(text, ("object",)).value({"object": RECORDED["object"]})
        except (cel.InvalidExpression, cel.EvaluationError):
            if has_value:
                wrong.append((text, expected, "an error"))
            continue
        if not has_value or found != expected:
            wrong.append((text, expected, found))
    assert wrong == []
    assert len(RECORDED["cases"]) > 180


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("quantity(object.cpu)", "1500m"),
        ("object.count", "3"),
        (f"object.count in [{', '.join(map(str, range(900)))}] ? 1 : 0", "1"),
        ("object.cpu", "1500m"),
        ("object.ratio * 2.0", "5"),
        ('quantity("1Gi").add(quantity("1Mi"))', "1074790400"),
    ],
)
def test_an_amount(text: str, expected: str) -> None:
    data = {"object": {"cpu": "1500m", "count": 3, "ratio": 2.5}}
    assert str(cel.compiled(text, ("object",)).quantity(data)) == expected


@pytest.mark.parametrize("text", ["true", "'x'", "[1]", "{}", "object.missing", "null"])
def test_no_amount(text: str) -> None:
    with pytest.raises(cel.EvaluationError):
        cel.compiled(text, ("object",)).quantity({"object": {}})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1 +", "valid CEL: .*1:4"),
        ("nobody == 1", "undeclared reference to 'nobody'"),
        ('"a".nofunc()', "undeclared reference to 'nofunc'"),
        ('"a".charAt(true)', "found no matching overload"),
        ("object.?a.hasValue()", "valid CEL"),
        ("optional.of(1).family() == 4", "valid CEL"),
        ("object.a == '\ud800'", "valid Unicode"),
        ('"a".matches("(")', "must be a valid RE2 regular expression"),
        ('"a".matches("a{1000}' + "(b{1000})" * 30 + '")', "RE2|instructions"),
        ('["x"]' + ".map(a, a + a)" * 30, "fewer [+]"),
        ("object.s" + " + object.s" * 400, "fewer [+]"),
        ("[1]" + ".map(a, [a, a])" * 20, "or lists"),
        ("[1]" + '.map(a, {"x": a, "y": a})' * 20, "or lists"),
    ],
)
def test_refused_with_its_reason(text: str, says: str) -> None:
    with pytest.raises(cel.InvalidExpression, match=says) as refused:
        cel.compiled(text, ("object",), "spec.sources[0].cel")
    assert str(refused.value).startswith("spec.sources[0].cel: Invalid value: ")


@pytest.mark.parametrize(
    "text",
    [
        "object.l.all(a, object.l.all(b, object.l.all(c, object.l.all(d, true))))",
        "object.l.map(a, object.l.map(b, object.l.map(c, object.l.map(d, [a, b, c, d])))).size() > 0",
        "(" * 200 + "1" + ")" * 200 + " == 1",
        "[1]" + ".map(a, a)" * 200 + " == [1]",
        '"a"' + '.replace("a", "aaaaaaaaaaaaaaaaaaaa")' * 20 + ".size() > 0",
        '["a", "b"]' + '.join("xxxxxxxx").split("")' * 20 + ".size() > 0",
        "lists.range(1000000000).size() > 0",
        '"%.999999999f".format([1.5]).size() > 0',
        'object.s.findAll("a.*b|a").size() > 0',
        "sets.equivalent(object.l, object.l)",
        "object.l.distinct().size() > 0",
        "object.m.all(a, !(a in object.m))",
        "object.m.all(a, size(object.s) > 0) && object.m.all(a, object.m == object.m)",
        "object.l.all(x, !object.s.matches('([ab]{0,900}){0,1}a[ab]{900}x'))",
        "object.l.all(x, !(x in lists.range(100000)))",
        "object.l.all(x, object.s.lowerAscii() != '')",
    ],
)
def test_no_expression_takes_long(text: str) -> None:
    data = {"object": {"l": list(range(1000)), "m": [0] * 100_000, "s": "a" * 60_000}}
    began = time.process_time()
    with pytest.raises((cel.InvalidExpression, cel.EvaluationError)) as refused:
        cel.compiled(text, ("object",)).holds(data)
        raise cel.EvaluationError("done, and quickly")
    assert str(refused.value)
    assert time.process_time() - began < 10


OPERANDS = st.sampled_from(
    ["1", "-1", "1.5", "1u", '"a"', '"(a"', '"10.0.0.1"', '"10.0.0.0/8"', '"1Gi"', '"1.2.3"',
     '"http://h:80/a?b=c"', "true", "null", "[1,2]", '["a","b"]', "[]", "{}", "object", "object.a",
     'b"x"', 'duration("1s")', 'timestamp("2020-01-01T00:00:00Z")', "type(1)", "[1/0]",
     "google.protobuf.Any{}", "google.protobuf.Int32Value{value: 1}", 'quantity("1")', 'ip("::1")',
     '{"~": "quantity"}', '{"~": "ip", "text": "x"}', '{"~": "quantity", "nanos": [type(1)]}']
)  # fmt: skip
FUNCTIONS = st.sampled_from((*cel_functions.FUNCTIONS, *cel_texts.FUNCTIONS))


def _call(function: cel_values.Function, operands: list[str]) -> str:
    first, *others = operands[: len(function.parameters)]
    if function.member:
        return f"dyn({first}).{function.name}({', '.join(others)})"
    return f"{function.name}({', '.join([first, *others])})"


CALLS = st.builds(_call, FUNCTIONS, st.lists(OPERANDS, min_size=3, max_size=3))


@hypothesis.given(
    st.builds(_call, FUNCTIONS, st.lists(OPERANDS | CALLS, min_size=3, max_size=3))
    | st.text(max_size=10)
)
def test_any_expression_has_a_value_or_our_error(text: str) -> None:
    with contextlib.suppress(cel.InvalidExpression):
        program = cel.compiled(text, ("object",))
        for evaluate in (program.value, program.holds, program.quantity):
            with contextlib.suppress(cel.EvaluationError):
                evaluate({"object": {"a": [1, None]}})
