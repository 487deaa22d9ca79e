"""Messages say field, value and what would be accepted, whatever the input."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry.core import errors


def test_an_invalid_value_is_worded_as_the_api_server_does() -> None:
    problem = errors.InvalidValueError("spec.quota", "many", "must be a number")
    assert str(problem) == 'spec.quota: Invalid value: "many": must be a number'
    assert (problem.field, problem.value) == ("spec.quota", "many")
    assert isinstance(problem, errors.TenantryError)


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", '"a"'), ("", '""'), (3, "3"), (None, "None"), ([], "[]"), (True, "True")],
)
def test_strings_are_quoted(value: object, text: str) -> None:
    assert errors.shown(value) == text


@given(st.one_of(st.text(max_size=300), st.lists(st.integers(), max_size=200)))
def test_no_value_is_longer_than_allowed_and_no_quote_stays_open(value: object) -> None:
    text = errors.shown(value)
    assert len(text) <= 120
    if isinstance(value, str):
        assert text[0] == text[-1] == '"'
        assert len(value) <= 118 or text.endswith('..."')
