"""All findings about a cluster; pure.

A part that could not be read is a finding too, never a reason to be silent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tenantry.apps.switching import installation, kinds, settings, snapshot
from tenantry.core import errors
from tenantry.tenancy.checking import findings, managed, spaces, tenants

Finding = findings.Finding


def examine(found: snapshot.Snapshot) -> list[Finding]:
    """Return everything that a switch changes, what blocks it first."""
    return findings.ordered(one for part in PARTS for one in part(found))


def blocks(found: Sequence[Finding]) -> bool:
    """Tell whether something is to be done before the switch."""
    return any(one.severity == "blocks" for one in found)


def _unread(found: snapshot.Snapshot) -> Iterator[Finding]:
    for what, why in found.problems.items():
        yield Finding(
            severity="blocks",
            kind="Check",
            name=what,
            now=f"could not be read: {why}",
            then="is not known",
            remedy="use credentials that may get and list it",
        )


def _tenancy(found: snapshot.Snapshot) -> Iterator[Finding]:
    for part in (tenants.examine, tenants.of_owners, spaces.examine, managed.examine):
        try:
            yield from part(found.tenancy)
        except errors.TenantryError as problem:
            yield Finding(
                severity="blocks",
                kind="Check",
                name=part.__module__.rpartition(".")[2],
                now=f"could not be finished: {problem}",
                then="is not known",
            )


PARTS: tuple[Callable[[snapshot.Snapshot], Iterator[Finding]], ...] = (
    _unread,
    installation.running,
    installation.hooked,
    installation.rights,
    kinds.defined,
    settings.configured,
    settings.certificate,
    _tenancy,
)
