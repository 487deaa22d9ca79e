"""Label selectors as "Labels and Selectors" and `metav1.LabelSelector` define them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry.core import errors, selectors


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


PROD = {"env": "prod", "tier": ""}


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        pytest.param({}, {}, True, id="empty matches all"),
        pytest.param({"matchLabels": None, "matchExpressions": None}, {}, True, id="nulls"),
        pytest.param({"matchLabels": {"env": "prod"}}, PROD, True, id="label"),
        pytest.param({"matchLabels": {"env": "dev"}}, PROD, False, id="other value"),
        pytest.param({"matchLabels": {"tier": ""}}, PROD, True, id="empty value"),
        pytest.param({"matchLabels": {"tier": ""}}, {}, False, id="absent is not empty"),
        pytest.param({"matchLabels": {"env": "prod", "a": "b"}}, PROD, False, id="all must hold"),
        pytest.param(expression("env", "In", "dev", "prod"), PROD, True, id="in"),
        pytest.param(expression("env", "In", "dev"), PROD, False, id="not among"),
        pytest.param(expression("zone", "In", ""), PROD, False, id="in, absent"),
        pytest.param(expression("env", "NotIn", "dev"), PROD, True, id="not in"),
        pytest.param(expression("env", "NotIn", "prod"), PROD, False, id="not in, among"),
        pytest.param(expression("zone", "NotIn", "a"), PROD, True, id="not in, absent"),
        pytest.param(expression("tier", "Exists"), PROD, True, id="exists, empty"),
        pytest.param(expression("zone", "Exists"), PROD, False, id="exists"),
        pytest.param(expression("zone", "DoesNotExist"), PROD, True, id="does not exist"),
        pytest.param(expression("tier", "DoesNotExist"), PROD, False, id="exists after all"),
        pytest.param(
            {"matchLabels": {"env": "prod"}, **expression("env", "NotIn", "prod")},
            PROD,
            False,
            id="both parts must hold",
        ),
    ],
)
def test_matching(selector: dict[str, Any], labels: dict[str, str], expected: bool) -> None:
    assert selectors.matcher(selector)(labels) is expected
    assert selectors.matches(selector, labels) is expected


@pytest.mark.parametrize(
    ("selector", "field", "accepted"),
    [
        ({"matchLabels": {"bad key": "x"}}, "s.matchLabels", "label key"),
        ({"matchLabels": {"a": "bad value"}}, "s.matchLabels[a]", "label value"),
        ({"matchLabels": {"a": 1}}, "s.matchLabels[a]", "label value"),
        ({"matchLabels": {"a": None}}, "s.matchLabels[a]", "label value"),
        (expression("", "Exists"), "s.matchExpressions[0].key", "label key"),
        (expression("a", "Is"), "s.matchExpressions[0].operator", "In, NotIn, Exists"),
        (expression("a", "in", "x"), "s.matchExpressions[0].operator", "In, NotIn, Exists"),
        ({"matchExpressions": [{"key": "a"}]}, "s.matchExpressions[0].operator", "one of"),
        (expression("a", "In"), "s.matchExpressions[0].values", "must not be empty"),
        (expression("a", "NotIn"), "s.matchExpressions[0].values", "must not be empty"),
        (expression("a", "In", "x" * 64), "s.matchExpressions[0].values", "label value"),
        (expression("a", "Exists", "x"), "s.matchExpressions[0].values", "must be empty"),
        (expression("a", "DoesNotExist", "x"), "s.matchExpressions[0].values", "must be empty"),
        (
            {"matchExpressions": [{"key": "a", "operator": "In", "values": [{}, 1]}]},
            "s.matchExpressions[0].values",
            "label value",
        ),
    ],
)
def test_what_is_not_valid_names_its_place_and_matches_nothing(
    selector: dict[str, Any], field: str, accepted: str
) -> None:
    with pytest.raises(errors.InvalidValueError) as refused:
        selectors.matcher(selector, "s")
    assert refused.value.field == field
    assert accepted in refused.value.accepted
    assert not selectors.matches(selector, {"a": "x"})


def test_an_absent_selector_matches_nothing() -> None:
    assert not selectors.matches(None, {"a": "b"})


KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.sampled_from(["", "1", "2"])


@given(st.dictionaries(KEYS, VALUES), KEYS, st.lists(VALUES, min_size=1))
def test_operators_come_in_opposite_pairs(
    labels: dict[str, str], key: str, values: list[str]
) -> None:
    def of(operator: str, *given: str) -> bool:
        return selectors.matches(expression(key, operator, *given), labels)

    assert of("In", *values) != of("NotIn", *values)
    assert of("Exists") != of("DoesNotExist")
    assert not of("In", *values) or of("Exists")
    assert selectors.matches({"matchLabels": {key: values[0]}}, labels) == of("In", values[0])
