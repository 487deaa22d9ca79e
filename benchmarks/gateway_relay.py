"""Carry TLS from one port to another and look at nothing: what any proxy on this stack must cost.

python -m benchmarks.gateway_relay LISTEN_PORT SERVER_PORT CERTIFICATE KEY AUTHORITY
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from typing import Any

import uvloop


class Side(asyncio.Protocol):
    """One end; what comes here leaves at the other."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.other: Side | None = None
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self._early.append(data)
        else:
            self.other.transport.write(data)

    def connection_lost(self, _exc: Exception | None) -> None:
        if self.other is not None:
            self.other.transport.abort()

    def join(self, other: Side) -> None:
        """Let bytes pass, those first that came before there was another end."""
        self.other, other.other = other, self
        for data in self._early:
            other.transport.write(data)


class Client(Side):
    """Opens the other end when it is there."""

    def __init__(self, port: int, tls: ssl.SSLContext) -> None:
        super().__init__()
        self._port = port
        self._tls = tls
        self._opening: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._opening = asyncio.get_running_loop().create_task(self._open())

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        _, server = await loop.create_connection(Side, "127.0.0.1", self._port, ssl=self._tls)
        self.join(server)


async def relay(listen: int, port: int, *, cert: str, key: str, authority: str) -> None:
    outward = ssl.create_default_context(cafile=authority)
    inward = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    inward.load_cert_chain(cert, key)
    server = await asyncio.get_running_loop().create_server(
        lambda: Client(port, outward), "127.0.0.1", listen, ssl=inward
    )
    await server.serve_forever()


if __name__ == "__main__":
    _, own, servers, certificate, private, ca = sys.argv
    uvloop.run(relay(int(own), int(servers), cert=certificate, key=private, authority=ca))
