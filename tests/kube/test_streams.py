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
