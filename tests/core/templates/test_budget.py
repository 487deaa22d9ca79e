"""Hostile templates: bounded by counts, and no input ends in anything but our errors."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from tenantry.core.templates import budget, engine, errors
from tenantry.core.templates.functions import catalogue

DOUBLING = '{{$l := list "x"}}{{range until 60}}{{$l = list $l $l}}{{end}}'
BOMBS = [
    '{{repeat 1000000000 "x"}}',
    '{{range until 1000}}{{repeat 100000 "x"}}{{end}}',
    "{{range 1000000000}}x{{end}}",
    "{{range until 1000}}{{range until 1000}}{{range until 1000}}x{{end}}{{end}}{{end}}",
    "{{until 1000000000}}",
    "{{untilStep 0 9223372036854775807 1}}",
    "{{seq 1 1000000000}}",
    '{{indent 1000000000 "a"}}',
    '{{wrapWith 1 (repeat 100000 "x") (repeat 1000 "y")}}',
    '{{printf "%999999d%999999d%999999d%999999d%999999d" 1 1 1 1 1}}',
    '{{printf "%.999999f%.999999f%.999999f%.999999f%.999999f" 1.0 1.0 1.0 1.0 1.0}}',
    '{{printf "%0*d" 999999 1 | repeat 9}}',
    '{{$s := "x"}}{{range until 60}}{{$s = print $s $s}}{{end}}{{$s}}',
    '{{$s := "xx"}}{{range until 60}}{{$s = replace "x" "xx" $s}}{{end}}',
    '{{$s := "x"}}{{range until 60}}{{$s = join $s (list "a" "b" "c")}}{{end}}',
    DOUBLING + "{{$l}}",
    DOUBLING + "{{$l | toJson}}",
    DOUBLING + "{{$l | toYaml}}",
    DOUBLING + "{{$l | toPrettyJson}}",
    DOUBLING + '{{dict "a" $l | toToml}}',
    DOUBLING + "{{deepCopy $l}}",
    DOUBLING + "{{deepEqual $l $l}}",
    DOUBLING + "{{uniq (list $l $l)}}",
    DOUBLING + "{{quote $l}}",
    '{{define "f"}}{{template "f" .}}{{end}}{{template "f" .}}',
    '{{define "f"}}{{template "f"}}{{template "f"}}{{end}}{{template "f"}}',
    '{{$d := dict}}{{$_ := set $d "a" $d}}{{$d}}',
    '{{$d := dict}}{{$_ := set $d "a" $d}}{{$d | toJson}}',
    '{{$d := dict}}{{$_ := set $d "a" $d}}{{$d | toYaml}}',
    '{{$d := dict}}{{$_ := set $d "a" $d}}{{$d | toToml}}',
    '{{fromToml (print (repeat 60000 "a.") "a = 1")}}',
    '{{fromToml (print "[" (repeat 1500 "a.") "a]" (repeat 40000 "\\nb.c = 1"))}}',
    '{{fromToml (print "x = " (repeat 1000000 "["))}}',
    '{{fromToml (repeat 100000 "a = {}\\n")}}',
    '{{$d := dict}}{{$_ := set $d "a" $d}}{{$_ := merge $d (deepCopy $d)}}',
    '{{$d := dict}}{{$e := dict}}{{$_ := set $d "a" $d}}{{$_ := set $e "a" $e}}{{deepEqual $d $e}}',
    "{{$d := dict}}{{range $i := until 100000}}{{$_ := set $d (print $i) $i}}{{end}}",
    "{{$l := list}}{{range until 100000}}{{$l = append $l .}}{{end}}",
    "{{$l := until 30000}}{{range $l}}{{if has -1 $l}}{{end}}{{end}}",
    "{{uniq (until 50000)}}",
    "{{$x := 1.0}}{{range until 100000}}{{$x = mulf $x 1.0000000001 3.3}}{{end}}",
    '{{regexMatch "([ab]{0,900}){0,1}a[ab]{900}x" (repeat 100000 "ab")}}',
    '{{regexFindAll "a.*b|a" (repeat 100000 "a") -1}}',
    '{{regexReplaceAll "" (repeat 100000 "a") (repeat 1000 "b")}}',
    '{{fromYaml (repeat 200000 "[")}}',
    '{{fromJson (repeat 2000000 "[")}}',
    '{{fromYaml "a: &a [x,x]\\nb: &b [*a,*a]\\nc: &c [*b,*b]\\nd: &d [*c,*c]\\ne: &e [*d,*d]\\n'
    "f: &f [*e,*e]\\ng: &g [*f,*f]\\nh: &h [*g,*g]\\ni: &i [*h,*h]\\nj: &j [*i,*i]\\n"
    "k: &k [*j,*j]\\nl: &l [*k,*k]\\nm: &m [*l,*l]\\nn: &n [*m,*m]\\no: &o [*n,*n]\\n"
    'p: &p [*o,*o]\\nq: &q [*p,*p]\\nr: &r [*q,*q]\\ns: [*r,*r]"}}',
    '{{$s := repeat 60000 "a"}}{{range until 60000}}{{if contains "b" $s}}{{end}}{{end}}',
    '{{$s := repeat 60000 "a"}}{{range until 60000}}{{if eq $s $s}}{{end}}{{end}}',
    '{{$s := repeat 60000 "a"}}{{range until 60000}}{{sha256sum $s}}{{end}}',
]


@pytest.mark.parametrize("source", BOMBS, ids=[str(number) for number in range(len(BOMBS))])
def test_a_bomb_is_stopped(source: str) -> None:
    template = engine.compile(source, "spec.x")
    began = time.process_time()
    with contextlib.suppress(errors.TemplateFailedError):
        # Not all of these have to fail; none may take long.
        assert len(template.render({})) <= budget.Limits().output
    assert time.process_time() - began < 20


def test_limits_are_named_with_their_place() -> None:
    with pytest.raises(errors.TemplateLimitError, match=r"^f: line 1:3: .*more than 100000 steps"):
        engine.compile("{{range 5000000}}{{end}}", "f").render({}, budget.Limits(made=1 << 30))
    with pytest.raises(errors.TemplateLimitError, match="builds more than 4194304 characters"):
        engine.compile("{{repeat 99999999 .}}", "f").render("x")
    with pytest.raises(errors.TemplateLimitError, match="gives more than 10 characters"):
        engine.compile("{{.}}", "f").render("x" * 11, budget.Limits(output=10))
    with pytest.raises(errors.TemplateLimitError, match="nested more than 100 levels deep"):
        engine.compile('{{define "f"}}{{template "f"}}{{end}}{{template "f"}}', "f").render(None)


def test_what_is_normal_takes_a_small_part_of_the_budget() -> None:
    source = "{{range $i, $o := .owners}}{{$i}}: {{$o.name | upper | quote}}\n{{end}}"
    data = {"owners": [{"name": f"person-{number}"} for number in range(500)]}
    assert engine.compile(source, "f").render(data, budget.Limits(steps=10_000)).count("\n") == 500


def test_deep_data_is_an_error_not_a_crash() -> None:
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    for source in ("{{.}}", "{{toJson .}}", "{{toYaml .}}", '{{toToml (dict "a" .)}}', "{{deepCopy .}}", "{{deepEqual . .}}",
                   '{{set (dict) "a" .}}', '{{printf "%v" .}}'):  # fmt: skip
        with pytest.raises(errors.TemplateLimitError):
            engine.compile(source, "f").render(deep)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)
NAMES = sorted(catalogue.FUNCTIONS)
WORDS = st.sampled_from(
    ["{{", "}}", "{{-", "-}}", "if ", "else", "end", "range ", "with ", "define ", "template ",
     "block ", "break", "continue", '"a"', "`b`", "'c'", "|", "(", ")", " ", ".", ".a", "$", "$x",
     ":=", "=", ",", "1", "-2", "1.5", "0x", "nil", "true", "/*", "*/", "\n", "é", "\\", *NAMES]
)  # fmt: skip
OPERANDS = st.sampled_from(
    [".", ".a", ".b.c", "1", "-3", "2.5", '"x"', '"(a)|b"', '"%5.2v%q%d"', "nil", "true", "(list 1 .)",
     '(dict "a" .)', "(until 5)", "99999999999", '"1.2.3"', '"a: [b]"', "(index .l 0)", ".l"]
)  # fmt: skip
SMALL = budget.Limits(steps=2000, made=100_000, output=10_000)


@hypothesis.given(st.lists(WORDS | st.text(max_size=3), max_size=24).map("".join), JSON)
def test_any_text_compiles_or_is_refused(source: str, data: Any) -> None:
    try:
        template = engine.compile(source, "f")
    except errors.TemplateRefusedError:
        return
    with contextlib.suppress(errors.TemplateFailedError):
        assert len(template.render(data, SMALL)) <= SMALL.output


@hypothesis.given(
    st.sampled_from(NAMES), st.lists(OPERANDS, max_size=4), st.sampled_from(NAMES), JSON, JSON
)
def test_any_call_gives_a_text_or_our_error(
    name: str, operands: list[str], piped: str, data: Any, more: Any
) -> None:
    source = "{{ %s %s | %s }}" % (name, " ".join(operands), piped)  # noqa: UP031 - braces
    with contextlib.suppress(errors.TemplateRefusedError, errors.TemplateFailedError):
        template = engine.compile(source, "f", missing_key="default")
        result = template.render({"a": data, "b": {"c": more}, "l": [data, more]}, SMALL)
        assert len(result) <= SMALL.output
        result.encode()
