"""Compile and evaluate CEL expressions as Kubernetes has them, with its quantities and versions.

The library behind this is young: nothing outside of this module names it. A quantity is an integer
in milli units inside an expression, a version its text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

from cel_expr_python import cel

from tenantry.core import errors, quantity

#: Longer expressions are refused by the API server too.
MOST_CHARACTERS = 10 * 1024
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")


class InvalidExpression(errors.InvalidValueError):
    """An expression that does not compile."""


class EvaluationError(errors.TenantryError):
    """An expression that has no value for this input, such as a missing key."""


class Program:
    """A compiled expression over named variables."""

    __slots__ = ("_expression", "text")

    def __init__(self, text: str, expression: Any) -> None:
        self.text = text
        self._expression = expression

    def holds(self, variables: Mapping[str, Any]) -> bool:
        """Evaluate to a truth value.

        :raises EvaluationError: when there is none
        """
        try:
            result = self._expression.eval(data=variables)
            value = result.value()
        except Exception as problem:
            raise EvaluationError(f"{self.text}: {problem}") from problem
        if not isinstance(value, bool):
            raise EvaluationError(f"{self.text}: not true or false: {value!r}")
        return value


@functools.lru_cache(maxsize=1024)
def compiled(text: str, variables: tuple[str, ...]) -> Program:
    """Compile an expression over these variables; equal ones are compiled once.

    :raises InvalidExpression: with what the compiler says
    """
    if len(text) > MOST_CHARACTERS:
        raise InvalidExpression("expression", text[:40], f"at most {MOST_CHARACTERS} characters")
    try:
        return Program(text, _environment(variables).compile(text))
    except Exception as problem:
        raise InvalidExpression("expression", text, f"valid CEL: {problem}") from problem


@functools.lru_cache(maxsize=16)
def _environment(variables: tuple[str, ...]) -> Any:
    return cel.NewEnv(variables=dict.fromkeys(variables, cel.Type.DYN), extensions=[_kubernetes()])


@functools.lru_cache(maxsize=1)
def _kubernetes() -> Any:
    """Return the functions that Kubernetes adds, as far as devices need them."""
    integer, text, truth = cel.Type.INT, cel.Type.STRING, cel.Type.BOOL

    def member(name: str, *, result: Any, versions: bool, make: Callable[[int, int], Any]) -> Any:
        overloads = [
            cel.Overload(
                f"quantity_{name}",
                result,
                [integer, integer],
                is_member=True,
                impl=make,
            )
        ]
        if versions:
            overloads.append(
                cel.Overload(
                    f"semver_{name}",
                    result,
                    [text, text],
                    is_member=True,
                    impl=lambda left, right: make(_compared(left, right), 0),
                )
            )
        return cel.FunctionDecl(name, overloads)

    functions = [
        cel.FunctionDecl("quantity", [cel.Overload("to_quantity", integer, [text], impl=_milli)]),
        cel.FunctionDecl("semver", [cel.Overload("to_semver", text, [text], impl=_checked)]),
        member("compareTo", result=integer, versions=True, make=lambda a, b: (a > b) - (a < b)),
        member("isGreaterThan", result=truth, versions=True, make=lambda a, b: a > b),
        member("isLessThan", result=truth, versions=True, make=lambda a, b: a < b),
        member("add", result=integer, versions=False, make=lambda a, b: a + b),
        member("sub", result=integer, versions=False, make=lambda a, b: a - b),
        cel.FunctionDecl(
            "asInteger",
            [
                cel.Overload(
                    "quantity_as_integer",
                    integer,
                    [integer],
                    is_member=True,
                    impl=lambda amount: amount // 1000,
                )
            ],
        ),
    ]
    return cel.CelExtension("kubernetes", functions)


def _milli(text: str) -> int:
    return quantity.parse(text, "quantity").milli


def _checked(text: str) -> str:
    _parts(text)
    return text


def _compared(left: str, right: str) -> int:
    one, two = _parts(left), _parts(right)
    return (one > two) - (one < two)


def _parts(text: str) -> tuple[Any, ...]:
    """Return what orders versions: numbers, and a release after its previews."""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise errors.InvalidValueError("semver", text, "MAJOR.MINOR.PATCH")
    preview = match[4]
    order = [
        (0, int(part), "") if part.isdecimal() else (1, 0, part)
        for part in (preview or "").split(".")
    ]
    return int(match[1]), int(match[2]), int(match[3]), preview is None, order
