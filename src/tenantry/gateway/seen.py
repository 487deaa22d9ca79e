"""What the gateway looks at of an object before it shows it."""

from __future__ import annotations

import msgspec

from tenantry.api import meta


class Seen(msgspec.Struct, gc=False):
    """Parts of an object's metadata."""

    name: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    owner_references: list[meta.OwnerReference] | None = msgspec.field(
        default=None, name="ownerReferences"
    )
