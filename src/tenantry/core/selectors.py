"""Label selectors: validity, and whether they match.

Semantics: Kubernetes' `metav1.LabelSelector`. An absent selector matches nothing here; whether
absence means "all" is the caller's rule and is said where it applies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tenantry.core import errors, names

Labels = Mapping[str, str]
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def matcher(selector: Mapping[str, Any], field: str = "selector") -> Callable[[Labels], bool]:
    """Compile ``{matchLabels, matchExpressions}`` into a predicate; an empty one matches all.

    :raises InvalidValueError: when a key, operator or value list is not valid
    """
    tests: list[Callable[[Labels], bool]] = []
    for key, value in (selector.get("matchLabels") or {}).items():
        _check_key(key, f"{field}.matchLabels")
        _check_value(value, f"{field}.matchLabels[{key}]")
        tests.append(_equal(key, value))
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        tests.append(_requirement(expression, f"{field}.matchExpressions[{index}]"))
    return lambda labels: all(test(labels) for test in tests)


def matches(selector: Mapping[str, Any] | None, labels: Labels) -> bool:
    """Tell whether a stored selector matches; absent or invalid ones match nothing."""
    if selector is None:
        return False
    try:
        return matcher(selector)(labels)
    except errors.InvalidValueError:
        return False


def _equal(key: str, value: str) -> Callable[[Labels], bool]:
    return lambda labels: labels.get(key) == value


def _requirement(expression: Mapping[str, Any], field: str) -> Callable[[Labels], bool]:
    key, operator = expression.get("key", ""), expression.get("operator", "")
    written = expression.get("values") or ()
    _check_key(key, f"{field}.key")
    if operator not in OPERATORS:
        raise errors.InvalidValueError(
            f"{field}.operator", operator, f"must be one of {', '.join(OPERATORS)}"
        )
    for value in written:
        _check_value(value, f"{field}.values")
    values = frozenset(written)
    if operator in ("In", "NotIn"):
        if not values:
            raise errors.InvalidValueError(
                f"{field}.values", [], f"must not be empty with operator {operator}"
            )
        if operator == "In":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if values:
        raise errors.InvalidValueError(
            f"{field}.values", sorted(values), f"must be empty with operator {operator}"
        )
    if operator == "Exists":
        return lambda labels: key in labels
    return lambda labels: key not in labels


def _check_key(key: object, field: str) -> None:
    if not isinstance(key, str) or not names.is_qualified_name(key):
        raise errors.InvalidValueError(field, key, "must be a label key such as example.com/name")


def _check_value(value: object, field: str) -> None:
    if not isinstance(value, str) or not names.is_label_value(value):
        raise errors.InvalidValueError(
            field, value, "must be a label value: at most 63 letters, digits, '-', '_' or '.'"
        )
