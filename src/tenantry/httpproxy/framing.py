"""Find the end of a body in a stream of bytes. Pure.

A *framer* follows a body without copying it: `feed` tells how far the bytes given belong to it.
With a `sink` it also gives the payload, for those who read bodies rather than forward them.
"""

from __future__ import annotations

import re
from typing import Protocol

from tenantry.httpproxy import errors

_SIZE = re.compile(rb"[0-9A-Fa-f]{1,8}\r\n")
LAST_CHUNK = b"0\r\n\r\n"
#: The longest legal size line.
_LONGEST = 10


class Framer(Protocol):
    """Follow one body."""

    @property
    def done(self) -> bool:
        """Whether the body is complete."""

    def feed(self, data: bytes, start: int = 0, sink: list[bytes] | None = None) -> int:
        """Take bytes from `start` on; return where those of this body end.

        :raises BadMessageError: when the framing is broken
        """


class Length:
    """A body of a known length."""

    __slots__ = ("left",)

    def __init__(self, length: int) -> None:
        self.left = length

    @property
    def done(self) -> bool:
        return self.left == 0

    def feed(self, data: bytes, start: int = 0, sink: list[bytes] | None = None) -> int:
        end = min(len(data), start + self.left)
        self.left -= end - start
        if sink is not None and end > start:
            sink.append(data[start:end])
        return end


class UntilClose:
    """A body that ends with the connection."""

    __slots__ = ()
    done = False

    def feed(self, data: bytes, start: int = 0, sink: list[bytes] | None = None) -> int:
        if sink is not None and start < len(data):
            sink.append(data[start:])
        return len(data)


class Chunked:
    """A chunked body. Extensions and trailers are refused: nobody here sends any."""

    __slots__ = ("_left", "_line", "_state", "last")

    def __init__(self) -> None:
        self._state = "size"
        self._left = 0
        self._line = b""
        #: The last byte of payload seen so far, for those who must end between two lines.
        self.last = b""

    @property
    def done(self) -> bool:
        return self._state == "done"

    @property
    def between(self) -> bool:
        """Whether a chunk could begin here, so that somebody else may write the next one."""
        return self._state == "size" and not self._line

    def feed(self, data: bytes, start: int = 0, sink: list[bytes] | None = None) -> int:
        position, size = start, len(data)
        while position < size and self._state != "done":
            if self._state == "data":
                end = min(size, position + self._left)
                self._left -= end - position
                if sink is not None:
                    sink.append(data[position:end])
                if self._left == 0:
                    self.last = data[end - 1 : end]
                    self._state = "after"
                position = end
                continue
            if self._state == "size" and not self._line and data.startswith(LAST_CHUNK, position):
                # How most bodies end.
                self._state = "done"
                return position + len(LAST_CHUNK)
            end = data.find(b"\n", position) + 1
            if end and not self._line and self._state == "size":
                # What events are: a chunk that came as a whole.
                whole = self._whole(data, position, end)
                if whole:
                    if sink is not None:
                        sink.append(data[end : whole - 2])
                    position = whole
                    continue
            self._line += data[position : end or size]
            if len(self._line) > _LONGEST:
                raise errors.BadMessageError("chunk is not framed as it must be")
            if not end:
                return size
            position = end
            self._next(self._line)
            self._line = b""
        return position

    def _whole(self, data: bytes, start: int, body: int) -> int:
        """Return where a chunk ends that is in `data` as a whole; 0 when it is not."""
        if _SIZE.fullmatch(data, start, body) is None:
            return 0
        end = body + int(data[start : body - 2], 16)
        if end == body or data[end : end + 2] != b"\r\n":
            return 0
        self.last = data[end - 1 : end]
        return end + 2

    def _next(self, line: bytes) -> None:
        if self._state == "size":
            if _SIZE.fullmatch(line) is None:
                raise errors.BadMessageError("chunk size is not a number")
            self._left = int(line, 16)
            self._state = "data" if self._left else "end"
        elif line != b"\r\n":
            raise errors.BadMessageError("chunk does not end where it must")
        else:
            self._state = "size" if self._state == "after" else "done"


def framer(*, length: int | None, chunked: bool) -> Framer:
    """Return the framer for what a head says."""
    if chunked:
        return Chunked()
    return UntilClose() if length is None else Length(length)


def chunk(data: bytes) -> bytes:
    """Frame payload as one chunk."""
    return b"%x\r\n%s\r\n" % (len(data), data)
