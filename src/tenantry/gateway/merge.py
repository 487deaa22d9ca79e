"""Make one list of several, and one watch of several. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from tenantry.gateway import events, protobuf
from tenantry.runtime import versions


class _Meta(msgspec.Struct, rename="camel", gc=False):
    resource_version: str = ""
    more: str = msgspec.field(default="", name="continue")


class _Json(msgspec.Struct, gc=False, rename="camel"):
    kind: str = ""
    api_version: str = ""
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    items: list[msgspec.Raw] | None = None
    rows: list[msgspec.Raw] | None = None
    column_definitions: msgspec.Raw = msgspec.Raw(b"")


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """One answer to a list: a list or a Table."""

    list: _Json | protobuf.List

    @property
    def count(self) -> int:
        found = self.list
        rows = found.rows if isinstance(found, _Json) and found.kind == "Table" else found.items
        return len(rows or ())

    @property
    def version(self) -> str:
        found = self.list
        return found.metadata.resource_version if isinstance(found, _Json) else found.version

    @property
    def more(self) -> str:
        """From where the next page begins; empty at the end."""
        found = self.list
        return found.metadata.more if isinstance(found, _Json) else found.more


_PART = msgspec.json.Decoder(_Json)


def part(body: bytes) -> Part:
    """Decode one answer.

    :raises ValueError: when it is no list
    """
    return Part(protobuf.parse_list(body) if protobuf.is_it(body) else _PART.decode(body))


def oldest(versions: Iterable[str]) -> str:
    """Return the version from which a watch misses nothing of lists of these versions.

    It repeats at most what the lists have already.
    """
    return min(filter(None, versions), key=_number, default="")


def whole(parts: Sequence[Part], *, kind: str, api_version: str, version: str, more: str) -> bytes:
    """Return the list of all items, in the order of the parts.

    :param kind: of the list, when there are no parts; and its apiVersion
    :param version: of the list
    :param more: from where the next page begins
    """
    binary = [found.list for found in parts if isinstance(found.list, protobuf.List)]
    plain = [found.list for found in parts if isinstance(found.list, _Json)]
    if binary and not plain:
        return protobuf.joined(binary, version=version, more=more)
    if binary:
        raise ValueError("parts are of different forms")
    first = plain[0] if plain else _Json(kind=kind, api_version=api_version)
    metadata = {"resourceVersion": version, "continue": more}
    answer: dict[str, Any] = {
        "kind": first.kind,
        "apiVersion": first.api_version,
        "metadata": {key: value for key, value in metadata.items() if value},
    }
    if first.kind == "Table":
        answer["columnDefinitions"] = first.column_definitions if plain else []
        answer["rows"] = [row for found in plain for row in found.rows or ()]
    else:
        answer["items"] = [item for found in plain for item in found.items or ()]
    return msgspec.json.encode(answer)


def _number(version: str) -> int:
    return versions.number(version) or 0


class WatchMerge:
    """Interleaves watches. A bookmark is true of its own stream only, so they are held back.

    The one that ends the initial events is passed on when all streams have had theirs.
    """

    def __init__(
        self,
        streams: int,
        form: events.Form = events.JSON,
        framed: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """Take the form of the events, and how the client gets them if not as they came."""
        self._form = form
        self._framed = framed or form.framed
        self._splitters = [form.splitter() for _ in range(streams)]
        self._ended: dict[int, tuple[int, bytes]] = {}

    def feed(self, stream: int, data: bytes) -> bytes:
        """Take a piece of one stream; return what the client gets.

        :raises KubeError: when it is no watch
        """
        return b"".join(self._event(stream, one) for one in self._splitters[stream].feed(data))

    def _event(self, stream: int, event: bytes) -> bytes:
        found = self._form.decode(event)
        if found.type != "BOOKMARK":
            return self._framed(event)
        if not self._form.ends_initial(found):
            return b""
        self._ended[stream] = (_number(self._form.version(found)), event)
        if len(self._ended) < len(self._splitters):
            return b""
        return self._framed(min(self._ended.values())[1])
