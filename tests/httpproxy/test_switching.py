"""Connections whose protocol is spoken by a handler here, not by an upstream."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from tenantry.httpproxy import exchange, upstream

from .conftest import Certificates, Run, proxying, until

ASKING = b"GET /w HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
SMUGGLED = b"GET /admin HTTP/1.1\r\nHost: h\r\n\r\n"


class Speaker:
    """Says hello, and everything back; ends when the client does."""

    def __init__(self) -> None:
        self.heard = bytearray()
        self.over = asyncio.Event()
        self.requests: list[bytes] = []
        self.cancelled = False
        self.done = 0

    def __call__(self, _: upstream.Upstream) -> exchange.Handler:
        return self.handle

    def handle(self, found: exchange.Exchange) -> Coroutine[Any, Any, exchange.Action]:
        self.requests.append(found.head.target)
        found.done = self.count
        return self.speak(found)

    def count(self, _: exchange.Exchange) -> None:
        self.done += 1

    async def speak(self, found: exchange.Exchange) -> exchange.Action:
        def heard(data: bytes) -> None:
            self.heard += data
            found.offer(data)
            if not data or data.endswith(b"bye"):
                self.over.set()

        try:
            found.switch([(b"x-kind", b"mine")], heard)
            await found.write(b"hello")
            await self.over.wait()
            await found.write(b"goodbye")
            found.end()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return None


def test_what_follows_is_the_handlers_and_no_request(run: Run, certificates: Certificates) -> None:
    for tls in (None, certificates):

        async def test(tls: Certificates | None = tls) -> None:
            speaker = Speaker()
            async with proxying(port=1, handler=speaker, certificates=tls) as proxy:
                wire = await proxy.connect()
                await wire.send(ASKING + SMUGGLED)
                head = await wire.head()
                assert head.startswith(b"HTTP/1.1 101 ")
                for line in (b"connection: Upgrade", b"upgrade: websocket", b"x-kind: mine"):
                    assert line in head
                assert b"transfer-encoding" not in head
                said = SMUGGLED + b"x" * 100_000 + b"bye"
                await wire.send(said[len(SMUGGLED) :])
                assert sorted(await wire.closed()) == sorted(b"hello" + said + b"goodbye")
                assert speaker.heard == said
                assert speaker.requests == [b"/w"]
                assert speaker.done == 1

        run(test)


def test_who_leaves_is_noticed(run: Run) -> None:
    async def test() -> None:
        for way in ("half", "reset"):
            speaker = Speaker()
            async with proxying(port=1, handler=speaker) as proxy:
                wire = await proxy.connect()
                await wire.send(ASKING)
                await wire.head()
                assert await wire.reader.readexactly(5) == b"hello"
                if way == "half":
                    wire.writer.write_eof()
                    assert await wire.closed() == b"goodbye"
                else:
                    wire.writer.transport.abort()
                await until(lambda speaker=speaker: speaker.done == 1)  # type: ignore[misc]
                # Either it heard the end, or it was ended.
                assert speaker.over.is_set() or speaker.cancelled

    run(test)


def test_who_does_not_read_is_not_answered_without_end(run: Run) -> None:
    async def test() -> None:
        speaker = Speaker()
        async with proxying(port=1, handler=speaker) as proxy:
            wire = await proxy.connect()
            wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await wire.send(ASKING)
            for _ in range(300):
                await wire.send(b"y" * 65536)
            await until(lambda: len(speaker.heard) == 300 * 65536)
            (held,) = proxy.engine._connections
            transport = held._transport
            assert transport is not None
            assert not held.writable

    run(test)
