"""What code needs to be allowed, said beside the code, and the RBAC rules that follow from it.

A module that calls the API declares `NEEDS`; the roles under `deploy/` are made from these, so a
permission cannot outlive the code that needed it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tenantry.api import resources

READ = ("list", "watch")
APPLY = ("create", "patch")


@dataclass(frozen=True, slots=True)
class Need:
    """Verbs on one resource.

    :param own: only in the platform's own namespace
    :param names: only objects of these names; empty = any
    """

    resource: resources.Resource
    verbs: tuple[str, ...]
    subresource: str = ""
    own: bool = False
    names: tuple[str, ...] = ()


def rules(needs: Iterable[Need]) -> list[dict[str, Any]]:
    """Return PolicyRules, one per resource and set of names, in a stable order."""
    verbs: dict[tuple[str, str, tuple[str, ...]], set[str]] = {}
    for need in needs:
        name = need.resource.plural + (f"/{need.subresource}" if need.subresource else "")
        verbs.setdefault((need.resource.group, name, need.names), set()).update(need.verbs)
    return [
        {
            "apiGroups": [group],
            "resources": [name],
            **({"resourceNames": list(names)} if names else {}),
            "verbs": sorted(found),
        }
        for (group, name, names), found in sorted(verbs.items())
    ]


def split(needs: Sequence[Need]) -> tuple[list[Need], list[Need]]:
    """Return the needs everywhere, and those in the platform's own namespace."""
    return [n for n in needs if not n.own], [n for n in needs if n.own]
