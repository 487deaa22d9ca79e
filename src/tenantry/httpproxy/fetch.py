"""Ask an upstream on behalf of a handler, and read the answer piece by piece."""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType
from typing import Self

from tenantry.httpproxy import errors, heads, upstream

#: Bytes read ahead of the reader.
_AHEAD = 256 * 1024


class Fetch:
    """One request and its answer. Leaving the context drops what was not read."""

    decode = True

    def __init__(self) -> None:
        self._connection: upstream.Connection | None = None
        self._head: heads.ResponseHead | None = None
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._error: errors.ProxyError | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def send(
        self,
        server: upstream.Upstream,
        method: bytes,
        target: bytes,
        headers: heads.Headers,
        body: bytes = b"",
        *,
        timeout: float = 60.0,
    ) -> heads.ResponseHead:
        """Send a request and return the head of its answer.

        :raises UpstreamUnavailableError: when nothing was sent
        :raises UpstreamBrokenError: when no answer came, within `timeout` or at all
        """
        repeatable = method in {b"GET", b"HEAD"}
        while True:
            connection = server.idle()
            reused = connection is not None
            if connection is None:
                connection = await server.connect()
            self._connection = connection
            sent = [(b"host", connection.address.authority), *headers]
            if body or method not in {b"GET", b"HEAD", b"DELETE"}:
                sent.append((b"content-length", b"%d" % len(body)))
            connection.begin(
                self,
                heads.request_bytes(method, target, sent) + body,
                to_head=method == b"HEAD",
                complete=True,
            )
            try:
                async with asyncio.timeout(timeout):
                    while self._head is None:
                        await self._wait()
            except TimeoutError:
                self.close()
                raise errors.UpstreamBrokenError(f"no answer within {timeout:g} s") from None
            except errors.UpstreamBrokenError:
                # A server may close an idle connection just as it is used again.
                if reused and repeatable and not connection.answered:
                    self._error = None
                    continue
                raise
            return self._head

    async def read(self) -> bytes:
        """Return the next piece of the body, empty at its end.

        :raises UpstreamBrokenError: when the connection ended before the body did
        """
        while not self._pieces:
            if self._ended:
                return b""
            await self._wait()
        piece = self._pieces.popleft()
        self._size -= len(piece)
        if self._size < _AHEAD and self._connection is not None and not self._ended:
            self._connection.pause(False)
        return piece

    async def body(self, limit: int) -> bytes:
        """Return the whole body.

        :raises TooLargeError: when it is longer than `limit`
        """
        pieces, size = [], 0
        while piece := await self.read():
            size += len(piece)
            if size > limit:
                raise errors.TooLargeError(limit)
            pieces.append(piece)
        return b"".join(pieces)

    def stop(self) -> None:
        """End the body for its reader, who may be waiting."""
        self.close()
        self._pieces.clear()
        self._wake()

    def close(self) -> None:
        """Drop what is left of the answer."""
        if not self._ended and self._connection is not None:
            self._connection.abandon()
        self._ended = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # As a consumer.

    def response_started(self, head: heads.ResponseHead) -> None:
        if head.status >= 200:
            self._head = head
            self._wake()

    def response_body(self, data: bytes) -> None:
        self._pieces.append(data)
        self._size += len(data)
        if self._size >= _AHEAD and self._connection is not None:
            self._connection.pause(True)
        self._wake()

    def response_ended(self) -> None:
        self._ended = True
        self._wake()

    def response_failed(self, error: errors.ProxyError) -> None:
        self._error = error
        self._wake()

    def upstream_writable(self, writable: bool) -> None:
        """Nothing waits: bodies are handed over whole."""

    async def _wait(self) -> None:
        if self._error is None:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._error is not None and self._head is None:
            error, self._error = self._error, None
            raise error
        if self._error is not None and not self._pieces:
            raise self._error

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
