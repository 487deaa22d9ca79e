"""Refusals name the place and what is accepted; differences from Go that are meant."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.core import errors as core_errors
from tenantry.core.templates import engine, errors
from tenantry.core.templates.functions import catalogue


def render(source: str, data: Any = None) -> str:
    return engine.compile(source, "spec.rules[0].x").render(data)


@pytest.mark.parametrize(
    ("source", "line", "column", "says"),
    [
        ("{{nofunc 1}}", 1, 3, "function 'nofunc' is not defined"),
        ("ok\n  {{ .a | uper }}", 2, 11, "did you mean upper"),
        ("{{upper}}", 1, 3, "wrong number of arguments, found 0; accepted: upper string"),
        ('{{"a" | upper "b"}}', 1, 9, "found 2; accepted: upper string"),
        ("{{upper 1}}", 1, 9, "expected string, found int"),
        ('{{repeat "2" "x"}}', 1, 10, "expected int, found string"),
        ("{{if true}}", 1, 3, "{{end}} is missing"),
        ("a{{end}}", 1, 4, "there is no block to close"),
        ("{{$y}}", 1, 3, "undefined variable '$y'; known are: $"),
        ("{{.a", 1, 1, "}} is missing"),
        ("{{ 'ab' }}", 1, 4, "not one character"),
        ("{{ 08 }}", 1, 4, "not an octal number"),
        ("{{break}}", 1, 3, "outside of {{range}}"),
        ('{{template "x"}}', 1, 3, "template 'x' is not defined; defined are: none"),
        ('{{define "x"}}a{{end}}{{define "x"}}b{{end}}', 1, 25, "defined twice"),
        ("{{.a.b 1}}", 1, 8, "only a function can be given arguments"),
        ("{{nil}}", 1, 3, "nil is not a command"),
        ("{{1i}}", 1, 3, "complex numbers are not supported"),
        ("{{/* x", 1, 1, "unclosed comment"),
        ('{{"\\q"}}', 1, 3, "unknown escape \\q"),
        ("x" * (64 * 1024 + 1), 1, 1, "at most 65536 characters"),
        ("{{" + "(" * 60 + "1" + ")" * 60 + "}}", 1, 53, "nested more than 50 levels"),
        ("{{if true}}" * 60 + "{{end}}" * 60, 1, 553, "nested more than 50 levels"),
    ],
)
def test_refused_with_its_place(source: str, line: int, column: int, says: str) -> None:
    with pytest.raises(errors.TemplateRefusedError) as refused:
        engine.compile(source, "spec.rules[0].x")
    message = str(refused.value)
    assert message.startswith("spec.rules[0].x: Invalid value: ")
    assert f": line {line}:{column}: " in message
    assert says in message
    assert isinstance(refused.value, core_errors.InvalidValueError)


@pytest.mark.parametrize(
    "name",
    [
        "call",
        "env",
        "expandenv",
        "getHostByName",
        "now",
        "ago",
        "genCA",
        "genPrivateKey",
        "genSelfSignedCert",
        "genSignedCert",
        "randAlpha",
        "randAlphaNum",
        "randNumeric",
        "randAscii",
        "randInt",
        "randBytes",
        "uuidv4",
        "shuffle",
        "bcrypt",
        "htpasswd",
        "derivePassword",
        "encryptAES",
        "decryptAES",
        "buildCustomCert",
        "lookup",
        "include",
        "tpl",
        "generateAgeKey",
        "generateAgePQKey",
    ],
)
def test_what_has_side_effects_or_chance_is_unknown(name: str) -> None:
    assert name not in catalogue.FUNCTIONS
    with pytest.raises(errors.TemplateRefusedError, match=f"'{name}' is not defined"):
        engine.compile(f"{{{{if false}}}}{{{{{name}}}}}{{{{end}}}}", "f")


@pytest.mark.parametrize(
    ("source", "column", "says"),
    [
        ("{{.a.b}}", 3, "map has no entry for key 'b'; it has: x"),
        ("{{.nope}}", 3, "no entry for key 'nope'; it has: a, l, n, s"),
        ("{{upper .n}}", 9, "upper: expected string, found <nil>"),
        ("{{repeat .i 'x'}}".replace("'", '"').replace(".i", "(len .l | int64)"), 11, "(int ...)"),
        ("{{index .l 9}}", 3, "index: index out of range: 9; accepted: 0 to 1"),
        ("{{lt 1 .s}}", 3, "cannot compare int with string"),
        ('{{fail "because"}}', 3, "fail: because"),
        ("{{range .s}}{{end}}", 3, "accepted: list, map, number"),
        ("{{.s.x}}", 3, "a value of type string has no field 'x'"),
        ("{{.n.x}}", 3, "null has no field 'x'"),
    ],
)
def test_fails_with_its_place(source: str, column: int, says: str) -> None:
    data = {"a": {"x": 1}, "l": [1, 2], "s": "t", "n": None}
    with pytest.raises(errors.TemplateFailedError) as failed:
        render(source, data)
    assert str(failed.value).startswith(f"spec.rules[0].x: line 1:{column}: ")
    assert says in str(failed.value)


def test_a_template_can_be_filled_many_times() -> None:
    template = engine.compile('{{$_ := set .m "k" "v"}}{{.m.k}}{{.n}}', "f")
    data: dict[str, Any] = {"m": {}, "n": 1}
    assert template.render(data) == "v1"
    assert template.render({**data, "n": 2}) == "v2"
    # The maps of the caller stay as they were.
    assert data == {"m": {}, "n": 1}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        # sprig works on bytes here and breaks text; this is what is meant.
        ('{{nospace "h é"}}', "hé"),
        ('{{initials "école x"}}', "éx"),
        # sprig has Go's random order of maps.
        ('{{keys (dict "b" 1 "a" 2)}} {{values (dict "b" 1 "a" 2)}}', "[a b] [2 1]"),
        # sprig takes the slice of Go away from texts.
        ('{{slice "abc" 1 2}}', "b"),
        # Half a character is no text that Kubernetes can store.
        ('{{slice "é" 0 1}}', "\ufffd"),
        ('{{slice "é" 0 1}}{{slice "é" 1 2}}', "é"),
        ('{{deterministicUUID "a" " b "}}', "F04CDCED-9736-569D-A610-3F08A4DAAF8C"),
    ],
)
def test_meant_to_differ_from_sprig(source: str, expected: str) -> None:
    assert render(source) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("a {{.b}}", True), ("plain", False), ("}}", False)]
)
def test_whether_there_is_anything_to_fill_in(text: str, expected: bool) -> None:
    assert engine.is_template(text) is expected
