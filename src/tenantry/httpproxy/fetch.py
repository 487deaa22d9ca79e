"""Ask an upstream on behalf of a handler, and read the answer piece by piece."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from tenantry.httpproxy import connections, errors, heads, pipelining, upstream

#: Bytes read ahead of the reader.
_AHEAD = 256 * 1024
#: Requests sent over one connection before the first is answered.
_MOST_SENT = 16


class Fetch:
    """One request and its answer. Leaving the context drops what was not read."""

    decode = True

    def __init__(self) -> None:
        self._connection: connections.Connection | None = None
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


async def several(
    server: upstream.Upstream,
    targets: Sequence[bytes],
    headers: heads.Headers,
    *,
    at_once: int,
    limit: int,
    timeout: float = 60.0,
) -> list[pipelining.Answer]:
    """GET many things of one server, some at a time; return the answers in order.

    What a small answer costs are tasks, timers and system calls: here are none of the former for
    each, and a connection is sent several requests at once, to be answered one after the other.

    :param at_once: over so many connections
    :param limit: for all bodies together
    :raises TooLargeError: beyond it
    :raises UpstreamUnavailableError: when nothing was sent
    :raises UpstreamBrokenError: when an answer did not come, or not in time
    """
    batch = _Batch(server, targets, headers, limit)
    count = min(at_once, len(targets))
    most = min(_MOST_SENT, -(-len(targets) // count)) if count else 0
    lanes = [_Lane(batch, most) for _ in range(count)]
    try:
        for lane in lanes:
            lane.next()
        async with asyncio.timeout(timeout):
            await batch.over
    except TimeoutError:
        raise errors.UpstreamBrokenError(f"no answer within {timeout:g} s") from None
    finally:
        for lane in lanes:
            lane.close()
    return [found for found in batch.found if found is not None]


class _Batch:
    """What the lanes of one call share."""

    def __init__(
        self,
        server: upstream.Upstream,
        targets: Sequence[bytes],
        headers: heads.Headers,
        limit: int,
    ) -> None:
        self.server = server
        self.waiting = deque(enumerate(targets))
        self.found: list[pipelining.Answer | None] = [None] * len(targets)
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._headers = headers
        self._rest: dict[connections.Address, bytes] = {}
        self._missing = len(targets)
        self._left = self._limit = limit
        if not targets:
            self.over.set_result(None)

    def request(self, target: bytes, address: connections.Address) -> bytes:
        rest = self._rest.get(address)
        if rest is None:
            sent = [(b"host", address.authority), *self._headers]
            rest = self._rest[address] = heads.request_bytes(b"GET", b"/", sent)[5:]
        return b"GET " + target + rest

    def took(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            self.failed(errors.TooLargeError(self._limit))

    def answered(self, index: int, answer: pipelining.Answer) -> None:
        self.found[index] = answer
        self._missing -= 1
        if not self._missing and not self.over.done():
            self.over.set_result(None)

    def failed(self, error: errors.ProxyError) -> None:
        if not self.over.done():
            self.over.set_exception(error)


class _Lane:
    """Asks for some things after others, over whatever connection is free."""

    def __init__(self, batch: _Batch, most: int) -> None:
        self._batch = batch
        self._most = most
        self._asked: deque[tuple[int, bytes]] = deque()
        self._connection: connections.Connection | None = None
        self._repeats = False
        self._connecting: asyncio.Task[None] | None = None

    def next(self) -> None:
        """Ask for what is next, if there is anything."""
        self._connection = None
        waiting = self._batch.waiting
        if self._batch.over.done() or not waiting:
            return
        self._asked.extend(waiting.popleft() for _ in range(min(self._most, len(waiting))))
        connection = self._batch.server.idle()
        if connection is not None:
            # A server may close an idle connection just as it is used again.
            self._begin(connection, repeats=True)
        else:
            self._connect()

    def close(self) -> None:
        """Drop what is under way."""
        if self._connecting is not None:
            self._connecting.cancel()
        if self._connection is not None:
            self._connection.abandon()

    def _connect(self) -> None:
        self._connecting = asyncio.get_running_loop().create_task(self._open())

    async def _open(self) -> None:
        try:
            connection = await self._batch.server.connect()
        except errors.UpstreamUnavailableError as error:
            self._batch.failed(error)
            return
        self._connecting = None
        self._begin(connection, repeats=False)

    def _begin(self, connection: connections.Connection, *, repeats: bool) -> None:
        self._connection = connection
        self._repeats = repeats
        request, address = self._batch.request, connection.address
        requests = b"".join([request(target, address) for _, target in self._asked])
        connection.ask(self, requests, count=len(self._asked), took=self._batch.took)

    # As an asker.

    def answered(self, found: list[pipelining.Answer]) -> None:
        for answer in found:
            index, _ = self._asked.popleft()
            self._batch.answered(index, answer)
        # It may also close one that it has answered something on.
        self._repeats = True
        if not self._asked:
            self.next()

    def failed(self, error: errors.ProxyError, *, begun: bool) -> None:
        self._connection = None
        if self._repeats and not begun:
            self._connect()
        else:
            self._batch.failed(error)
