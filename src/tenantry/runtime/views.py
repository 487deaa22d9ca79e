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


#: How the API server begins built-in kinds; reading it saves a pass over the whole object.
_BEGINNING = re.compile(
    rb'\{(?:"kind":"\w+","apiVersion":"[\w./-]+",)?"metadata":\{"name":"([^"\\]+)"'
    rb'(?:,"generateName":"[^"\\]*")?(?:,"namespace":"([^"\\]+)")?'
    rb',"uid":"([^"\\]+)","resourceVersion":"(\d+)"'
)


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


def what_happened(line: bytes) -> reflector.Input:
    """Turn a line of a watch into an input of the reflector.

    :raises ApiError: the one that an ERROR line carries
    """
    change = kube_watch.change(line)
    if change is not None:
        return reflector.Changed(change[0], item(change[1]))
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
