"""Matchers that Tenants are compiled to: expressions, lists of names, keys of metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenantry.api.capsule import common
from tenantry.core import errors, regex, selectors

Render = Callable[[str], str]


def as_written(text: str) -> str:
    """Return a text that holds no template."""
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """One ExpressionMatch: listed values, or a regular expression that finds a match anywhere."""

    exact: frozenset[str] = frozenset()
    pattern: Any = None
    negate: bool = False
    words: str = ""

    def matches(self, value: str) -> bool:
        """Compare one value."""
        return self.matches_any((value,))

    def matches_any(self, forms: Iterable[str]) -> bool:
        """Compare a value that can be written in several ways; negation applies to all of them."""
        found = any(
            form in self.exact or (self.pattern is not None and self.pattern.search(form))
            for form in forms
        )
        return bool(found) != self.negate


def expression(
    found: common.ExpressionMatch, field: str, render: Render = as_written
) -> Expression:
    """Compile an ExpressionMatch.

    :raises InvalidValueError: when the expression, or a template in it, is not valid
    """
    exact = [render(value) for value in found.exact]
    pattern = render(found.exp) if found.exp else ""
    return Expression(
        exact=frozenset(exact),
        pattern=regex.compile(pattern, f"{field}.exp") if pattern else None,
        negate=found.negate,
        words=described(exact, pattern, negate=found.negate),
    )


def described(exact: Sequence[str], pattern: str, *, negate: bool = False) -> str:
    """Describe an expression as refusals do."""
    parts = [f"exact: {', '.join(exact)}"] if exact else []
    if pattern:
        parts.append(f"exp: {pattern}")
    return ("not " if negate else "") + "; ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What may be used: listed, matched, selected by labels, or the default.

    Absent parts match nothing: a list without a selector does not admit everything.
    """

    allowed: frozenset[str] = frozenset()
    pattern: Any = None
    selector: Callable[[Mapping[str, str]], bool] | None = None
    default: str = ""
    words: str = ""

    @property
    def limits(self) -> bool:
        """Whether anything is limited at all; a default alone is none."""
        return bool(self.allowed) or self.pattern is not None or self.selector is not None

    def matches(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """Compare a name; the labels are None for what does not exist."""
        if name == self.default or name in self.allowed:
            return bool(name)
        if self.pattern is not None and self.pattern.search(name) is not None:
            return True
        return self.selector is not None and labels is not None and self.selector(labels)


def names(found: common.AllowedList, field: str) -> Names:
    """Compile a list of what may be used.

    :raises InvalidValueError: when its expression or selector is not valid
    """
    written = found.allowed_regex
    plain: dict[str, Any] = {}
    if isinstance(found, common.SelectorAllowedList):
        if found.match_labels:
            plain["matchLabels"] = found.match_labels
        if found.match_expressions:
            plain["matchExpressions"] = [
                {"key": one.key, "operator": one.operator, "values": one.values}
                for one in found.match_expressions
            ]
    default = found.default if isinstance(found, common.DefaultAllowedList) else ""
    return Names(
        allowed=frozenset(found.allowed),
        pattern=regex.compile(written, f"{field}.allowedRegex") if written else None,
        selector=selectors.matcher(plain, field) if plain else None,
        default=default,
        words=_names_words(found, default, plain),
    )


def _names_words(found: common.AllowedList, default: str, plain: Mapping[str, Any]) -> str:
    parts = []
    if default:
        parts.append(f"use the default {default}")
    if found.allowed:
        parts.append(f"use one from the following list ({', '.join(found.allowed)})")
    if found.allowed_regex:
        parts.append(f"use one matching the following regex ({found.allowed_regex})")
    if plain:
        parts.append(f"use one with labels matching the selector ({_selector_words(plain)})")
    return " or ".join(parts) or "none is allowed"


def _selector_words(plain: Mapping[str, Any]) -> str:
    parts = [f"{key}={value}" for key, value in sorted((plain.get("matchLabels") or {}).items())]
    for one in plain.get("matchExpressions") or ():
        values = f" ({', '.join(one['values'])})" if one["values"] else ""
        parts.append(f"{one['key']} {one['operator']}{values}")
    return ", ".join(parts)


def problem_of(error: errors.TenantryError) -> str:
    """Return what a broken clause says of itself."""
    return str(error)
