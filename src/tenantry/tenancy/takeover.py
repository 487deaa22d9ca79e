"""Take over from Capsule: what it has written and nobody wants any longer must vanish.

Server-side apply removes only what the applying manager owns. Capsule writes by `Update`, so its
keys would stay for ever if its share were not made ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.api.capsule import constants
from tenantry.api.resources import Resource
from tenantry.runtime import apply, fields
from tenantry.tenancy import metadata

Object = Mapping[str, Any]

#: Managers that are Capsule and nobody else.
CAPSULE = ("capsule", constants.FIELD_MANAGER)

#: Where a program does not choose, the manager is the name of its file. Capsule's was `manager`
#: in early releases, then `capsule`, and is `cmd` since it is built from that folder; but other
#: programs are called so as well. These count only on what nobody but Capsule writes.
ALIKE = ("cmd", "manager")


async def adopt(
    applier: apply.Applier, resource: Resource, observed: Object | None, *, subresource: str = ""
) -> None:
    """Make Capsule's share of an object ours; only for what nobody but Capsule writes.

    The write is an event, so what is no longer wanted goes with the next apply at the latest.
    """
    if observed is not None:
        await applier.adopt(resource, observed, (*CAPSULE, *ALIKE), subresource=subresource)


def is_settled(desired: Object, observed: Object | None, *, subresource: str = "") -> bool:
    """Tell whether an object is as wanted, and nothing of it is Capsule's; pure."""
    return (
        observed is not None
        and fields.adopt_fields(
            observed, (*CAPSULE, *ALIKE), constants.FIELD_MANAGER, subresource=subresource
        )
        is None
        and not fields.differs(desired, observed, constants.FIELD_MANAGER, subresource=subresource)
    )


def managed_keys(observed: Object, recorded: metadata.Metadata) -> tuple[set[str], set[str]]:
    """Return the keys of labels and of annotations that we or Capsule put on a namespace; pure.

    :param recorded: what its tenant's status says that was put there; it tells Capsule from
        others whose programs have the same name
    """
    labels, annotations = set[str](), set[str]()
    mine = fields.owned(observed, constants.FIELD_MANAGER) or {}
    shares = [(mine, True)]
    for entry in (observed.get("metadata") or {}).get("managedFields") or ():
        manager = entry.get("manager")
        if entry.get("operation") == "Update" and manager in (*CAPSULE, *ALIKE):
            shares.append((entry.get("fieldsV1") or {}, manager in CAPSULE))
    for share, certain in shares:
        for part, known, found in (
            ("f:labels", recorded.labels, labels),
            ("f:annotations", recorded.annotations, annotations),
        ):
            owned = (share.get("f:metadata") or {}).get(part) or {}
            keys = {field.removeprefix("f:") for field in owned if field != "."}
            found |= keys if certain else keys & known.keys()
    return labels, annotations
