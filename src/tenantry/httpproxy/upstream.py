"""The servers behind: connections kept alive, spread over addresses, watched for failure.

An `Upstream` is one identity at one set of equal servers: connections of two upstreams are never
mixed, so a TLS client certificate of one cannot serve requests meant for the other.
"""

from __future__ import annotations

import asyncio
import dataclasses
import ssl
from collections.abc import Sequence

from tenantry.core import clock
from tenantry.httpproxy import connections, errors, reading, wire


@dataclasses.dataclass(slots=True)
class _Health:
    down_until: float = 0.0
    failures: int = 0


class Upstream:
    """Equal servers, reached with one set of TLS settings."""

    def __init__(
        self,
        addresses: Sequence[connections.Address],
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
        self._idle: list[connections.Connection] = []
        self._all: set[connections.Connection] = set()
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

    def idle(self) -> connections.Connection | None:
        """Take a connection that is ready, if there is one; the one last used first."""
        oldest = self._now() - self._idle_timeout
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and connection.idle_since >= oldest:
                return connection
            connection.kill()
        return None

    async def connect(self) -> connections.Connection:
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

    def release(self, connection: connections.Connection) -> None:
        """Keep a connection for the next exchange."""
        if self._closed or len(self._idle) >= self._most_idle or not connection.usable:
            connection.kill()
            return
        connection.pause(False)
        connection.idle_since = self._now()
        self._idle.append(connection)

    def forget(self, connection: connections.Connection) -> None:
        self._all.discard(connection)

    def close(self) -> None:
        """Close every connection."""
        self._closed = True
        for connection in tuple(self._all):
            connection.kill()

    def _order(self) -> list[connections.Address]:
        """Return the addresses to try: healthy ones in turn, then the others in hope."""
        self._turn += 1
        turned = [
            self.addresses[(self._turn + index) % len(self.addresses)]
            for index in range(len(self.addresses))
        ]
        now = self._now()
        return sorted(turned, key=lambda address: self._health[address].down_until > now)

    async def _open(self, address: connections.Address) -> connections.Connection:
        loop = asyncio.get_running_loop()
        connection = connections.Connection(self, address)
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
