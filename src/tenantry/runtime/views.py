"""From the wire to the cache: the identity of an object, a line of a watch, and ready-made views."""

from __future__ import annotations

import re
import sys
from typing import Any

import msgspec

from tenantry.kube import watch as kube_watch
from tenantry.runtime import reflector


class _Meta(msgspec.Struct, rename="camel", gc=False):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Head(msgspec.Struct, gc=False):
    metadata: _Meta


_HEAD = msgspec.json.Decoder(_Head)
_DICT = msgspec.json.Decoder(dict[str, Any])


#: How the API server begins objects; reading it saves a pass over the whole object.
_IDENTITY = (
    rb'\{(?:"kind":"\w+","apiVersion":"[\w./-]+",)?"metadata":\{"name":"([^"\\]+)"'
    rb'(?:,"generateName":"[^"\\]*")?(?:,"namespace":"([^"\\]+)")?'
    rb',"uid":"([^"\\]+)","resourceVersion":"(\d+)"'
)
_BEGINNING = re.compile(_IDENTITY)
#: The same at the beginning of a change.
_CHANGE = re.compile(rb'\{"type":"(ADDED|MODIFIED|DELETED)","object":' + _IDENTITY)
_BEFORE = b'","object":'
_KINDS: dict[bytes, kube_watch.Change] = {
    b"ADDED": "ADDED",
    b"MODIFIED": "MODIFIED",
    b"DELETED": "DELETED",
}


def item(raw: bytes) -> reflector.Item:
    """Read an object's identity."""
    found = _BEGINNING.match(raw)
    if found is not None:
        name, namespace, uid, version = found.groups(b"")
        return reflector.Item(
            (sys.intern(namespace.decode()), name.decode()), uid.decode(), version.decode(), raw
        )
    metadata = _HEAD.decode(raw).metadata
    return reflector.Item(
        (metadata.namespace, metadata.name), metadata.uid, metadata.resource_version, raw
    )


def changed(line: bytes) -> tuple[kube_watch.Change, reflector.Item] | None:
    """Read a line of a watch that tells a change as nearly all do; None: ask `what_happened`."""
    found = _CHANGE.match(line)
    if found is None or not line.endswith(b"}}"):
        change = kube_watch.change(line)
        return None if change is None else (change[0], item(change[1]))
    kind, name, namespace, uid, version = found.groups(b"")
    raw = line[found.end(1) + len(_BEFORE) : -1]
    key = sys.intern(namespace.decode()), name.decode()
    return _KINDS[kind], reflector.Item(key, uid.decode(), version.decode(), raw)


def what_happened(line: bytes) -> reflector.Input:
    """Turn a line of a watch into an input of the reflector.

    :raises ApiError: the one that an ERROR line carries
    """
    event = kube_watch.decode(line)
    match event.type:
        case "BOOKMARK":
            return reflector.Bookmark(
                kube_watch.version(event), end=kube_watch.ends_initial_events(event)
            )
        case "ERROR":
            raise kube_watch.error_of(event)
        case _:
            return reflector.Changed(event.type, item(bytes(event.raw_object)))


def as_dict(raw: bytes) -> dict[str, Any]:
    """View: the whole object, `managedFields` included, as appliers need it."""
    return _DICT.decode(raw)


def as_bytes(raw: bytes) -> bytes:
    """View: the object's JSON, lossless."""
    return raw
