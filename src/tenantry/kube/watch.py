"""Cut a watch stream into events. Pure: bytes in, events out.

A stream is JSON lines ``{"type": ..., "object": ...}``. The object stays raw until a view wants
it; an event's own resourceVersion is read by `version` without decoding the rest into memory.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from tenantry.kube import errors

Change = Literal["ADDED", "MODIFIED", "DELETED"]
EventType = Change | Literal["BOOKMARK", "ERROR"]

#: Bytes; etcd refuses objects over about 1.5 MiB, their JSON is at most a few times that.
MAX_LINE = 16 * 1024 * 1024
#: Annotation of the bookmark that ends the initial events of a WatchList.
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Event(msgspec.Struct, gc=False):
    """One line of a watch; `raw_object` keeps the line's bytes alive, `.copy()` it to keep it."""

    type: EventType
    raw_object: msgspec.Raw = msgspec.field(name="object")


#: How the API server writes changes; the object is everything up to the last brace.
_HEADS: dict[bytes, Change] = {
    b'{"type":"ADDED","object":{': "ADDED",
    b'{"type":"MODIFIED","object":{': "MODIFIED",
    b'{"type":"DELETED","object":{': "DELETED",
}


class _Meta(msgspec.Struct, rename="camel", gc=False):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Object(msgspec.Struct, gc=False):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_EVENT = msgspec.json.Decoder(Event)
_OBJECT = msgspec.json.Decoder(_Object)


class Splitter:
    """Machine that turns chunks of any size into whole lines."""

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._max_line = max_line
        # Chunks without a newline so far; joined once, so a long line costs linear time.
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def pending(self) -> int:
        """Tell how many bytes of an unfinished line are held."""
        return self._size

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take a chunk; give the lines that it completes, without newline, blank ones left out.

        :raises Unreachable: when a line exceeds the bound, since the stream is then useless
        """
        lines = chunk.split(b"\n")
        unfinished = lines.pop()
        if lines:
            self._hold(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts, self._size = [], 0
        self._hold(unfinished)
        return [line for line in lines if line and not line.isspace()]

    def _hold(self, part: bytes) -> None:
        if not part:
            return
        self._size += len(part)
        if self._size > self._max_line:
            raise errors.Unreachable(f"watch line over {self._max_line} bytes")
        self._parts.append(part)


def decode(line: bytes) -> Event:
    """Decode one line; an ERROR event is returned like the others, see `error_of`.

    :raises Unreachable: when the line is no event: the stream is broken, connect anew
    """
    try:
        return _EVENT.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise errors.Unreachable(f"watch line is no event: {error}") from error


def change(line: bytes) -> tuple[Change, bytes] | None:
    """Cut a line that tells a change into type and object; None when it needs `decode`.

    Nothing is parsed: whoever reads the object will, and finds out if it is none.
    """
    end = line.find(b"{", 1) + 1
    kind = _HEADS.get(line[:end])
    if kind is None or not line.endswith(b"}}"):
        return None
    return kind, line[end - 1 : -1]


def version(event: Event) -> str:
    """Give the object's resourceVersion; "" for ERROR events, which have none to continue from."""
    return "" if event.type == "ERROR" else _meta(event).resource_version


def ends_initial_events(event: Event) -> bool:
    """Tell whether this bookmark ends the initial events of a WatchList."""
    if event.type != "BOOKMARK":
        return False
    return (_meta(event).annotations or {}).get(INITIAL_EVENTS_END) == "true"


def error_of(event: Event) -> errors.ApiError:
    """Give the error that an ERROR event carries; `Gone` means list again."""
    return errors.from_status(bytes(event.raw_object))


def _meta(event: Event) -> _Meta:
    try:
        return _OBJECT.decode(event.raw_object).metadata
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise errors.Unreachable(f"watch event has no metadata: {error}") from error
