"""The forms in which watch events travel: JSON lines, and protobuf behind its length. Pure."""

from __future__ import annotations

import dataclasses
from typing import Protocol

import msgspec

from tenantry.gateway import protobuf, seen, status
from tenantry.httpproxy import heads
from tenantry.kube import errors, watch

_LENGTH = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """One event, taken apart as far as anybody looks."""

    type: str
    object: bytes | msgspec.Raw


class Splitter(Protocol):
    """Cut pieces of a stream into events."""

    def feed(self, data: bytes, /) -> list[bytes]:
        """Take a piece; return the events that it completes.

        :raises Unreachable: when the stream is none
        """


class Form(Protocol):
    """One way of writing events."""

    text: bool

    def splitter(self) -> Splitter:
        """Return a machine that cuts a stream."""

    def framed(self, event: bytes) -> bytes:
        """Return an event as it stands in a stream."""

    def decode(self, event: bytes) -> Event:
        """Take an event apart.

        :raises Unreachable: when it is none
        """

    def seen(self, found: Event) -> seen.Seen:
        """Return what there is to see of the object.

        :raises ValueError: when nothing can be told
        """

    def deleted(self, found: Event) -> bytes:
        """Return the event that takes the object back."""

    def version(self, found: Event) -> str:
        """Return the version that a bookmark tells."""

    def ends_initial(self, found: Event) -> bool:
        """Tell whether a bookmark ends the events that stand for a list."""

    def gone(self) -> bytes:
        """Return the event that makes a client list again."""


class _RawRow(msgspec.Struct, gc=False):
    object: msgspec.Raw


class _Marked(msgspec.Struct, gc=False):
    rows: list[_RawRow] | None = None


_MARKED = msgspec.json.Decoder(_Marked)


class Json:
    """Objects and Tables, one event a line."""

    text = True

    def splitter(self) -> Splitter:
        return watch.Splitter()

    def framed(self, event: bytes) -> bytes:
        return event + b"\n"

    def decode(self, event: bytes) -> Event:
        found = watch.decode(event)
        return Event(found.type, found.raw_object)

    def seen(self, found: Event) -> seen.Seen:
        each = seen.of_each(found.object)
        if len(each) != 1:
            raise msgspec.ValidationError("a watch event has one row")
        return each[0]

    def deleted(self, found: Event) -> bytes:
        return b'{"type":"DELETED","object":' + bytes(found.object) + b"}"

    def version(self, found: Event) -> str:
        return watch.version(self._bookmark(found))

    def ends_initial(self, found: Event) -> bool:
        return watch.ends_initial_events(self._bookmark(found))

    @staticmethod
    def _bookmark(found: Event) -> watch.Event:
        """Return a bookmark as of an object: a Table has it in its only row."""
        try:
            rows = _MARKED.decode(found.object).rows if seen.is_table(found.object) else None
        except msgspec.MsgspecError as error:
            raise errors.Unreachable(f"watch event has no metadata: {error}") from error
        return watch.Event("BOOKMARK", rows[0].object if rows else msgspec.Raw(found.object))

    def gone(self) -> bytes:
        return status.gone().rstrip(b"\n")


class _Frames:
    """Cuts at lengths in four bytes, the highest first."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        self._held += data
        found: list[bytes] = []
        at = 0
        while len(self._held) - at >= _LENGTH:
            size = int.from_bytes(self._held[at : at + _LENGTH], "big")
            if size > watch.MAX_LINE:
                raise errors.Unreachable(f"watch event of {size} bytes")
            if len(self._held) - at - _LENGTH < size:
                break
            at += _LENGTH
            found.append(bytes(self._held[at : at + size]))
            at += size
        del self._held[:at]
        return found


class Binary:
    """Objects in protobuf, each event behind its length."""

    text = False

    def splitter(self) -> Splitter:
        return _Frames()

    def framed(self, event: bytes) -> bytes:
        return len(event).to_bytes(_LENGTH, "big") + event

    def decode(self, event: bytes) -> Event:
        try:
            return Event(*protobuf.parse_event(event))
        except ValueError as error:
            raise errors.Unreachable(f"watch event is none: {error}") from error

    def seen(self, found: Event) -> seen.Seen:
        return protobuf.of_object(bytes(found.object))

    def deleted(self, found: Event) -> bytes:
        return protobuf.write_event("DELETED", bytes(found.object))

    def version(self, found: Event) -> str:
        return self._meta(found)[0]

    def ends_initial(self, found: Event) -> bool:
        return self._meta(found)[1].get(watch.INITIAL_EVENTS_END) == "true"

    def gone(self) -> bytes:
        return protobuf.write_event("ERROR", protobuf.write_status(status.GONE, 410, "Expired"))

    @staticmethod
    def _meta(found: Event) -> tuple[str, dict[str, str]]:
        try:
            return protobuf.mark(bytes(found.object))
        except ValueError as error:
            raise errors.Unreachable(f"watch event has no metadata: {error}") from error


JSON, BINARY = Json(), Binary()


def of(headers: heads.Headers) -> Form:
    """Return the form that an answer says it is in."""
    media = next((value for name, value in headers if name == b"content-type"), b"")
    return of_media(media)


def of_media(media: bytes) -> Form:
    """Return the form of a media type."""
    kind = media.partition(b";")[0].strip().lower()
    return BINARY if kind == protobuf.MEDIA_TYPE else JSON
