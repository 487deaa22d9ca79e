"""Two ends of a wire: a server that plays what a test wrote, and a client that sends raw bytes."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from tenantry.httpproxy import connections, exchange, heads, server, upstream
from tenantry.pki import authority

asyncio.set_event_loop(None)

#: Seconds for anything in these tests.
LIMIT = 10.0

Play = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Run = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Run a coroutine on each kind of loop, with a deadline."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def play(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def limited() -> None:
            async with asyncio.timeout(LIMIT):
                await test()

        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(limited())

    return play


class Certificates:
    """TLS contexts of both ends, by one authority."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = authority.Authority.create("test", time.time())
        self.ca = folder / "ca.crt"
        self.ca.write_bytes(self._authority.cert)

    def server(self, *, clients: bool = False) -> ssl.SSLContext:
        issued = self._authority.issue_server(["127.0.0.1"], time.time())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._load(context, issued, "server")
        if clients:
            context.verify_mode = ssl.CERT_OPTIONAL
            context.load_verify_locations(self.ca)
        return context

    def client(self, user: str = "") -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.ca))
        if user:
            self._load(context, self._authority.issue_client(user, [], time.time()), user)
        return context

    def _load(self, context: ssl.SSLContext, issued: authority.Issued, name: str) -> None:
        cert, key = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        cert.write_bytes(issued.cert)
        key.write_bytes(issued.key)
        context.load_cert_chain(cert, key)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that no event tells."""
    for _ in range(int(LIMIT / 0.01)):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("did not come true in time")


@contextlib.asynccontextmanager
async def playing(
    play: Play, tls: ssl.SSLContext | None = None, port: int = 0
) -> AsyncIterator[int]:
    """Listen and play; give the port."""
    tasks: set[asyncio.Task[Any]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await play(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.close()

    listening = await asyncio.start_server(accept, "127.0.0.1", port, ssl=tls)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Wire:
    """A client's raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> bytes:
        return await self.reader.readuntil(heads.END)

    async def response(self) -> tuple[bytes, bytes]:
        """Read one response; return its head and its body's payload."""
        block = await self.head()
        found = heads.parse_response(block, to_head=False)
        if found.chunked:
            pieces = []
            while size := int(await self.reader.readline(), 16):
                pieces.append((await self.reader.readexactly(size + 2))[:-2])
            await self.reader.readexactly(2)
            return block, b"".join(pieces)
        if found.length is None:
            return block, await self.reader.read()
        return block, await self.reader.readexactly(found.length)

    async def get(self, target: bytes = b"/", *headers: bytes) -> tuple[bytes, bytes]:
        lines = [b"GET %s HTTP/1.1" % target, b"Host: h", *headers]
        await self.send(b"\r\n".join(lines) + heads.END)
        return await self.response()

    async def closed(self) -> bytes:
        """Read until the other end closes."""
        with contextlib.suppress(ConnectionError):
            return await self.reader.read()
        return b""


def forward(target: upstream.Upstream, **more: Any) -> exchange.Handler:
    """Forward everything, as it came."""

    def handle(found: exchange.Exchange) -> exchange.Action:
        kept = [
            header
            for header in heads.end_to_end(found.head.headers)
            if header[0] not in {b"host", b"content-length"}
        ]
        return exchange.Forward(server=target, target=found.head.target, headers=kept, **more)

    return handle


class Proxy:
    """A running proxy, its upstream and ways to connect."""

    def __init__(
        self, engine: server.Server, target: upstream.Upstream, tls: ssl.SSLContext | None
    ) -> None:
        self.engine = engine
        self.target = target
        self._tls = tls
        self._wires: list[Wire] = []

    async def connect(self, tls: ssl.SSLContext | None = None) -> Wire:
        context = tls or self._tls
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.engine.port, ssl=context, limit=1 << 20
        )
        self._wires.append(Wire(reader, writer))
        return self._wires[-1]

    def close(self) -> None:
        for wire in self._wires:
            wire.writer.transport.abort()


@contextlib.asynccontextmanager
async def proxying(
    play: Play | None = None,
    *,
    settings: server.Settings | None = None,
    handler: Callable[[upstream.Upstream], exchange.Handler] = forward,
    certificates: Certificates | None = None,
    port: int = 0,
    **more: Any,
) -> AsyncIterator[Proxy]:
    """Run a proxy before a server that plays; with certificates both hops are TLS."""
    inner = certificates.server() if certificates else None
    async with contextlib.AsyncExitStack() as stack:
        if play is not None:
            port = await stack.enter_async_context(playing(play, inner))
        target = upstream.Upstream(
            [connections.Address("127.0.0.1", port)],
            tls=certificates.client() if certificates else None,
            **more,
        )
        engine = server.Server(handler(target), settings)
        outer = certificates.server(clients=True) if certificates else None
        await engine.start("127.0.0.1", 0, tls=outer)
        proxy = Proxy(engine, target, certificates.client() if certificates else None)
        try:
            yield proxy
        finally:
            proxy.close()
            await engine.drain(0.2)
            target.close()


async def serve(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    answer: Callable[[bytes, bytes], bytes] = lambda _head, _body: b"ok",
) -> None:
    """Play a plain server: answer each request with a body made from it."""
    while True:
        head = await reader.readuntil(heads.END)
        found = heads.parse_request(head)
        body = b""
        if found.length is None:
            while size := int(await reader.readline(), 16):
                body += (await reader.readexactly(size + 2))[:-2]
            await reader.readexactly(2)
        elif found.length:
            body = await reader.readexactly(found.length)
        content = answer(head, body)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(content), content))
        await writer.drain()
