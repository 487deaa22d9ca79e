"""The functions that Go's text/template has by itself; `call` is left out, as JSON has no functions."""

from __future__ import annotations

import operator
import urllib.parse
from collections.abc import Callable
from typing import Any

from tenantry.core.templates import budget, errors, printing, values
from tenantry.core.templates.functions import numbers, registry

_HTML = str.maketrans(
    {"<": "&lt;", ">": "&gt;", "&": "&amp;", "'": "&#39;", '"': "&#34;", "\0": "\ufffd"}
)
_JS = {
    "\\": "\\\\", "'": "\\'", '"': '\\"', "<": "\\u003C", ">": "\\u003E", "&": "\\u0026",
    "=": "\\u003D",
}  # fmt: skip


# The compiler evaluates these two itself, because they do not look at all their arguments.
@registry.function("and or", "value value...")
def _logic(_: budget.Budget, *arguments: Any) -> Any:
    return arguments[-1]


@registry.function("not", "value")
def _not(_: budget.Budget, value: Any) -> bool:
    return not values.true(value)


@registry.function("print", "any...")
def _print(counted: budget.Budget, *arguments: Any) -> str:
    return printing.joined(arguments, counted)


@registry.function("println", "any...")
def _println(counted: budget.Budget, *arguments: Any) -> str:
    return printing.line(arguments, counted)


@registry.function("printf", "string any...")
def _printf(counted: budget.Budget, layout: str, *arguments: Any) -> str:
    return printing.formatted(layout, arguments, counted)


@registry.function("html", "any...")
def _html(counted: budget.Budget, *arguments: Any) -> str:
    text = _text(arguments, counted)
    counted.make(5 * len(text))
    return text.translate(_HTML)


@registry.function("js", "any...")
def _js(counted: budget.Budget, *arguments: Any) -> str:
    text = _text(arguments, counted)
    counted.make(6 * len(text))
    return "".join(_js_escaped(char) for char in text)


def _js_escaped(char: str) -> str:
    if char in _JS:
        return _JS[char]
    if char < " ":
        return f"\\u{ord(char):04X}"
    if char < "\x7f" or char.isprintable():
        return char
    return f"\\u{ord(char):04X}"


@registry.function("urlquery", "any...")
def _urlquery(counted: budget.Budget, *arguments: Any) -> str:
    text = _text(arguments, counted)
    counted.make(3 * len(text))
    return urllib.parse.quote_plus(values.utf8(text), safe="~")


def _text(arguments: tuple[Any, ...], counted: budget.Budget) -> str:
    if len(arguments) == 1 and isinstance(arguments[0], str):
        return arguments[0]
    shown = ["<no value>" if each is None else each for each in arguments]
    return printing.joined(shown, counted)


@registry.function("len", "value")
def _len(_: budget.Budget, value: Any) -> int:
    if isinstance(value, str):
        return values.Int(values.size(value))
    if isinstance(value, (list, dict)):
        return values.Int(len(value))
    raise errors.Failure(f"a value of type {values.type_name(value)} has no length")


@registry.function("index", "value value...")
def _index(_: budget.Budget, value: Any, *keys: Any) -> Any:
    if value is values.MISSING:
        raise errors.Failure("there is nothing to index")
    for key in keys:
        value = _indexed(value, key)
    return value


def _indexed(value: Any, key: Any) -> Any:
    if isinstance(value, dict):
        if not isinstance(key, str):
            raise errors.Failure(f"a map is indexed by a string, found {values.type_name(key)}")
        return value.get(key, "" if isinstance(value, values.StringMap) else None)
    if isinstance(value, str):
        data = values.utf8(value)
        return values.Uint8(data[_place(key, len(data) - 1)])
    if isinstance(value, list):
        return value[_place(key, len(value) - 1)]
    raise errors.Failure(f"a value of type {values.type_name(value)} cannot be indexed")


def _place(key: Any, last: int) -> int:
    if not isinstance(key, int) or isinstance(key, bool):
        raise errors.Failure(f"expected a whole number as index, found {values.type_name(key)}")
    if not 0 <= key <= last:
        raise errors.Failure(f"index out of range: {int(key)}; accepted: 0 to {last}")
    return int(key)


@registry.function("slice mustSlice", "value value...")
def _slice(counted: budget.Budget, value: Any, *bounds: Any) -> Any:
    """Serve both Go's slice of a text and sprig's slice of a list."""
    if isinstance(value, str):
        data = values.utf8(value)
        start = _place(bounds[0], len(data)) if bounds else 0
        end = _place(bounds[1], len(data)) if len(bounds) > 1 else len(data)
        if start > end or len(bounds) > 2:
            raise errors.Failure(f"invalid slice of a text: {start} > {end}")
        counted.make(end - start)
        return values.from_utf8(data[start:end])
    if not isinstance(value, list):
        raise errors.Failure(f"a value of type {values.type_name(value)} cannot be sliced")
    if not value:
        return None
    places = [_place(numbers.whole(bound), len(value)) for bound in bounds[:2]]
    start, end = (*places, 0, len(value))[:2] if not places else (*places, len(value))[:2]
    if start > end:
        raise errors.Failure(f"invalid slice of a list: {start} > {end}")
    counted.make(end - start)
    return type(value)(value[start:end])


@registry.function("eq", "value value...")
def _eq(counted: budget.Budget, value: Any, *others: Any) -> bool:
    if not others:
        raise errors.Failure("missing argument for comparison")
    return any(_equal(value, other, counted) for other in others)


@registry.function("ne", "value value")
def _ne(counted: budget.Budget, left: Any, right: Any) -> bool:
    return not _equal(left, right, counted)


def _equal(left: Any, right: Any, counted: budget.Budget) -> bool:
    first, second = values.basic_kind(left), values.basic_kind(right)
    if isinstance(left, str):
        counted.read(len(left))
    if first != second:
        if {first, second} == {"int", "uint"}:
            return bool(left == right)
        if left is not values.MISSING and right is not values.MISSING:
            raise _incomparable(left, right)
        return False
    if first:
        return bool(left == right)
    if left is values.MISSING or right is values.MISSING:
        # Go asks of a list or a map only whether it is nil, which ours never is.
        return left is right
    raise _incomparable(left, right)


def _incomparable(left: Any, right: Any) -> errors.Failure:
    return errors.Failure(
        f"cannot compare {values.type_name(left)} with {values.type_name(right)}; "
        "accepted: two texts, two bools or two numbers of the same kind"
    )


def _ordered(
    compare: Callable[[Any, Any], bool],
) -> Callable[[budget.Budget, Any, Any], bool]:
    def ordered(counted: budget.Budget, left: Any, right: Any) -> bool:
        first, second = values.basic_kind(left), values.basic_kind(right)
        if isinstance(left, str):
            counted.read(len(left))
        comparable = first == second or {first, second} == {"int", "uint"}
        if not first or first == "bool" or not comparable:
            raise _incomparable(left, right)
        return compare(left, right)

    return ordered


registry.function("lt", "value value")(_ordered(operator.lt))
registry.function("le", "value value")(_ordered(operator.le))
registry.function("gt", "value value")(_ordered(operator.gt))
registry.function("ge", "value value")(_ordered(operator.ge))
