"""Listen, keep deadlines, and end without cutting anybody off."""

from __future__ import annotations

import asyncio
import dataclasses
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from tenantry.core import clock
from tenantry.httpproxy import downstream, exchange, reading, wire

Work: TypeAlias = Coroutine[Any, Any, exchange.Action]
#: Code, reason, whether trying again is safe -> what the client is told.
ErrorAnswer = Callable[[int, str, bool], exchange.Answer]

#: Seconds between two looks at the deadlines of all connections.
_SWEEP = 0.5


def plain_error(code: int, why: str, retry: bool) -> exchange.Answer:
    """Tell an error as plain text."""
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    if retry:
        headers.append((b"retry-after", b"1"))
    return exchange.Answer(code, f"{why}\n".encode(), headers)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Bounds of a server."""

    head_limit: int = 256 * 1024
    head_timeout: float = 10.0
    """seconds for a head, from its first byte (or the connection) on"""
    body_timeout: float = 60.0
    """seconds between two pieces of a body"""
    idle_timeout: float = 300.0
    """seconds between two requests"""
    stall_timeout: float = 60.0
    """seconds for which a client may not read what is sent to it"""
    linger: float = 2.0
    """seconds for which a client may be silent before a connection that ends is cut"""
    handshake_timeout: float = 10.0
    error: ErrorAnswer = plain_error


class Server:
    """Accepts connections for one handler."""

    def __init__(self, handler: exchange.Handler, settings: Settings | None = None) -> None:
        self.handler = handler
        self.settings = settings or Settings()
        self.draining = False
        self.buffer = reading.Buffer()
        #: Counters, for metrics.
        self.requests = 0
        self.refused = 0
        self._connections: set[downstream.Connection] = set()
        self._listening: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def connections(self) -> int:
        return len(self._connections)

    @property
    def sockets(self) -> tuple[Any, ...]:
        """What it listens on."""
        return tuple(self._listening.sockets) if self._listening is not None else ()

    @property
    def port(self) -> int:
        """The port it listens on, 0 when it does not."""
        sockets = self.sockets
        port: int = sockets[0].getsockname()[1] if sockets else 0
        return port

    async def start(
        self, host: str, port: int, *, tls: ssl.SSLContext | None = None, shared: bool = False
    ) -> None:
        """Listen.

        :param shared: let other processes listen on the same port (SO_REUSEPORT)
        """
        loop, settings = asyncio.get_running_loop(), self.settings
        limits = wire.Limits(
            handshake=settings.handshake_timeout,
            linger=settings.linger,
            stall=settings.stall_timeout,
        )
        self._listening = await loop.create_server(
            lambda: wire.Wire(downstream.Connection(self), self.buffer, tls=tls, limits=limits),
            host,
            port,
            backlog=1024,
            reuse_port=shared,
        )
        self._sweeper = loop.create_task(self._sweep())

    async def drain(self, grace: float) -> None:
        """Accept nothing new, let what is under way finish for `grace` seconds, then cut it."""
        self.draining = True
        if self._listening is not None:
            self._listening.close()
        for connection in tuple(self._connections):
            if connection.idle:
                connection.close()
        try:
            async with asyncio.timeout(grace):
                await self._empty.wait()
        except TimeoutError:
            for connection in tuple(self._connections):
                connection.abort()
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)
        self._listening = None

    def opened(self, connection: downstream.Connection) -> None:
        self._connections.add(connection)
        self._empty.clear()
        if self.draining:
            connection.close()

    def closed(self, connection: downstream.Connection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._empty.set()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP)
            now = clock.monotonic()
            for connection in [one for one in self._connections if one.deadline <= now]:
                connection.expire(now)
