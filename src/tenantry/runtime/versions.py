"""The order of resourceVersions.

They are opaque by contract until Kubernetes 1.35, which promises that those of one resource can be
compared as numbers. On older hosts every question here answers "unknown", and callers fall back to
a quorum read.
"""

from __future__ import annotations

import re

#: First minor version whose resourceVersions may be compared.
COMPARABLE_FROM = (1, 35)


def comparable(major: str, minor: str) -> bool:
    """Tell whether a server of this version promises ordered resourceVersions."""
    digits = re.match(r"\d+", minor)  # some vendors write "35+"
    return (
        major.isdigit()
        and digits is not None
        and (int(major), int(digits.group())) >= COMPARABLE_FROM
    )


def number(resource_version: str) -> int | None:
    """Read a resourceVersion as a number; None when it is not one."""
    return int(resource_version) if resource_version.isdecimal() else None


def at_least(held: str, wanted: str, *, ordered: bool) -> bool:
    """Tell whether state at version `held` surely contains what was written at `wanted`."""
    if held == wanted:
        return bool(held)
    first, second = number(held), number(wanted)
    return ordered and first is not None and second is not None and first >= second


def older(first: str, second: str) -> bool:
    """Tell whether one version is older than another; what is no number is not."""
    before, after = number(first), number(second)
    return before is not None and after is not None and before < after


def went_back(held: str, seen: str) -> bool:
    """Tell whether a server shows an older version than one already seen.

    Used only to repeat a list, which is never wrong, so it does not wait for the promise of 1.35.
    """
    return older(seen, held)
