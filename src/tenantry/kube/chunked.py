"""Take a watch's chunked transfer coding apart: a chunk per event is what API servers send.

aiohttp hands each chunk through five calls, which together cost more than what is done with the
event. Here all chunks that arrived together become one block. aiohttp's own parser keeps the heads
of answers, everything that is not plainly chunked, the ends of streams, and every error.
"""

from __future__ import annotations

import functools
from typing import Any, cast

import aiohttp
from aiohttp import client_proto

#: Bytes of an answer's head; a longer one is aiohttp's to refuse.
_LONGEST_HEAD = 64 * 1024
#: Characters of a chunk's size that we read ourselves: 4 GiB.
_LONGEST_SIZE = 8


class Dechunker:
    """Machine: bytes as they came in, content out."""

    def __init__(self) -> None:
        self._rest = b""  # of a size that is not complete
        self._left = 0  # of the present chunk, its line end included

    def feed(self, data: bytes) -> tuple[bytes, bytes | None]:
        """Take in bytes; give content, and what another parser must go on with, if any.

        Such a rest begins where a chunk's size does: the end of the stream, or something unusual.
        """
        if self._rest:
            data, self._rest = self._rest + data, b""
        parts, at, end = [], 0, len(data)
        while at < end:
            left = self._left
            if left:
                if left > 2:
                    parts.append(data[at : at + left - 2])
                if at + left > end:
                    self._left = self._partly(data, at, end)
                    break
                at += left
                self._left = 0
                if data[at - 2 : at] != b"\r\n":
                    return b"".join(parts), b"!"  # no size, so that the other parser says no
                continue
            line = data.find(b"\r\n", at, at + _LONGEST_SIZE + 2)
            if line < 0:
                if end - at > _LONGEST_SIZE + 1:
                    return b"".join(parts), data[at:]
                self._rest = data[at:]
                break
            size = data[at:line]
            if not size.isalnum() or size.strip(b"0") == b"":
                return b"".join(parts), data[at:]
            try:
                self._left = int(size, 16) + 2
            except ValueError:
                return b"".join(parts), data[at:]
            at = line + 2
        return b"".join(parts), None

    def _partly(self, data: bytes, at: int, end: int) -> int:
        left = self._left - (end - at)
        if left == 1:
            # Half of the line end: it is looked at when the other half is there.
            self._rest, left = data[end - 1 : end], 2
        return left


class Handler(client_proto.ResponseHandler):
    """aiohttp's protocol, with content that is plainly chunked taken apart here."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._head: bytes | None = None  # what came of it; None when it is not looked for
        self._content: aiohttp.StreamReader | None = None
        self._chunks = Dechunker()

    def set_response_params(self, **named: Any) -> None:
        """Look for the head of the next answer."""
        self._head, self._content = b"", None
        super().set_response_params(**named)

    def feed_data(self, data: Any, size: int = 0) -> None:
        """Hand a head to whoever asked; called by aiohttp's parser."""
        message, content = data
        if message.code == 200 and message.chunked and not message.compression:
            self._content, self._chunks = content, Dechunker()
            # Said before the first byte, else aiohttp's parser may not go on at the end.
            content.begin_http_chunk_receiving()
        super().feed_data(data, size)

    def data_received(self, data: bytes) -> None:
        """Take in what came."""
        if self._content is not None:
            self._take(data)
            return
        if self._head is None or not data:
            super().data_received(data)
            return
        self._head += data
        end = self._head.find(b"\r\n\r\n") + 4
        if end < 4 and len(self._head) < _LONGEST_HEAD:
            return
        head, self._head = self._head, None
        if end < 4:
            super().data_received(head)
            return
        super().data_received(head[:end])
        if end < len(head):
            self.data_received(head[end:])

    def _take(self, data: bytes) -> None:
        assert self._content is not None
        if not data:
            return  # aiohttp's way to go on after a pause
        self.start_timeout()
        content, rest = self._chunks.feed(data)
        if content:
            self._content.feed_data(content)
        if rest is not None:
            reader, self._content = self._content, None
            super().data_received(rest)
            if (error := self.exception()) is not None:
                # aiohttp tells it only to whoever waits for the next answer.
                reader.set_exception(aiohttp.ClientPayloadError(str(error)))


class Connector(aiohttp.TCPConnector):
    """Connections for watches."""

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        # aiohttp has no public way to say which protocol a connection gets.
        self._factory = cast(
            "functools.partial[client_proto.ResponseHandler]",
            functools.partial(Handler, loop=self._loop),
        )
