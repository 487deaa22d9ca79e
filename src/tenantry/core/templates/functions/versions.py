"""Semantic versions and the constraints that sprig knows."""

from __future__ import annotations

import itertools
import re
from typing import Any

from tenantry.core.templates import budget, errors, values
from tenantry.core.templates.functions import registry

_VERSION = re.compile(
    r"v?([0-9]{1,19})(?:\.([0-9]{1,19}))?(?:\.([0-9]{1,19}))?"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
)
_PATTERN = (
    r"v?([0-9]{1,19}|[xX*])(?:\.([0-9]{1,19}|[xX*]))?(?:\.([0-9]{1,19}|[xX*]))?"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_OPERATORS = r"(?:=>|=<|>=|<=|!=|~>|[=<>~^])"
_RANGE = re.compile(rf"\s*({_PATTERN})\s+-\s+({_PATTERN})\s*")
_ONE = re.compile(rf"({_OPERATORS}?)\s*({_PATTERN})")
_ALL = re.compile(rf"\s*{_OPERATORS}?\s*{_PATTERN}\s*(?:[,\s]\s*{_OPERATORS}?\s*{_PATTERN}\s*)*")
_WILD = frozenset("xX*")


class Version(values.Opaque):
    """A version as semver.org describes it; parts that are not written are 0."""

    type_name = "*semver.Version"

    def __init__(self, text: str) -> None:
        match = _VERSION.fullmatch(text) if len(text) <= 256 else None
        if match is None:
            raise errors.Failure("invalid semantic version; accepted: 1, 1.2, v1.2.3-beta.1+build")
        numbers = [int(part or 0) for part in match.groups()[:3]]
        self.numbers = tuple(numbers)
        self.prerelease = match[4] or ""
        for part in self.prerelease.split("."):
            if part.isdigit() and len(part) > 1 and part[0] == "0":
                raise errors.Failure("invalid semantic version: a number begins with 0")
        self.metadata = match[5] or ""
        names = ("Major", "Minor", "Patch")
        self.attributes = {
            **{name: values.Uint64(part) for name, part in zip(names, numbers, strict=True)},
            "Prerelease": self.prerelease,
            "Metadata": self.metadata,
            "Original": text,
            "String": str(self),
        }

    def __str__(self) -> str:
        text = ".".join(map(str, self.numbers))
        text += f"-{self.prerelease}" if self.prerelease else ""
        return text + (f"+{self.metadata}" if self.metadata else "")

    def json(self) -> str:
        return str(self)


def order(left: Version, right: Version) -> int:
    """Compare by precedence: -1, 0 or 1."""
    if left.numbers != right.numbers:
        return -1 if left.numbers < right.numbers else 1
    if left.prerelease == right.prerelease:
        return 0
    if not left.prerelease or not right.prerelease:
        return 1 if not left.prerelease else -1
    pairs = itertools.zip_longest(left.prerelease.split("."), right.prerelease.split("."))
    for first, second in pairs:
        if first == second:
            continue
        if first is None or second is None:
            return -1 if first is None else 1
        if first.isdigit() and second.isdigit():
            return -1 if int(first) < int(second) else 1
        if first.isdigit() != second.isdigit():
            return -1 if first.isdigit() else 1
        return -1 if first < second else 1
    return 0


class _Constraint:
    """One operator with a version, some parts of which may be wild."""

    def __init__(self, operator: str, text: str) -> None:
        self.operator = {"=>": ">=", "=<": "<=", "~>": "~"}.get(operator, operator)
        match = re.fullmatch(_PATTERN, text)
        if match is None:
            raise errors.Failure(f"not a version: {text}")
        written = [
            None if part is None or part in _WILD else int(part) for part in match.groups()[:3]
        ]
        # What follows a wild part is wild too.
        wild = written.index(None) if None in written else 3
        self.known = [part for part in written[:wild] if part is not None]
        self.explicit = any(part in _WILD for part in match.groups()[:3] if part)
        numbers = self.known + [0] * (3 - len(self.known))
        prerelease = match[4] or ""
        self.version = Version(
            ".".join(map(str, numbers)) + (f"-{prerelease}" if prerelease else "")
        )

    def accepts(self, version: Version) -> bool:
        # A version before a release is meant only by who names one.
        if version.prerelease and not self.version.prerelease:
            return False
        compared = order(version, self.version)
        wild = len(self.known) < 3
        same = list(version.numbers[: len(self.known)]) == self.known
        match self.operator:
            case "" | "=":
                return same if wild else compared == 0
            case "!=":
                return not same if wild else compared != 0
            case ">":
                return compared > 0 and not (wild and same)
            case "<":
                return compared < 0
            case ">=":
                return compared >= 0
            case "<=":
                return compared <= 0 or (wild and same)
            case "~":
                count = 1 if len(self.known) == 1 else 2
                same = list(version.numbers[:count]) == self.known[:count]
                return not self.known or (compared >= 0 and same)
            case _:
                return compared >= 0 and self._same_leading(version)

    def _same_leading(self, version: Version) -> bool:
        """Caret: nothing may change up to the first part that is not 0."""
        if not self.known:
            # Nothing named is 0.0.0, and behind a caret that may not change.
            return not any(version.numbers)
        for index, part in enumerate(self.known):
            if version.numbers[index] != part:
                return False
            if part > 0:
                return True
        return True


@registry.function("semver", "string")
def _semver(_: budget.Budget, text: str) -> Version:
    return Version(text)


@registry.function("semverCompare", "string string")
def _semver_compare(counted: budget.Budget, constraint: str, text: str) -> bool:
    counted.read(16 * len(constraint))
    if len(constraint) > 512:
        raise errors.Failure("a constraint may have at most 512 characters")
    alternatives = [_alternative(part) for part in constraint.split("||")]
    version = Version(text)
    return any(all(each.accepts(version) for each in parts) for parts in alternatives)


def _alternative(text: str) -> list[_Constraint]:
    # 1.2 - 1.4 is short for both ends.
    text = _RANGE.sub(lambda match: f">={match[1]} <={match[6]}", text)
    if _ALL.fullmatch(text) is None:
        raise errors.Failure(
            f"not a constraint: {text.strip()!r}; accepted: >=1.2, <2 || ~1.4 || ^3 || 1.x || 1 - 2"
        )
    return [_Constraint(match[1], match[2]) for match in _ONE.finditer(text)]


def parse(text: str) -> Any:
    """Return a version for other languages than templates; raises Failure."""
    return Version(text)
