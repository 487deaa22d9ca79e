"""Connections to the servers behind: kept alive, spread over addresses, watched for failure.

A `Connection` carries one exchange at a time and reports to its `Consumer`. An `Upstream` is one
identity at one set of equal servers: connections of two upstreams are never mixed, so a TLS
client certificate of one cannot serve requests meant for the other.
"""

from __future__ import annotations

import asyncio
import dataclasses
import ssl
from collections.abc import Sequence
from typing import Protocol

from tenantry.core import clock
from tenantry.httpproxy import errors, framing, heads, reading, wire

#: Longest head of a response.
_HEAD_LIMIT = 256 * 1024


class Consumer(Protocol):
    """Who gets the response on a connection."""

    #: Whether `response_body` gets payload instead of the framed bytes.
    decode: bool

    def response_started(self, head: heads.ResponseHead) -> None: ...
    def response_body(self, data: bytes) -> None: ...
    def response_ended(self) -> None: ...
    def response_failed(self, error: errors.ProxyError) -> None: ...
    def upstream_writable(self, writable: bool) -> None: ...


@dataclasses.dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens."""

    host: str
    port: int

    @property
    def authority(self) -> bytes:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}".encode()


@dataclasses.dataclass(slots=True)
class _Health:
    down_until: float = 0.0
    failures: int = 0


class Connection:
    """One connection; idle while it has no consumer."""

    def __init__(self, owner: Upstream, address: Address) -> None:
        self.address = address
        self.transport: wire.Wire | None = None
        self.used = False
        self._owner = owner
        self._consumer: Consumer | None = None
        self._buffer = b""
        self._head: heads.ResponseHead | None = None
        self._framer: framing.Framer | None = None
        self._to_head = False
        self._owed = 0
        self._request_done = True
        self._answered = False
        self.idle_since = 0.0
        self._dead = False

    # As an exchange sees it.

    def begin(
        self, consumer: Consumer, head: bytes, *, to_head: bool, complete: bool, answers: int = 1
    ) -> None:
        """Send a request's head (and body, when it is `complete` already).

        :param answers: how many come; more than one when `head` is as many requests
        """
        assert self.transport is not None
        self._consumer = consumer
        self._owed = answers
        self._to_head = to_head
        self._request_done = complete
        self._answered = False
        self._buffer = b""
        self._head = self._framer = None
        self.transport.write(head)

    def write(self, data: bytes) -> None:
        """Send more of the body, or of a tunnel."""
        if self.transport is not None and not self._dead:
            self.transport.write(data)

    def request_ended(self) -> None:
        self._request_done = True

    @property
    def framer(self) -> framing.Framer | None:
        """What follows the response's body, once that has begun."""
        return self._framer

    @property
    def answered(self) -> bool:
        """Whether anything of the response has come."""
        return self._answered

    def pause(self, paused: bool) -> None:
        """Stop or go on reading."""
        if self.transport is None or self._dead:
            return
        if paused and self.transport.is_reading():
            self.transport.pause_reading()
        elif not paused and not self.transport.is_reading():
            self.transport.resume_reading()

    def shut(self) -> None:
        """End our direction of a tunnel after what was written."""
        if self.transport is not None and not self._dead:
            self.transport.write_eof()

    def leave(self) -> None:
        """Drop a tunnel; what was written before is still sent."""
        self._consumer = None
        self._dead = True
        if self.transport is not None:
            self.transport.close()

    def abandon(self) -> None:
        """Drop the exchange and the connection with it."""
        self._consumer = None
        self.kill()

    def kill(self) -> None:
        self._dead = True
        if self.transport is not None:
            self.transport.abort()

    @property
    def usable(self) -> bool:
        return not self._dead and self.transport is not None and not self.transport.is_closing()

    # As the wire sees it.

    def connection_made(self, made: wire.Wire) -> None:
        self.transport = made

    def data_received(self, data: bytes) -> None:
        consumer = self._consumer
        if consumer is None:
            # Nobody asked: the server has lost track, or somebody else speaks.
            self.kill()
            return
        self._answered = True
        try:
            if self._framer is None or consumer.decode:
                self._receive(consumer, data)
                return
            end = self._framer.feed(data)
            if end:
                consumer.response_body(data if end == len(data) else data[:end])
            if self._framer.done and self._consumer is consumer:
                self._ended(consumer, extra=end < len(data))
        except errors.BadMessageError as error:
            self._fail(errors.UpstreamBrokenError(error.reason))

    def _receive(self, consumer: Consumer, data: bytes) -> None:
        at, more = 0, True
        while more:
            begun = self._framer is None
            if begun:
                if self._buffer:
                    data, at, self._buffer = self._buffer + data[at:], 0, b""
                end = data.find(heads.END, at) + len(heads.END)
                if end < len(heads.END):
                    self._buffer = data[at:]
                    if len(self._buffer) > _HEAD_LIMIT:
                        raise errors.BadMessageError("response head is too long")
                    return
                self._started(consumer, data[at:end])
                at = end
                if self._consumer is not consumer:
                    return
            framer = self._framer
            if framer is not None:
                end = self._body(consumer, framer, data, at, begun=begun)
                extra, at = end < len(data), end
                if self._consumer is not consumer or not framer.done:
                    return
                if not self._ended(consumer, extra=extra):
                    return
            more = at < len(data)

    def _started(self, consumer: Consumer, block: bytes) -> None:
        head = heads.parse_response(block, to_head=self._to_head)
        if head.status == 101:
            self._head, self._framer = head, framing.UntilClose()
        elif head.status >= 200:
            self._head = head
            self._framer = framing.framer(length=head.length, chunked=head.chunked)
        consumer.response_started(head)

    @staticmethod
    def _body(
        consumer: Consumer, framer: framing.Framer, data: bytes, at: int, *, begun: bool
    ) -> int:
        """Hand over what belongs to the body; return where it ends."""
        if consumer.decode:
            sink: list[bytes] = []
            end = framer.feed(data, at, sink)
            if sink:
                consumer.response_body(b"".join(sink))
        else:
            end = framer.feed(data, at)
            if end > at or begun:
                consumer.response_body(data[at:end])
        return end

    def _ended(self, consumer: Consumer, *, extra: bool) -> bool:
        """Note the end of an answer; tell whether the consumer is owed another one."""
        assert self._head is not None
        self._owed -= 1
        owed, keep = self._owed, self._head.keep
        if owed and keep:
            self._head = self._framer = None
            consumer.response_ended()
            return self._consumer is consumer
        self._consumer = None
        self.used = True
        if keep and self._request_done and not extra:
            # Whoever hears of the end may take it again at once.
            self._owner.release(self)
        else:
            self.kill()
        consumer.response_ended()
        if owed:
            consumer.response_failed(errors.UpstreamBrokenError("closed early"))
        return False

    def eof_received(self) -> bool:
        consumer = self._consumer
        if consumer is None or self._head is None or self._head.length is not None:
            return False
        if self._head.chunked or self._dead:
            return False
        # A body, or a tunnel's direction, that ends with the connection. In a tunnel the other
        # direction may go on.
        tunnel = self._head.status == 101
        if not tunnel:
            self._consumer = None
        consumer.response_ended()
        return tunnel

    def connection_lost(self, exc: Exception | None) -> None:
        self._dead = True
        self._owner.forget(self)
        self._fail(errors.UpstreamBrokenError(str(exc) if exc else "closed early"))

    def _fail(self, error: errors.ProxyError) -> None:
        consumer, self._consumer = self._consumer, None
        if not self._dead:
            self.kill()
        if consumer is not None:
            consumer.response_failed(error)

    def pause_writing(self) -> None:
        if self._consumer is not None:
            self._consumer.upstream_writable(False)

    def resume_writing(self) -> None:
        if self._consumer is not None:
            self._consumer.upstream_writable(True)


class Upstream:
    """Equal servers, reached with one set of TLS settings."""

    def __init__(
        self,
        addresses: Sequence[Address],
        *,
        tls: ssl.SSLContext | None = None,
        server_name: str = "",
        connect_timeout: float = 5.0,
        most_idle: int = 256,
        idle_timeout: float = 45.0,
        now: clock.Clock = clock.monotonic,
    ) -> None:
        """Take the settings.

        :param idle_timeout: seconds after which an idle connection is not used any more; less
            than the server's own, which would close it under a request
        """
        self.buffer = reading.Buffer()
        self.addresses = tuple(addresses)
        self.tls = tls
        self._server_name = server_name
        self._connect_timeout = connect_timeout
        self._most_idle = most_idle
        self._idle_timeout = idle_timeout
        self._now = now
        self._idle: list[Connection] = []
        self._all: set[Connection] = set()
        self._health = {address: _Health() for address in self.addresses}
        self._turn = 0
        self._closed = False

    @property
    def open(self) -> int:
        """How many connections there are, idle or not."""
        return len(self._all)

    def replace_tls(self, tls: ssl.SSLContext) -> None:
        """Use other TLS settings for new connections; idle ones with the old are closed."""
        self.tls = tls
        for connection in self._idle:
            connection.kill()
        self._idle.clear()

    def idle(self) -> Connection | None:
        """Take a connection that is ready, if there is one; the one last used first."""
        oldest = self._now() - self._idle_timeout
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and connection.idle_since >= oldest:
                return connection
            connection.kill()
        return None

    async def connect(self) -> Connection:
        """Open a connection to the next healthy server.

        :raises UpstreamUnavailableError: when none of them accepts one
        """
        why = "closing"
        for address in self._order():
            if self._closed:
                break
            health = self._health[address]
            try:
                async with asyncio.timeout(self._connect_timeout):
                    connection = await self._open(address)
            except (OSError, TimeoutError, ssl.SSLError) as error:
                health.failures += 1
                health.down_until = self._now() + min(10.0, 0.25 * 2**health.failures)
                why = str(error) or "no answer in time"
            else:
                health.failures, health.down_until = 0, 0.0
                return connection
        raise errors.UpstreamUnavailableError(why)

    def release(self, connection: Connection) -> None:
        """Keep a connection for the next exchange."""
        if self._closed or len(self._idle) >= self._most_idle or not connection.usable:
            connection.kill()
            return
        connection.pause(False)
        connection.idle_since = self._now()
        self._idle.append(connection)

    def forget(self, connection: Connection) -> None:
        self._all.discard(connection)

    def close(self) -> None:
        """Close every connection."""
        self._closed = True
        for connection in tuple(self._all):
            connection.kill()

    def _order(self) -> list[Address]:
        """Return the addresses to try: healthy ones in turn, then the others in hope."""
        self._turn += 1
        turned = [
            self.addresses[(self._turn + index) % len(self.addresses)]
            for index in range(len(self.addresses))
        ]
        now = self._now()
        return sorted(turned, key=lambda address: self._health[address].down_until > now)

    async def _open(self, address: Address) -> Connection:
        loop = asyncio.get_running_loop()
        connection = Connection(self, address)
        hostname = (self._server_name or address.host) if self.tls else None
        made = wire.Wire(connection, self.buffer, tls=self.tls, hostname=hostname)
        made.ready = loop.create_future()
        # A connection that is made and not wanted any more must not stay behind.
        self._all.add(connection)
        try:
            await loop.create_connection(lambda: made, address.host, address.port)
            await made.ready
        except BaseException:
            self._all.discard(connection)
            made.abort()
            raise
        return connection
