"""Keys of labels and annotations that may not be set: of namespaces, Services and nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.api.capsule import common
from tenantry.core import regex

Strings = Mapping[str, str]

LABELS = "labels"
ANNOTATIONS = "annotations"


def of(obj: Mapping[str, Any] | None, part: str) -> Strings:
    """Return labels or annotations of an object."""
    found: Strings = ((obj or {}).get("metadata") or {}).get(part) or {}
    return found


def added(before: Strings, after: Strings) -> list[str]:
    """Return the keys that a change sets, to whatever."""
    return sorted(key for key, value in after.items() if before.get(key) != value)


def changed(before: Strings, after: Strings) -> list[str]:
    """Return the keys that a change sets or removes."""
    return sorted(key for key in {*before, *after} if before.get(key) != after.get(key))


def is_forbidden(rule: common.Forbidden, key: str) -> bool:
    """Tell whether a key is one of those; an expression that cannot be read forbids all.

    It was stored before it was checked, and nobody knows which keys it meant.
    """
    return key in rule.denied or regex.found(rule.denied_regex, key, unreadable=True)


def words(rule: common.Forbidden) -> str:
    """Say what is forbidden."""
    return (
        f"Forbidden are one of the following ({', '.join(rule.denied)}) or matching the regex "
        f"{rule.denied_regex}"
    ).rstrip()
