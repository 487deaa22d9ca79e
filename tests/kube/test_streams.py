"""Watches that are refused, cut or closed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.kube import conftest

from tenantry.api import resources
from tenantry.kube import errors, watch

Start = Callable[..., Awaitable[conftest.Scripted]]


ADDED = b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"7"}}}\n'


@pytest.mark.parametrize(
    "begin",
    [
        conftest.STREAM + conftest.chunk(ADDED),
        conftest.STREAM + conftest.chunk(ADDED + b'{"type":"MOD'),
        conftest.STREAM + conftest.chunk(ADDED + b'{"type":"MOD') + b"0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + ADDED + b'{"ty',
    ],
    ids=["conftest.cut between", "conftest.cut within", "ended within", "until close"],
)
async def test_cut_watch_gives_whole_lines_then_says_so(scripted: Start, begin: bytes) -> None:
    server = await scripted(conftest.cut(begin))
    seen: list[bytes] = []
    async with conftest.connect(server) as connected, connected.watch(resources.PODS) as stream:
        with pytest.raises(errors.Unreachable, match=r"watch /api/v1/pods"):
            async for lines in stream.batches():
                seen += lines
    assert [watch.decode(line).type for line in seen] == ["ADDED"]


async def test_watch_refused_on_entering(scripted: Start) -> None:
    busy = conftest.reply(429, conftest.status(429, "TooManyRequests"), Retry_After="0")
    server = await scripted(busy, conftest.reply(410, conftest.status(410, "Expired")))
    async with conftest.connect(server) as connected:
        with pytest.raises(errors.Gone):
            async with connected.watch(resources.PODS, resource_version="1", timeout_seconds=30):
                pytest.fail("entered")
    assert len(server.heads) == 2
    assert server.heads[0].startswith(
        "GET /api/v1/pods?watch=true&allowWatchBookmarks=true&resourceVersion=1&timeoutSeconds=30 "
    )


async def test_watch_that_never_begins(scripted: Start) -> None:
    server = await scripted(conftest.silence)
    async with conftest.connect(server, timeout=0.2) as connected:
        with pytest.raises(errors.Unreachable, match=r"no answer within 0\.[12]"):
            async with connected.watch(resources.PODS):
                pytest.fail("entered")


async def test_refusal_of_a_watch_whose_reason_is_cut(scripted: Start) -> None:
    server = await scripted(conftest.cut(b"HTTP/1.1 403 X\r\nContent-Length: 100\r\n\r\n{"))
    async with conftest.connect(server) as connected:
        with pytest.raises(errors.Forbidden):
            async with connected.watch(resources.PODS):
                pytest.fail("entered")


async def test_watch_must_be_entered(scripted: Start) -> None:
    server = await scripted(conftest.reply(200))
    async with conftest.connect(server) as connected:
        with pytest.raises(RuntimeError, match="enter the watch"):
            await anext(aiter(connected.watch(resources.PODS)))


async def test_closing_the_client_ends_its_watches(scripted: Start) -> None:
    async def begin(_head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(conftest.STREAM + conftest.chunk(ADDED))
        await reader.read()
        raise ConnectionResetError

    server = await scripted(begin)
    connected = conftest.connect(server)
    async with connected.watch(resources.PODS) as stream:
        lines = aiter(stream)
        await anext(lines)
        await connected.close()
        with pytest.raises(errors.Unreachable):
            await anext(lines)


@pytest.mark.parametrize(
    "wire",
    [
        conftest.STREAM + conftest.chunk(ADDED) + b"ff;x=y\r\n" + b" " * 254 + b"\n\r\n0\r\n\r\n",
        conftest.STREAM + conftest.chunk(ADDED) + b"0\r\nTrailer: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(ADDED) + ADDED,
    ],
    ids=["extension", "trailer", "length"],
)
@pytest.mark.parametrize("size", [1, 7, 1 << 16])
async def test_watch_that_ends_in_order(scripted: Start, wire: bytes, size: int) -> None:
    async def begin(
        _head: str, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        for start in range(0, len(wire), size):
            writer.write(wire[start : start + size])
            await asyncio.sleep(0)
        await writer.drain()

    server = await scripted(begin)
    async with conftest.connect(server) as connected, connected.watch(resources.PODS) as stream:
        assert [watch.decode(line).type async for line in stream] == ["ADDED"]


async def test_watch_with_an_endless_head(scripted: Start) -> None:
    endless = conftest.cut(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000)
    server = await scripted(endless, endless)
    async with conftest.connect(server, timeout=2) as connected:
        with pytest.raises(errors.KubeError):
            async with connected.watch(resources.PODS):
                pytest.fail("entered")


async def test_watch_whose_chunks_lie(scripted: Start) -> None:
    server = await scripted(conftest.cut(conftest.STREAM + conftest.chunk(ADDED) + b"1\r\nabc"))
    async with conftest.connect(server) as connected, connected.watch(resources.PODS) as stream:
        with pytest.raises(errors.Unreachable):
            async for _ in stream:
                pass
