"""RE2 syntax (github.com/google/re2/wiki/Syntax), searched anywhere, never backtracking."""

from __future__ import annotations

import time

import pytest

from tenantry.core import errors, regex


@pytest.mark.parametrize(
    ("expression", "text", "expected"),
    [
        ("prod", "my-prod-1", True),
        ("^prod", "my-prod-1", False),
        ("^(kube|capsule)-.*", "kube-system", True),
        ("^(kube|capsule)-.*", "my-kube-x", False),
        (r"^cc-\d+$", "cc-42", True),
        (r"^cc-\d+$", "cc-42\n", False),
        (r"(?i)PROD", "prod", True),
        (r"[[:alpha:]]", "1a", True),
        (r"\pL", "é", True),
        (r"^.$", "\U0001f600", True),
        (r"\z", "", True),
        ("a|", "zzz", True),
        ("(?P<x>a)", "a", True),
        ("a{1,3}", "aa", True),
    ],
)
def test_search(expression: str, text: str, expected: bool) -> None:
    assert regex.found(expression, text) is expected
    assert (regex.compile(expression, "f").search(text) is not None) is expected


@pytest.mark.parametrize(
    "expression",
    ["(", ")", "[", "*a", "a**", "(?=a)", "(?!a)", "(?<=a)", r"(a)\1", "a{2,1}", "(?P<x", "[z-a]",
     r"\8", "a{1001}", "(((a{100}){100}){100})"],
)  # fmt: skip
def test_what_re2_does_not_have_is_refused_with_its_reason(expression: str) -> None:
    with pytest.raises(errors.InvalidValueError) as refused:
        regex.compile(expression, "spec.x.allowedRegex")
    message = str(refused.value)
    assert message.startswith("spec.x.allowedRegex: Invalid value: ")
    assert "must be a valid RE2 regular expression: " in message
    assert "b'" not in message
    assert not regex.found(expression, "aaa")
    assert regex.found(expression, "aaa", unreadable=True)


def test_length_is_bounded() -> None:
    long = "a" * (regex.LONGEST + 1)
    with pytest.raises(errors.InvalidValueError, match="at most 4096 characters"):
        regex.compile(long, "f")
    assert not regex.found(long, long)
    assert regex.found("a" * regex.LONGEST, long)


def test_an_absent_expression_finds_nothing() -> None:
    assert not regex.found("", "anything")


def test_no_expression_makes_it_slow() -> None:
    began = time.process_time()
    assert not regex.found("^(a+)+$", "a" * 5000 + "b")
    # A backtracking engine would take longer than the universe exists.
    assert time.process_time() - began < 5


def test_a_short_expression_can_be_too_large() -> None:
    large = "".join(f"[{letter}b]{{1000}}" for letter in "acdefghijklmnopqrstuvwxyz")
    with pytest.raises(errors.InvalidValueError, match=r"repeat less|RE2 regular expression"):
        regex.compile(large, "spec.x")
    assert not regex.found(large, "a" * 1000)


def test_a_search_that_would_take_long_is_an_error_and_no_answer() -> None:
    # Twenty microseconds a character: without a bound 1 MiB would take 20 s.
    expression = "([ab]{0,900}){0,1}a[ab]{900}x"
    regex.compile(expression, "f")
    with pytest.raises(errors.InvalidValueError, match=r"at most [0-9]+ characters long"):
        regex.found(expression, "ab" * 500_000)
    began = time.process_time()
    assert not regex.found(expression, "ab" * 30_000)
    assert time.process_time() - began < 10


def test_half_a_character_is_no_crash() -> None:
    assert regex.found("a", "\ud800a")
    with pytest.raises(errors.InvalidValueError, match="valid Unicode"):
        regex.compile("\ud800", "f")
