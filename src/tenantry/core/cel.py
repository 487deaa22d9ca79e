"""Compile and evaluate CEL expressions as Kubernetes has them, with its function library.

The library behind this is young: nothing outside of the modules `cel*` names it. It bounds nesting
(32) and iterations by itself; what it does not bound, text that grows by itself, is estimated and
refused here. A quantity, a version, an address is a map with a mark inside an expression, since
own functions can give values of CEL's types alone; a number in data stands for a quantity in milli
units where one is wanted, a text for a version.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

import msgspec
from cel_expr_python import cel

from tenantry.core import cel_functions, cel_texts, cel_values, errors, quantity, regex

#: Longer expressions are refused by the API server too.
MOST_CHARACTERS = 10 * 1024
#: How often a text may multiply by being added to itself, and a value by being listed with itself;
#: see `_growth`.
MOST_GROWTH = 256
MOST_COPIES = 1024
#: Bytes of data times turns of loops, some two seconds at worst.
MOST_WORK = 200_000_000

_LITERAL = re.compile(r"""[rR]?(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""")
_GROWING = re.compile(r"\.\s*map\s*\(")
_MACRO = re.compile(r"\.\s*(?:map|filter|all|exists|exists_one)\s*\(")
_CALL = re.compile(r"\bmatches(?=\s*\()")
#: Turns that the library itself allows.
_MOST_TURNS = 10_000
_MATCHES = re.compile(r"""\.\s*matches\s*\(\s*[rR]?("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""")


class InvalidExpression(errors.InvalidValueError):
    """An expression that does not compile."""


class EvaluationError(errors.TenantryError):
    """An expression that has no value for this input, such as a missing key."""


class Program:
    """A compiled expression over named variables."""

    __slots__ = ("_expression", "_loops", "text")

    def __init__(self, text: str, expression: Any) -> None:
        self.text = text
        self._loops = len(_MACRO.findall(_LITERAL.sub("", text)))
        self._expression = expression

    def holds(self, variables: Mapping[str, Any]) -> bool:
        """Evaluate to a truth value.

        :raises EvaluationError: when there is none
        """
        value = self._evaluate(variables).value()
        if not isinstance(value, bool):
            raise EvaluationError(f"{self.text}: not true or false: {value!r}")
        return value

    def value(self, variables: Mapping[str, Any]) -> Any:
        """Evaluate to a value of JSON's types, with times as such.

        :raises EvaluationError: when there is none
        """
        result = self._evaluate(variables)
        if result.type().name() == "ERROR":
            raise EvaluationError(f"{self.text}: {result.value()}")
        return result.plain_value()

    def quantity(self, variables: Mapping[str, Any]) -> quantity.Quantity:
        """Evaluate to an amount: a quantity, a number, or a text that is one.

        :raises EvaluationError: when there is none
        """
        value = self.value(variables)
        try:
            if isinstance(value, dict):
                return cel_values.amount(value)
            if isinstance(value, (int, float, str)) and not isinstance(value, bool):
                return quantity.parse(value)
        except (errors.InvalidValueError, ValueError, OverflowError) as problem:
            raise EvaluationError(f"{self.text}: {problem}") from None
        raise EvaluationError(f"{self.text}: not a quantity or number: {errors.shown(value)}")

    def _evaluate(self, variables: Mapping[str, Any]) -> Any:
        if self._loops:
            self._check_size(variables)
        cel_values.begin()
        try:
            return self._expression.eval(data=variables)
        except Exception as problem:
            raise EvaluationError(f"{self.text}: {problem}") from problem

    def _check_size(self, variables: Mapping[str, Any]) -> None:
        """Refuse what could look at large data very often: the library counts turns, not work."""
        try:
            size = len(msgspec.json.encode(variables))
        except (TypeError, ValueError, OverflowError, RecursionError) as problem:
            raise EvaluationError(f"{self.text}: not JSON: {problem}") from None
        if size * _MOST_TURNS <= MOST_WORK:
            return
        longest = max(_longest(variables), self.text.count(","))
        turns = min(_MOST_TURNS, self._loops * longest ** min(self._loops, 3))
        if size * turns > MOST_WORK:
            raise EvaluationError(
                f"{self.text}: {size} bytes of data with lists of {longest} items are too much for "
                f"an expression with {self._loops} loops"
            )


@functools.lru_cache(maxsize=1024)
def compiled(text: str, variables: tuple[str, ...], field: str = "expression") -> Program:
    """Compile an expression over these variables; equal ones are compiled once.

    :raises InvalidExpression: with what the compiler says, position included
    """
    if len(text) > MOST_CHARACTERS:
        raise InvalidExpression(field, text[:40], f"at most {MOST_CHARACTERS} characters")
    if not text.isprintable() and any("\ud800" <= char <= "\udfff" for char in text):
        raise InvalidExpression(field, ascii(text), "valid Unicode")
    bare = _LITERAL.sub("", text)
    signs, commas = bare.count("+"), bare.count(",") - len(_MACRO.findall(bare))
    maps = max(len(_GROWING.findall(bare)), 1)
    if _growth(signs, maps) > MOST_GROWTH or _growth(signs + commas, maps) > MOST_COPIES:
        raise InvalidExpression(
            field,
            text,
            "an expression with fewer + or lists in it: this one makes values grow too fast",
        )
    for pattern in _MATCHES.findall(text):
        try:
            regex.compile(pattern[1:-1].replace("\\\\", "\\"), field)
        except errors.InvalidValueError as problem:
            raise InvalidExpression(field, text, problem.accepted) from None
    try:
        return Program(text, _environment(variables).compile(_bounded(text)))
    except Exception as problem:
        reason = str(problem).replace("matchRE", "matches")
        raise InvalidExpression(field, text, f"valid CEL: {reason}") from problem


def _bounded(text: str) -> str:
    """Put a bounded function in place of `matches`, of as many letters, so that columns stay."""
    parts, position = [], 0
    for literal in _LITERAL.finditer(text):
        parts += [_CALL.sub("matchRE", text[position : literal.start()]), literal.group()]
        position = literal.end()
    return "".join([*parts, _CALL.sub("matchRE", text[position:])])


def _longest(value: Any) -> int:
    """Return the length of the longest list or map."""
    if isinstance(value, Mapping):
        return max(len(value), *map(_longest, value.values()), 0)
    if isinstance(value, list):
        return max(len(value), *map(_longest, value), 0)
    return 0


def _growth(signs: int, maps: int) -> float:
    """Estimate from above how much larger than its input a value can become.

    Each ``.map`` may add what the one before it gave to itself as often as there are plus signs in
    it, or list it as often as there are commas: with P of them over M maps, that is at most
    (P/M + 1) to the power of M.
    """
    return float((max(signs, 0) / maps + 1) ** min(maps, 64))


@functools.lru_cache(maxsize=16)
def _environment(variables: tuple[str, ...]) -> Any:
    return cel.NewEnv(
        variables=dict.fromkeys(variables, cel.Type.DYN),
        # Not the library's extension for optional values: given one, an own function ends the process.
        extensions=[_kubernetes()],
    )


@functools.lru_cache(maxsize=1)
def _kubernetes() -> Any:
    """Declare Kubernetes' functions; those of one name are overloads of one declaration."""
    types = {
        "any": cel.Type.DYN,
        "bool": cel.Type.BOOL,
        "int": cel.Type.INT,
        "double": cel.Type.DOUBLE,
        "string": cel.Type.STRING,
        "list": cel.Type.LIST,
        "map": cel.Type.MAP,
    }
    overloads: dict[str, list[Any]] = {}
    for entry in (*cel_functions.FUNCTIONS, *cel_texts.FUNCTIONS):
        known = overloads.setdefault(entry.name, [])
        known.append(
            cel.Overload(
                f"tenantry_{entry.name.replace('.', '_')}_{len(known)}",
                types[entry.result],
                [types[parameter] for parameter in entry.parameters],
                is_member=entry.member,
                impl=cel_values.metered(entry.call),
            )
        )
    return cel.CelExtension(
        "kubernetes", [cel.FunctionDecl(name, each) for name, each in overloads.items()]
    )
