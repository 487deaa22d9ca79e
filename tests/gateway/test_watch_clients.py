"""A sieved and a merged watch over real sockets, in each form, before a server that a test plays."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from tests.httpproxy.conftest import Wire
from tests.httpproxy.conftest import proxying as running

from tenantry.gateway import decide, events, paths, status, streams, terms
from tenantry.httpproxy import exchange, heads, upstream

from . import sockets
from .test_events import event, thing
from .test_websocket import KEY

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n"
BINARY = b"application/vnd.kubernetes.protobuf;stream=watch"
JSON = b"application/json"
SIEVE = decide.Sieve(terms.named(["a"]))
FANOUT = decide.Fanout(("n1", "n2"))
OPENING = (
    b"Connection: Upgrade",
    b"Upgrade: websocket",
    b"Sec-WebSocket-Version: 13",
    b"Sec-WebSocket-Key: " + KEY,
)


def told(media: bytes, name: str) -> bytes:
    if media == BINARY:
        return event("ADDED", thing(name))
    return b'{"type":"ADDED","object":{"metadata":{"name":"%s","uid":"u"}}}\n' % name.encode()


class Server:
    """Plays an API server: says two objects, and nothing more."""

    def __init__(self, media: bytes) -> None:
        self.media = media
        self.asked: list[bytes] = []

    async def play(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append(await reader.readuntil(heads.END))
        data = told(self.media, "z") + told(self.media, "a")
        writer.write(HEAD % self.media + b"%x\r\n%s\r\n" % (len(data), data))
        await reader.read()


async def frame(wire: Wire) -> tuple[int, bytes]:
    first, size = await wire.reader.readexactly(2)
    if size == 126:
        size = int.from_bytes(await wire.reader.readexactly(2), "big")
    return first & 0x0F, await wire.reader.readexactly(size)


async def chunk(wire: Wire) -> bytes:
    size = int(await wire.reader.readline(), 16)
    return (await wire.reader.readexactly(size + 2))[:-2]


@pytest.mark.parametrize("media", [JSON, BINARY])
@pytest.mark.parametrize("upgrade", [False, True])
@pytest.mark.parametrize("decision", [SIEVE, FANOUT])
async def test_each_client_gets_its_events_and_the_end(
    media: bytes, upgrade: bool, decision: decide.Sieve | decide.Fanout
) -> None:
    server, stop = Server(media), streams.Stopper()
    query = paths.parse_query("watch=true")
    target = paths.parse_path("/api/v1/configmaps")
    assert target is not None

    def handler(there: upstream.Upstream) -> exchange.Handler:
        order = streams.Order(there, target.path, [], query)

        def handle(found: exchange.Exchange) -> Coroutine[Any, Any, exchange.Action]:
            if isinstance(decision, decide.Sieve):
                return streams.watched(found, order, decision, stop)
            return streams.interleaved(found, order, target, decision, stop)

        return handle

    form = events.BINARY if media == BINARY else events.JSON
    names = ["a"] if decision == SIEVE else ["a", "a", "z", "z"]
    expected = sorted(told(media, name) for name in names)
    code = sockets.BINARY if media == BINARY else sockets.TEXT
    async with asyncio.timeout(20), running(server.play, handler=handler) as proxy:
        wire = await proxy.connect()
        more = OPENING if upgrade else ()
        await wire.send(b"\r\n".join((b"GET /w HTTP/1.1", b"Host: h", *more)) + heads.END)
        head = await wire.head()
        if upgrade:
            assert b" 101 " in head
            found = [await frame(wire) for _ in names]
            assert {kind for kind, _ in found} == {code}
            bare = 4 if media == BINARY else 0
            assert sorted(content for _, content in found) == [one[bare:] for one in expected]
        else:
            assert b"content-type: " + media in head
            whole = b""
            while len(whole) < sum(map(len, expected)):
                whole += await chunk(wire)
            assert sorted(whole) == sorted(b"".join(expected))
        stop()
        if upgrade:
            kind, content = await frame(wire)
            assert (kind, status.GONE.encode() in content) == (code, True)
            assert (await frame(wire))[0] == sockets.CLOSE
            assert await wire.closed() == b""
        else:
            assert await chunk(wire) == form.framed(form.gone())
            assert await chunk(wire) == b""
    assert not [asked for asked in server.asked if b"pgrade" in asked]


async def test_who_says_goodbye_is_let_go() -> None:
    server, stop = Server(JSON), streams.Stopper()

    def handler(there: upstream.Upstream) -> exchange.Handler:
        order = streams.Order(there, "/w", [], paths.parse_query("watch=true"))
        return lambda found: streams.watched(found, order, SIEVE, stop)

    async with asyncio.timeout(20), running(server.play, handler=handler) as proxy:
        wire = await proxy.connect()
        await wire.send(b"\r\n".join((b"GET /w HTTP/1.1", b"Host: h", *OPENING)) + heads.END)
        await wire.head()
        assert (await frame(wire))[0] == sockets.TEXT
        await wire.send(sockets.masked(sockets.PING, b"x") + sockets.masked(sockets.CLOSE))
        rest = [await frame(wire)]
        while rest[-1][0] != sockets.CLOSE:
            rest.append(await frame(wire))
        assert {kind for kind, _ in rest} <= {sockets.PONG, sockets.CLOSE}
        assert await wire.closed() == b""
        assert stop.stopped.is_set()


async def test_half_an_opening_is_refused_before_anybody_is_asked() -> None:
    server = Server(JSON)

    def handler(there: upstream.Upstream) -> exchange.Handler:
        order = streams.Order(there, "/w", [], paths.parse_query("watch=true"))
        return lambda found: streams.watched(found, order, SIEVE, streams.Stopper())

    async with asyncio.timeout(20), running(server.play, handler=handler) as proxy:
        wire = await proxy.connect()
        for lines in (OPENING[:3], (*OPENING[:1], b"Upgrade: SPDY/3.1", *OPENING[2:])):
            head, _ = await wire.get(b"/w", *lines)
            assert head.startswith(b"HTTP/1.1 400 ")
    assert not server.asked
