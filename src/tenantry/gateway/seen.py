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


class _Object(msgspec.Struct, gc=False):
    metadata: Seen


class _Row(msgspec.Struct, gc=False):
    object: _Object


class _Kind(msgspec.Struct, gc=False):
    kind: str = ""


class _Table(msgspec.Struct, gc=False):
    rows: list[_Row] | None = None


_OBJECT = msgspec.json.Decoder(_Object)
_ROW = msgspec.json.Decoder(_Row)
_KIND = msgspec.json.Decoder(_Kind)
_TABLE = msgspec.json.Decoder(_Table)

Json = bytes | msgspec.Raw


def is_table(found: Json) -> bool:
    """Tell whether a JSON object is a Table; what else it has means something else elsewhere.

    :raises MsgspecError: when it is no object
    """
    return _KIND.decode(found).kind == "Table"


def of_object(found: Json) -> Seen:
    """Return what there is to see of an object.

    :raises MsgspecError: when it is none
    """
    return _OBJECT.decode(found).metadata


def of_row(found: Json) -> Seen:
    """Return what there is to see of the object in a row of a Table.

    :raises MsgspecError: when there is none
    """
    return _ROW.decode(found).object.metadata


def of_each(found: Json) -> list[Seen]:
    """Return what there is to see of an object, or of each object in a Table.

    :raises MsgspecError: when it is neither
    """
    if is_table(found):
        return [row.object.metadata for row in _TABLE.decode(found).rows or ()]
    return [of_object(found)]
