"""Just enough of protobuf to take lists apart, look at objects' metadata and join lists. Pure.

Field numbers are those of Kubernetes' own types. What is not exactly as expected is no protobuf.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from tenantry.api import meta
from tenantry.gateway import seen

MAGIC = b"k8s\x00"
MEDIA_TYPE = b"application/vnd.kubernetes.protobuf"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
#: Fields of runtime.Unknown, of TypeMeta, and of every list.
_TYPE, _RAW = 1, 2
_API_VERSION, _KIND = 1, 2
_META, _ITEMS = 1, 2
_VERSION, _CONTINUE, _REMAINING = 2, 3, 4
#: Fields of ObjectMeta, of its owner references, and of an entry of a map.
_NAME, _UID, _OBJECT_VERSION, _LABELS, _ANNOTATIONS, _OWNERS = 1, 5, 6, 11, 12, 13
_OWNER_KIND, _OWNER_NAME, _OWNER_UID, _OWNER_API_VERSION = 1, 3, 4, 5
_KEY, _VALUE = 1, 2
#: Fields of WatchEvent, of the RawExtension in it, and of Status.
_EVENT_TYPE, _EVENT_OBJECT = 1, 2
_EXTENSION_RAW = 1
_STATUS, _MESSAGE, _REASON, _CODE = 2, 3, 4, 6


@dataclasses.dataclass(slots=True)
class List:
    """A list taken apart."""

    api_version: str
    kind: str
    version: str
    more: str
    """from where the next page begins; empty at the end"""
    items: list[bytes]


def is_it(body: bytes) -> bool:
    """Tell whether a body is an object in this form."""
    return body.startswith(MAGIC)


def parse_list(body: bytes) -> List:
    """Take a list apart.

    :raises ValueError: when it is none
    """
    api_version, kind, raw = _unwrapped(body)
    found = List(api_version, kind, "", "", [])
    for number, value in _fields(raw):
        if number == _ITEMS:
            found.items.append(_text(value))
        elif number == _META:
            for key, content in _fields(_text(value)):
                if key == _VERSION:
                    found.version = _text(content).decode()
                elif key == _CONTINUE:
                    found.more = _text(content).decode()
    return found


def write_list(found: List) -> bytes:
    """Write a list. How many objects are left is never said: some of them are not shown."""
    metadata = _field(_VERSION, found.version.encode()) if found.version else b""
    if found.more:
        metadata += _field(_CONTINUE, found.more.encode())
    raw = b"".join((_field(_META, metadata), *(_field(_ITEMS, item) for item in found.items)))
    return _wrapped(found.api_version, found.kind, raw)


def of_object(body: bytes) -> seen.Seen:
    """Return what there is to see of one object.

    :raises ValueError: when it is none
    """
    return of_item(_unwrapped(body)[2])


def of_item(item: bytes) -> seen.Seen:
    """Return what there is to see of an item of a list.

    :raises ValueError: when it is no object
    """
    metadata = [_text(value) for number, value in _fields(item) if number == _META]
    if len(metadata) != 1:
        raise ValueError("an object has its metadata once")
    found = seen.Seen(labels={}, owner_references=[])
    assert found.labels is not None
    assert found.owner_references is not None
    for number, value in _fields(metadata[0]):
        if number == _NAME:
            found.name = _text(value).decode()
        elif number == _UID:
            found.uid = _text(value).decode()
        elif number == _LABELS:
            entry = _strings(_text(value))
            found.labels[entry.get(_KEY, "")] = entry.get(_VALUE, "")
        elif number == _OWNERS:
            owner = _strings(_text(value))
            found.owner_references.append(
                meta.OwnerReference(
                    api_version=owner.get(_OWNER_API_VERSION, ""),
                    kind=owner.get(_OWNER_KIND, ""),
                    name=owner.get(_OWNER_NAME, ""),
                    uid=owner.get(_OWNER_UID, ""),
                )
            )
    return found


def parse_event(event: bytes) -> tuple[str, bytes]:
    """Take an event of a watch apart into its type and object, which is wrapped.

    :raises ValueError: when it is none
    """
    kinds, objects = [], []
    for number, value in _fields(event):
        if number == _EVENT_TYPE:
            kinds.append(_text(value).decode())
        elif number == _EVENT_OBJECT:
            objects += [_text(raw) for key, raw in _fields(_text(value)) if key == _EXTENSION_RAW]
    if len(kinds) != 1 or len(objects) != 1:
        raise ValueError("an event has one type and one object")
    return kinds[0], objects[0]


def write_event(kind: str, wrapped: bytes) -> bytes:
    """Write an event of a watch."""
    extension = _field(_EXTENSION_RAW, wrapped)
    return _field(_EVENT_TYPE, kind.encode()) + _field(_EVENT_OBJECT, extension)


def write_status(message: str, code: int, reason: str) -> bytes:
    """Write a Status that tells a failure."""
    raw = b"".join(
        (
            _field(_META, b""),
            _field(_STATUS, b"Failure"),
            _field(_MESSAGE, message.encode()),
            _field(_REASON, reason.encode()),
            _number(_CODE << 3 | _VARINT) + _number(code),
        )
    )
    return _wrapped("v1", "Status", raw)


def mark(wrapped: bytes) -> tuple[str, dict[str, str]]:
    """Return version and annotations of an object.

    :raises ValueError: when it is none
    """
    version, annotations = "", {}
    for number, value in _fields(_unwrapped(wrapped)[2]):
        if number != _META:
            continue
        for key, content in _fields(_text(value)):
            if key == _OBJECT_VERSION:
                version = _text(content).decode()
            elif key == _ANNOTATIONS:
                entry = _strings(_text(content))
                annotations[entry.get(_KEY, "")] = entry.get(_VALUE, "")
    return version, annotations


def _wrapped(api_version: str, kind: str, raw: bytes) -> bytes:
    types = _field(_API_VERSION, api_version.encode()) + _field(_KIND, kind.encode())
    return MAGIC + _field(_TYPE, types) + _field(_RAW, raw) + _field(3, b"") + _field(4, b"")


def _unwrapped(body: bytes) -> tuple[str, str, bytes]:
    if not is_it(body):
        raise ValueError("not an object of Kubernetes")
    api_version, kind, raw = "", "", b""
    for number, value in _fields(body[len(MAGIC) :]):
        if number == _TYPE:
            found = _strings(_text(value))
            api_version, kind = found.get(_API_VERSION, ""), found.get(_KIND, "")
        elif number == _RAW:
            raw = _text(value)
    return api_version, kind, raw


def _strings(message: bytes) -> dict[int, str]:
    return {
        number: value.decode() for number, value in _fields(message) if isinstance(value, bytes)
    }


def _text(value: bytes | int) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where there should be bytes")  # noqa: TRY004
    return value


def _fields(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Yield number and value of each field.

    :raises ValueError: when the message is cut short or not protobuf
    """
    at, end = 0, len(message)
    while at < end:
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == _BYTES:
            size, at = _varint(message, at)
            if size > end - at:
                raise ValueError("field is cut short")
            yield number, message[at : at + size]
            at += size
        elif kind == _VARINT:
            value, at = _varint(message, at)
            yield number, value
        elif kind in {_FIXED32, _FIXED64}:
            at += 4 if kind == _FIXED32 else 8
            if at > end:
                raise ValueError("field is cut short")
            yield number, 0
        else:
            raise ValueError(f"wire type {kind}")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        if at >= len(message):
            raise ValueError("number is cut short")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("number is too long")


def _field(number: int, content: bytes) -> bytes:
    return _number(number << 3 | _BYTES) + _number(len(content)) + content


def _number(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def joined(parts: Sequence[List], *, version: str, more: str) -> bytes:
    """Return the list of all items."""
    first = parts[0]
    items = [item for part in parts for item in part.items]
    return write_list(List(first.api_version, first.kind, version, more, items))
