"""The identity of an object is read the same, whichever way it is written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tenantry.kube import errors
from tenantry.runtime import reflector, views

META = {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7"}


def written(metadata: dict[str, Any], **head: str) -> bytes:
    return json.dumps({**head, "metadata": metadata, "x": 1}, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    "raw",
    [
        written(META),
        written(META, kind="Pod", apiVersion="v1"),
        written({**META, "labels": {"uid": "other"}}, kind="Tenant", apiVersion="capsule.io/v1"),
        written({"name": "a", "generateName": "a-", **META}, kind="Pod", apiVersion="v1"),
        # As custom resources come: sorted.
        written(dict(sorted({**META, "creationTimestamp": "t"}.items())), apiVersion="x", kind="X"),
        # A name that JSON escapes does not exist, but must not be misread.
        written(META).replace(b'"a"', b'"\\u0061"'),
        json.dumps({"metadata": META}, indent=1).encode(),
    ],
)
def test_identity(raw: bytes) -> None:
    assert views.item(raw) == reflector.Item(("n", "a"), "u", "7", raw)


def test_without_a_namespace() -> None:
    raw = written({"name": "a", "uid": "u", "resourceVersion": "7"}, kind="Node", apiVersion="v1")
    assert views.item(raw).key == ("", "a")


def line(kind: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}, separators=(",", ":")).encode()


def test_lines() -> None:
    raw = written(META)
    changed = views.what_happened(line("MODIFIED", json.loads(raw)))
    assert changed == reflector.Changed("MODIFIED", reflector.Item(("n", "a"), "u", "7", raw))
    spaced = json.dumps({"type": "ADDED", "object": {"metadata": META}}).encode()
    assert isinstance(views.what_happened(spaced), reflector.Changed)
    assert views.what_happened(line("BOOKMARK", {"metadata": {"resourceVersion": "9"}})) == (
        reflector.Bookmark("9")
    )
    with pytest.raises(errors.Gone):
        views.what_happened(line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"}))


def test_views() -> None:
    assert views.as_dict(b'{"a":1}') == {"a": 1}
    assert views.as_bytes(b'{"a":1}') == b'{"a":1}'
