"""One thing that a switch from Capsule to Tenantry changes, in words that are safe to print."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Literal

from tenantry.core import errors

#: `blocks`: to be dealt with before Tenantry starts, else something breaks or is no longer held.
#: `changes`: the switch makes a difference. `note`: good to know, nothing to do.
Severity = Literal["blocks", "changes", "note"]
SEVERITIES: tuple[Severity, ...] = ("blocks", "changes", "note")

#: Letters of one text; a tenant's objects may hold a megabyte.
LONGEST = 600
#: Names that a text lists before it only counts, and findings of one kind about one object.
MOST_NAMES, MOST_OF_ONE = 5, 10


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is now, what will be, and what to do about it."""

    severity: Severity
    kind: str
    name: str
    namespace: str = ""
    #: Path of the field, "" for the object as a whole.
    field: str = ""
    now: str
    then: str
    #: What to do; "" when nothing is to be done.
    remedy: str = ""

    def __post_init__(self) -> None:
        # What people wrote into their objects must not steer the terminal it is shown on.
        for each in dataclasses.fields(self):
            object.__setattr__(self, each.name, printable(getattr(self, each.name)))

    @property
    def place(self) -> str:
        """Return kind, namespace and name as one word."""
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {where}{self.name}"


def printable(text: str) -> str:
    """Return a text without control characters, line ends and marks of writing direction."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST - 3]}..."
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )


def ordered(found: Iterable[Finding]) -> list[Finding]:
    """Sort by weight, then by object."""
    return sorted(
        found,
        key=lambda one: (
            SEVERITIES.index(one.severity), one.kind, one.namespace, one.name, one.field, one.now,
        ),
    )  # fmt: skip


def listed(names: Iterable[str]) -> str:
    """Write names, all when they are few."""
    known = sorted(set(names))
    more = f" and {len(known) - MOST_NAMES} more" if len(known) > MOST_NAMES else ""
    return ", ".join(known[:MOST_NAMES]) + more


def count(number: int, noun: str, plural: str = "") -> str:
    """Write "1 tenant", "2 tenants"."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def some(problems: Sequence[str]) -> list[str]:
    """Return the first problems of one object, and how many more there are."""
    if len(problems) <= MOST_OF_ONE:
        return list(problems)
    return [*problems[:MOST_OF_ONE], f"and {len(problems) - MOST_OF_ONE} more like these"]


def quoted(value: object) -> str:
    """Quote a value from an object."""
    return errors.shown(value)
