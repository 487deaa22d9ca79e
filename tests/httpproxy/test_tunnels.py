"""Upgraded connections: exec, attach, port-forward are nothing else."""

from __future__ import annotations

import asyncio

import pytest

from tenantry.httpproxy import heads

from .conftest import Certificates, Run, proxying, until

SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n"


def asking(protocol: bytes) -> bytes:
    return (
        b"POST /exec HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: "
        + protocol
        + b"\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n"
    )


@pytest.mark.parametrize("protocol", [b"SPDY/3.1", b"websocket"])
@pytest.mark.parametrize("tls", [False, True])
def test_bytes_pass_both_ways(
    run: Run, certificates: Certificates, protocol: bytes, tls: bool
) -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(heads.END)
        assert b"connection: Upgrade" in head
        assert b"upgrade: " + protocol in head
        assert b"x-stream-protocol-version: v4" in head
        writer.write(SWITCH % protocol + b"hello")
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()

    async def test() -> None:
        async with proxying(play, certificates=certificates if tls else None) as proxy:
            wire = await proxy.connect()
            await wire.send(asking(protocol))
            head = await wire.head()
            assert b" 101 " in head
            assert b"upgrade: " + protocol in head
            assert await wire.reader.readexactly(5) == b"hello"
            for size in (1, 1000, 1_000_000):
                await wire.send(b"x" * size)
                assert await wire.reader.readexactly(size) == b"x" * size

    run(test)


def test_what_was_sent_early_is_not_lost(run: Run) -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(heads.END)
        writer.write(SWITCH % b"x")
        writer.write(await reader.readexactly(5))
        await reader.read()

    async def test() -> None:
        async with proxying(play) as proxy:
            wire = await proxy.connect()
            await wire.send(asking(b"x") + b"early")
            await wire.head()
            assert await wire.reader.readexactly(5) == b"early"

    run(test)


def test_each_direction_ends_by_itself(run: Run) -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(heads.END)
        writer.write(SWITCH % b"x")
        everything = await reader.read()
        writer.write(b"%d bytes" % len(everything))
        await writer.drain()

    async def test() -> None:
        async with proxying(play) as proxy:
            wire = await proxy.connect()
            await wire.send(asking(b"x"))
            await wire.head()
            await wire.send(b"x" * 100_000)
            wire.writer.write_eof()
            assert await wire.closed() == b"100000 bytes"
            await until(lambda: not proxy.engine.connections and not proxy.target.open)

    run(test)


@pytest.mark.parametrize("tls", [False, True])
def test_what_the_server_said_last_arrives(run: Run, certificates: Certificates, tls: bool) -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(heads.END)
        writer.write(SWITCH % b"x" + b"y" * 500_000)
        await writer.drain()

    async def test() -> None:
        async with proxying(play, certificates=certificates if tls else None) as proxy:
            wire = await proxy.connect()
            await wire.send(asking(b"x"))
            await wire.head()
            assert len(await wire.closed()) == 500_000
            wire.writer.close()
            await until(lambda: not proxy.engine.connections and not proxy.target.open)

    run(test)


def test_an_upgrade_that_is_refused_is_a_response_like_others(run: Run) -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(heads.END):
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")

    async def test() -> None:
        async with proxying(play) as proxy:
            wire = await proxy.connect()
            for _ in range(2):
                await wire.send(asking(b"x"))
                head, body = await wire.response()
                assert b" 403 " in head
                assert body == b"no"

    run(test)
