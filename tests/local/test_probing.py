from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tenantry.core import clock
from tenantry.local import plane, probing
from tenantry.pki import authority


@asynccontextmanager
async def serving(
    answer: bytes, context: ssl.SSLContext | None = None, seen: list[bytes] | None = None
) -> AsyncIterator[str]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if seen is not None:
            seen.append(request)
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield f"{'https' if context else 'http'}://127.0.0.1:{port}/readyz?verbose"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\nok", ""),
        (b"HTTP/1.0 200 OK\r\n\r\n", ""),
        (b"HTTP/1.1 500 Oh\r\n\r\n", "answered 500"),
        (b"SSH-2.0-x\r\n", "does not speak HTTP"),
        (b"", "does not speak HTTP"),
    ],
)
async def test_answers(answer: bytes, expected: str) -> None:
    async with serving(answer) as url:
        assert await probing.ask(plane.Probe(url=url)) == expected


async def test_the_request() -> None:
    seen: list[bytes] = []
    async with serving(b"HTTP/1.1 200 OK\r\n\r\n", seen=seen) as url:
        await probing.ask(plane.Probe(url=url))
    assert seen[0].startswith(b"GET /readyz?verbose HTTP/1.1\r\nHost: 127.0.0.1:")


async def test_nobody_listens() -> None:
    assert await probing.ask(plane.Probe(url="http://127.0.0.1:9/")) == "does not listen yet"


async def test_no_answer() -> None:
    silent = asyncio.Event()

    async def handle(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await silent.wait()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        probe = plane.Probe(url=f"http://127.0.0.1:{port}/")
        assert await probing.ask(probe, timeout=0.1) == "no answer within 0.1 s"
        silent.set()


@pytest.fixture
def pki(tmp_path: Path) -> Callable[[str, bytes], Path]:
    def write(name: str, content: bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


async def test_both_sides_show_their_certificate(pki: Callable[[str, bytes], Path]) -> None:
    now = clock.wall()
    ca, foreign = (authority.Authority.create(name, now) for name in ("own", "foreign"))
    served = ca.issue_server(["127.0.0.1"], now)
    client = ca.issue_client("prober", [], now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki("s.crt", served.cert), pki("s.key", served.key))
    context.load_verify_locations(cadata=ca.cert.decode())
    context.verify_mode = ssl.CERT_REQUIRED
    cert, key = pki("c.crt", client.cert), pki("c.key", client.key)
    async with serving(b"HTTP/1.1 200 OK\r\n\r\n", context) as url:
        good = plane.Probe(url=url, ca=pki("ca.crt", ca.cert), cert=cert, key=key)
        assert await probing.ask(good) == ""
        bad = plane.Probe(url=url, ca=pki("f.crt", foreign.cert), cert=cert, key=key)
        assert "certificate verify failed" in await probing.ask(bad)
