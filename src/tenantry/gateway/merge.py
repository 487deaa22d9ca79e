"""Make one list of several, and one watch of several. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tenantry.kube import watch


class _Meta(msgspec.Struct, rename="camel", gc=False):
    resource_version: str = ""


class Part(msgspec.Struct, gc=False, rename="camel"):
    """One answer to a list: a list or a Table."""

    kind: str = ""
    api_version: str = ""
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    items: list[msgspec.Raw] | None = None
    rows: list[msgspec.Raw] | None = None
    column_definitions: msgspec.Raw = msgspec.Raw(b"")


_PART = msgspec.json.Decoder(Part)


def part(body: bytes) -> Part:
    """Decode one answer.

    :raises MsgspecError: when it is no list
    """
    return _PART.decode(body)


def whole(parts: Sequence[Part], *, kind: str, version: str) -> bytes:
    """Return the list of all items, in the order of the parts.

    Its version is the oldest of theirs: a watch from there misses nothing, and repeats at most
    what the list has already.

    :param kind: of the list, when there are no parts; and its apiVersion
    """
    versions = [found.metadata.resource_version for found in parts]
    oldest = min(versions, key=_number) if versions else ""
    first = parts[0] if parts else Part(kind=kind, api_version=version)
    answer: dict[str, Any] = {
        "kind": first.kind,
        "apiVersion": first.api_version,
        "metadata": {"resourceVersion": oldest} if oldest else {},
    }
    if first.kind == "Table":
        if bytes(first.column_definitions):
            answer["columnDefinitions"] = first.column_definitions
        answer["rows"] = [row for found in parts for row in found.rows or ()]
    else:
        answer["items"] = [item for found in parts for item in found.items or ()]
    return msgspec.json.encode(answer)


def _number(version: str) -> int:
    return int(version) if version.isdigit() else 0


class WatchMerge:
    """Interleaves watches. A bookmark is true of its own stream only, so they are held back.

    The one that ends the initial events is passed on when all streams have had theirs.
    """

    def __init__(self, streams: int) -> None:
        self._splitters = [watch.Splitter() for _ in range(streams)]
        self._ended: dict[int, tuple[int, bytes]] = {}

    def feed(self, stream: int, data: bytes) -> bytes:
        """Take a piece of one stream; return what the client gets.

        :raises KubeError: when it is no watch
        """
        return b"".join(self._line(stream, line) for line in self._splitters[stream].feed(data))

    def _line(self, stream: int, line: bytes) -> bytes:
        event = watch.decode(line)
        if event.type != "BOOKMARK":
            return line + b"\n"
        if not watch.ends_initial_events(event):
            return b""
        self._ended[stream] = (_number(watch.version(event)), line)
        if len(self._ended) < len(self._splitters):
            return b""
        return min(self._ended.values())[1] + b"\n"
