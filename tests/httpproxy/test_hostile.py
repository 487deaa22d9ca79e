"""Clients that attack the engine, over real sockets."""

from __future__ import annotations

import asyncio

import pytest

from tenantry.httpproxy import server

from .conftest import Run, forward, proxying, serve, until

QUICK = server.Settings(
    head_timeout=0.3, body_timeout=0.3, idle_timeout=0.3, linger=0.2, head_limit=16384
)
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nContent-Length: 40\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0;x=\n\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\naa\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nX: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\nHost: h\n\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nConnection: Content-Length\r\n\r\n",
    ],
)
def test_a_smuggled_request_never_arrives(run: Run, request_bytes: bytes) -> None:
    seen: list[bytes] = []

    async def test() -> None:
        async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            def answer(head: bytes, _: bytes) -> bytes:
                seen.append(head)
                return b"ok"

            await serve(reader, writer, answer)

        async with proxying(play, settings=QUICK) as proxy:
            wire = await proxy.connect()
            await wire.send(request_bytes + SMUGGLED)
            answer = await wire.closed()
            # Bare LFs never end a head: that client is told that its head did not come in time.
            assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 408 ", b"HTTP/1.1 501 "))
            assert answer.count(b"HTTP/1.1 ") == 1

    run(test)
    assert not any(b"smuggled" in head for head in seen)


def test_a_head_that_never_ends_is_refused(run: Run) -> None:
    async def test() -> None:
        async with proxying(serve, settings=QUICK) as proxy:
            wire = await proxy.connect()
            await wire.send(b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"a" * 20000)
            assert (await wire.closed()).startswith(b"HTTP/1.1 431 ")

    run(test)


def test_a_mebibyte_of_headers_is_refused_by_default(run: Run) -> None:
    async def test() -> None:
        async with proxying(serve) as proxy:
            wire = await proxy.connect()
            await wire.send(b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"a" * (1 << 20) + b"\r\n\r\n")
            head, _ = await wire.response()
            assert head.startswith(b"HTTP/1.1 431 ")

    run(test)


def test_a_head_that_trickles_has_no_more_time_than_others(run: Run) -> None:
    async def test() -> None:
        async with proxying(serve, settings=QUICK) as proxy:
            wire = await proxy.connect()

            async def trickle() -> None:
                for byte in b"GET / HTTP/1.1\r\nHost: h\r\nX-Long: " + b"a" * 1000:
                    await wire.send(bytes((byte,)))
                    await asyncio.sleep(0.05)

            trickling = asyncio.create_task(trickle())
            assert (await wire.closed()).startswith(b"HTTP/1.1 408 ")
            trickling.cancel()
            await asyncio.gather(trickling, return_exceptions=True)

    run(test)


def test_a_body_that_does_not_come_is_not_waited_for(run: Run) -> None:
    async def test() -> None:
        async with proxying(serve, settings=QUICK) as proxy:
            wire = await proxy.connect()
            await wire.send(b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc")
            assert (await wire.closed()).startswith(b"HTTP/1.1 408 ")
            await until(lambda: not proxy.target.open)

    run(test)


@pytest.mark.parametrize("first", [b"", b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"])
def test_an_idle_connection_is_closed_in_time(run: Run, first: bytes) -> None:
    async def test() -> None:
        async with proxying(serve, settings=QUICK) as proxy:
            wire = await proxy.connect()
            await wire.send(first)
            answer = await wire.closed()
            assert answer.endswith(b"ok") if first else answer == b""

    run(test)


def test_a_server_that_does_not_answer_is_given_up(run: Run) -> None:
    async def silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def test() -> None:
        quick = lambda target: forward(target, timeout=0.2)  # noqa: E731
        async with proxying(silent, handler=quick) as proxy:
            wire = await proxy.connect()
            head, _ = await wire.get()
            assert head.startswith(b"HTTP/1.1 504 ")
            await wire.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab")
            head, _ = await wire.response()
            assert head.startswith(b"HTTP/1.1 504 ")

    run(test)


def test_requests_ahead_of_their_turn_do_not_pile_up(run: Run) -> None:
    async def test() -> None:
        async def silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(30)

        async with proxying(silent) as proxy:
            wire = await proxy.connect()
            one = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
            wire.writer.write(one + one * 2_000_000)
            before = -1
            while (left := wire.writer.transport.get_write_buffer_size()) != before:
                before = left
                await asyncio.sleep(0.1)
            # Megabytes stay with the sender, because nobody reads them.
            assert left > 10_000_000

    run(test)
