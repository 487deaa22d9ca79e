"""Carry one exchange from a client's connection to an upstream's and back, without a task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from tenantry.core import clock
from tenantry.httpproxy import connections, errors, exchange, framing, heads

if TYPE_CHECKING:
    from tenantry.httpproxy import downstream

#: Longest response that is held to be replaced.
_HOLD = 64 * 1024


class Relay:
    """One forwarded exchange."""

    decode = False

    def __init__(
        self, client: downstream.Connection, found: exchange.Exchange, order: exchange.Forward
    ) -> None:
        self.tunnel = False
        self._client = client
        self._exchange = found
        self._order = order
        self._connection: connections.Connection | None = None
        self._reused = False
        self._connecting: asyncio.Task[None] | None = None
        self._pending = b""
        self._rechunk = False
        self._sent_body = False
        self._held: list[bytes] | None = None
        self._held_head: heads.ResponseHead | None = None
        self._over = False

    def start(self) -> None:
        """Take a connection, or begin to open one."""
        connection = self._order.server.idle()
        if connection is not None:
            self._reused = True
            self._begin(connection)
        else:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())

    @property
    def ready(self) -> bool:
        """Whether the request's body can be taken."""
        return self._connection is not None

    def body(self, data: bytes, *, complete: bool) -> None:
        """Pass on a piece of the request's body, framed as it came."""
        assert self._connection is not None
        self._sent_body = True
        self._connection.write(data)
        if complete:
            self._connection.request_ended()

    def through(self, data: bytes) -> None:
        """Pass on bytes of a tunnel."""
        if self._connection is not None:
            self._connection.write(data)

    def client_shut(self) -> None:
        """Note that the client ended its direction of a tunnel."""
        if self._connection is not None:
            self._connection.shut()

    def client_writable(self, writable: bool) -> None:
        if self._connection is not None and not self._over:
            self._connection.pause(not writable)

    def leave(self) -> None:
        """Note that the client is gone. What it said in a tunnel before is still delivered."""
        if self.tunnel and self._connection is not None:
            self._over = True
            self._connection.leave()
        else:
            self.abandon()

    def abandon(self) -> None:
        """Drop the upstream side: the client is gone, or has its answer."""
        self._over = True
        if self._connecting is not None:
            self._connecting.cancel()
        if self._connection is not None:
            self._connection.abandon()

    def between(self) -> bool:
        """Whether the response could be ended here by us."""
        framer = self._connection.framer if self._connection is not None else None
        return (
            not self.tunnel
            and not self._rechunk
            and isinstance(framer, framing.Chunked)
            and framer.between
            and framer.last in {b"\n", b""}
        )

    async def _connect(self) -> None:
        try:
            connection = await self._order.server.connect()
        except errors.UpstreamUnavailableError as error:
            self._connecting = None
            self._client.fail(503, str(error), retry=True)
            return
        self._connecting = None
        if self._over:
            connection.kill()
            return
        self._begin(connection)
        self._client.advance()

    def _begin(self, connection: connections.Connection) -> None:
        head, order = self._exchange.head, self._order
        sent = [(b"host", connection.address.authority), *order.headers]
        if head.length is None:
            sent.append((b"transfer-encoding", b"chunked"))
        elif head.length or head.method in {b"POST", b"PUT", b"PATCH"}:
            sent.append((b"content-length", b"%d" % head.length))
        if head.upgrade:
            sent += [(b"connection", b"Upgrade"), (b"upgrade", head.upgrade)]
        self._connection = connection
        self._exchange.forwarded_at = clock.monotonic()
        connection.begin(
            self,
            heads.request_bytes(head.method, order.target, sent),
            to_head=head.method == b"HEAD",
            complete=self._client.request_done,
        )

    # As a consumer.

    def response_started(self, head: heads.ResponseHead) -> None:
        asked = self._exchange.head
        if head.status == 101:
            self._open_tunnel(head)
            return
        if head.status < 200:
            if head.status == 100 and asked.expects:
                self._client.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            return
        now = clock.monotonic()
        self._exchange.outcome.upstream_seconds = now - self._exchange.forwarded_at
        self._client.deadline = float("inf")
        if self._order.replace and head.status in self._order.replace:
            self._held, self._held_head = [], head
            assert self._connection is not None
            self.decode = True
            return
        self._write_head(head)

    def response_body(self, data: bytes) -> None:
        if self._held is not None:
            self._held.append(data)
            if sum(map(len, self._held)) > _HOLD:
                self.response_failed(errors.UpstreamBrokenError("refusal is too long"))
                if self._connection is not None:
                    self._connection.abandon()
            return
        if self.tunnel:
            self._client.send(data)
            return
        if self._rechunk and data:
            data = framing.chunk(data)
        if self._pending:
            data, self._pending = self._pending + data, b""
        if data:
            self._client.send(data)

    def response_ended(self) -> None:
        if self._over:
            return
        if self.tunnel:
            self._client.shut()
            return
        self._over = True
        if self._held is not None:
            self._connecting = asyncio.get_running_loop().create_task(self._replace())
            return
        if self._rechunk:
            self._client.send(framing.LAST_CHUNK)
        self._client.finish()

    def response_failed(self, error: errors.ProxyError) -> None:
        if self._over:
            return
        if self.tunnel:
            self._over = True
            # What came before the end is still on its way to the client.
            self._client.close()
            return
        if self._exchange.started:
            self._over = True
            self._exchange.outcome.error = str(error)
            self._client.abort()
            return
        harmless = self._exchange.head.method in {b"GET", b"HEAD"} and not self._sent_body
        connection = self._connection
        if self._reused and harmless and connection is not None and not connection.answered:
            # A server may close an idle connection just as it is used again.
            self._reused = False
            self._connection = None
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
            return
        self._over = True
        self._client.fail(502, str(error))

    def upstream_writable(self, writable: bool) -> None:
        self._client.pause("upstream", paused=not writable)

    def _write_head(self, head: heads.ResponseHead) -> None:
        headers = heads.end_to_end(head.headers)
        if head.chunked:
            headers.append((b"transfer-encoding", b"chunked"))
        elif head.length is None:
            headers.append((b"transfer-encoding", b"chunked"))
            self._rechunk = True
        # Head and the first piece of the body leave in one write, hence in one TLS record.
        self._pending = self._client.response_head(head.status, headers, head.reason)

    def _open_tunnel(self, head: heads.ResponseHead) -> None:
        if not self._exchange.head.upgrade:
            self._client.fail(502, "upstream switched protocols without being asked")
            self.abandon()
            return
        headers = heads.end_to_end(head.headers)
        headers += [(b"connection", b"Upgrade"), (b"upgrade", head.get(b"upgrade"))]
        self._exchange.outcome.upstream_seconds = clock.monotonic() - self._exchange.forwarded_at
        self.tunnel = True
        self._client.send(self._client.response_head(101, headers, head.reason))
        self._client.tunnel()

    async def _replace(self) -> None:
        assert self._held is not None
        assert self._held_head is not None
        assert self._order.replace is not None
        head, body = self._held_head, b"".join(self._held)
        other = await self._order.replace[head.status](body)
        if other is None:
            kept = [
                header
                for header in heads.end_to_end(head.headers)
                if header[0] != b"content-length"
            ]
            other = exchange.Answer(head.status, body, kept)
        self._client.answer(other)


class Ended:
    """The end of a tunnel in a handler here rather than in an upstream."""

    tunnel = True
    ready = False

    def __init__(self, heard: Callable[[bytes], None]) -> None:
        self._heard = heard

    def through(self, data: bytes) -> None:
        self._heard(data)

    def body(self, data: bytes, *, complete: bool) -> None:
        """Nothing comes: a request that switches protocols has no body."""

    def client_shut(self) -> None:
        self._heard(b"")

    def client_writable(self, writable: bool) -> None:
        """Nothing waits here; who writes looks by itself."""

    def leave(self) -> None:
        """Nothing is left: the handler is told by the connection."""

    def abandon(self) -> None:
        """Nothing is left."""

    def between(self) -> bool:
        return False
