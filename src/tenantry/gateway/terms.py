"""What is visible of one kind, as an alternative of terms. Pure.

One term that is nothing but a label selector can be given to the API server, which then filters,
pages, watches and encodes by itself. Everything else is decided by looking at each object.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

from tenantry.api import meta
from tenantry.api.capsule import common
from tenantry.core import errors as core_errors
from tenantry.core import regex, selectors

#: Matches no object whatever its labels are.
NOTHING = "tenantry.io/nothing,!tenantry.io/nothing"


@dataclasses.dataclass(frozen=True, slots=True)
class Term:
    """Objects with one of these names, or a name that the expression finds, or these labels."""

    names: frozenset[str] = frozenset()
    expression: str = ""
    selector: str = ""
    """written as for the API; empty = none"""
    matches: Callable[[Mapping[str, str]], bool] | None = dataclasses.field(
        default=None, compare=False
    )
    """the same selector as a predicate"""

    def shows(self, name: str, labels: Mapping[str, str]) -> bool:
        if name in self.names or (self.expression and regex.found(self.expression, name)):
            return True
        return self.matches is not None and self.matches(labels)


Terms = tuple[Term, ...]

EVERYTHING: Terms = (Term(matches=lambda _: True),)


def named(names: Sequence[str] | frozenset[str]) -> Terms:
    """Return the term for listed names."""
    return (Term(frozenset(names)),) if names else ()


def labelled(selector: meta.LabelSelector) -> Terms:
    """Return the term for a selector; none when it is invalid or selects by nothing."""
    return _labelled(
        tuple(sorted(selector.match_labels.items())),
        tuple((e.key, e.operator, tuple(e.values)) for e in selector.match_expressions),
    )


@functools.lru_cache(maxsize=4096)
def _labelled(
    labels: tuple[tuple[str, str], ...],
    expressions: tuple[tuple[str, str, tuple[str, ...]], ...],
) -> Terms:
    if not labels and not expressions:
        return ()
    plain = {
        "matchLabels": dict(labels),
        "matchExpressions": [
            {"key": key, "operator": operator, "values": list(values)}
            for key, operator, values in expressions
        ],
    }
    try:
        matches = selectors.matcher(plain)
    except core_errors.InvalidValueError:
        return ()
    written = [f"{key}={value}" for key, value in labels]
    for key, operator, values in expressions:
        match operator:
            case "In":
                written.append(f"{key} in ({','.join(sorted(values))})")
            case "NotIn":
                written.append(f"{key} notin ({','.join(sorted(values))})")
            case "Exists":
                written.append(key)
            case _:
                written.append(f"!{key}")
    return (Term(selector=",".join(written), matches=matches),)


def allowed(entry: common.DefaultAllowedList | common.SelectorAllowedList | None) -> Terms:
    """Return the terms of what a tenant may use."""
    if entry is None:
        return ()
    names = set(entry.allowed)
    default = getattr(entry, "default", "")
    if default:
        names.add(default)
    found: Terms = ()
    if names or entry.allowed_regex:
        found += (Term(frozenset(names), entry.allowed_regex),)
    return found + labelled(
        meta.LabelSelector(
            match_labels=entry.match_labels, match_expressions=entry.match_expressions
        )
    )


def selector(terms: Terms) -> str | None:
    """Return the terms as one label selector, None when that cannot say it."""
    different = set(terms)
    if not different:
        return NOTHING
    if EVERYTHING[0] in different:
        return ""
    if len(different) == 1:
        (term,) = different
        if term.selector and not term.names and not term.expression:
            return term.selector
    return None


def shows(terms: Terms, name: str, labels: Mapping[str, str]) -> bool:
    """Tell whether one of the terms shows an object."""
    return any(term.shows(name, labels) for term in terms)
