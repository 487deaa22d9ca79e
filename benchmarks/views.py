"""A view of a pod as a scheduler or a ledger wants it: flat, and what many share only once."""

from __future__ import annotations

import msgspec


class Pod(msgspec.Struct, frozen=True, gc=False):
    """What is kept."""

    namespace: str
    name: str
    uid: str
    node: str
    phase: str
    labels: dict[str, str]
    requests: tuple[dict[str, str], ...]


class _Meta(msgspec.Struct, gc=False):
    name: str
    namespace: str
    uid: str
    labels: dict[str, str] = {}


class _Resources(msgspec.Struct, gc=False):
    requests: msgspec.Raw = msgspec.Raw(b"{}")


class _Container(msgspec.Struct, gc=False):
    resources: _Resources = msgspec.field(default_factory=_Resources)


class _Spec(msgspec.Struct, rename="camel", gc=False):
    containers: list[_Container]
    node_name: str = ""


class _Status(msgspec.Struct, gc=False):
    phase: str = ""


class _Pod(msgspec.Struct, gc=False):
    metadata: _Meta
    spec: _Spec
    status: _Status


_DECODER = msgspec.json.Decoder(_Pod)
_MAP = msgspec.json.Decoder(dict[str, str])
_strings: dict[str, str] = {}
_maps: dict[bytes, dict[str, str]] = {}


def _string(text: str) -> str:
    return _strings.setdefault(text, text)


def _map(raw: msgspec.Raw) -> dict[str, str]:
    key = bytes(raw)
    found = _maps.get(key)
    if found is None:
        found = _maps[key] = {_string(k): _string(v) for k, v in _MAP.decode(key).items()}
    return found


def pod(raw: bytes) -> Pod:
    """Project a pod."""
    whole = _DECODER.decode(raw)
    metadata, spec = whole.metadata, whole.spec
    return Pod(
        _string(metadata.namespace),
        metadata.name,
        metadata.uid,
        _string(spec.node_name),
        _string(whole.status.phase),
        metadata.labels,
        tuple(_map(each.resources.requests) for each in spec.containers),
    )
