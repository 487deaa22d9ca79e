"""Requests through the proxy, both loops, with raw sockets at both ends."""

from __future__ import annotations

import asyncio

import pytest

from tenantry.httpproxy import connections, exchange, heads, server, upstream

from .conftest import Certificates, Run, Wire, forward, playing, proxying, serve, until


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer with the body that came, or with the head."""
    await serve(reader, writer, lambda head, body: body or head)


def test_a_connection_serves_many_requests(run: Run) -> None:
    async def test() -> None:
        async with proxying(echo) as proxy:
            wire = await proxy.connect()
            for number in range(5):
                _, body = await wire.get(b"/n/%d" % number, b"X-Mine: 1")
                assert body.startswith(b"GET /n/%d HTTP/1.1\r\n" % number)
                assert b"x-mine: 1" in body
            assert proxy.target.open == 1

    run(test)


def test_both_hops_over_tls(run: Run, certificates: Certificates) -> None:
    async def test() -> None:
        async with proxying(echo, certificates=certificates) as proxy:
            wire = await proxy.connect()
            for _ in range(3):
                _, body = await wire.get(b"/tls")
                assert body.startswith(b"GET /tls")
            big = b"x" * 3_000_000
            await wire.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3000000\r\n\r\n" + big)
            _, body = await wire.response()
            assert body == big

    run(test)


def test_the_handler_sees_a_verified_certificate(run: Run, certificates: Certificates) -> None:
    seen: list[exchange.Peer] = []

    def look(_: upstream.Upstream) -> exchange.Handler:
        def handle(found: exchange.Exchange) -> exchange.Action:
            seen.append(found.peer)
            return exchange.Answer(200)

        return handle

    async def test() -> None:
        async with proxying(echo, handler=look, certificates=certificates) as proxy:
            await (await proxy.connect()).get()
            await (await proxy.connect(certificates.client("alice"))).get()

    run(test)
    assert not seen[0].certificate
    assert seen[1].certificate
    assert seen[1].tls


def test_pipelined_requests_are_answered_in_order(run: Run) -> None:
    async def test() -> None:
        async with proxying(echo) as proxy:
            wire = await proxy.connect()
            await wire.send(
                b"".join(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % number for number in range(20))
            )
            for number in range(20):
                _, body = await wire.response()
                assert body.startswith(b"GET /%d " % number)

    run(test)


def test_a_request_may_come_byte_by_byte(run: Run) -> None:
    async def test() -> None:
        async with proxying(echo) as proxy:
            wire = await proxy.connect()
            for byte in b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n":
                await wire.send(bytes((byte,)))
            for byte in b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n":
                await wire.send(bytes((byte,)))
            _, body = await wire.response()
            assert body == b"abcde"
            _, body = await wire.get(b"/after")
            assert body.startswith(b"GET /after")

    run(test)


def test_a_stream_passes_piece_by_piece(run: Run) -> None:
    async def test() -> None:
        go = asyncio.Event()

        async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(heads.END)
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            writer.write(b"4\r\none\n\r\n")
            await go.wait()
            writer.write(b"4\r\ntwo\n\r\n0\r\n\r\n")
            await writer.drain()
            await reader.read()

        async with proxying(stream) as proxy:
            wire = await proxy.connect()
            await wire.send(b"GET /watch HTTP/1.1\r\nHost: h\r\n\r\n")
            assert b"transfer-encoding: chunked" in await wire.head()
            assert await wire.reader.readexactly(9) == b"4\r\none\n\r\n"
            go.set()
            assert await wire.reader.readexactly(14) == b"4\r\ntwo\n\r\n0\r\n\r\n"

    run(test)


def test_a_body_until_the_connections_end_is_framed_anew(run: Run) -> None:
    async def old(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(heads.END)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nsome")
        await writer.drain()
        writer.write(b"thing")
        await writer.drain()
        writer.close()

    async def test() -> None:
        async with proxying(old) as proxy:
            wire = await proxy.connect()
            head, body = await wire.get()
            assert b"transfer-encoding: chunked" in head
            assert body == b"something"
            assert (await wire.get())[1] == b"something"

    run(test)


def test_a_response_to_head_keeps_its_length(run: Run) -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(heads.END):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n")

    async def test() -> None:
        async with proxying(play) as proxy:
            wire = await proxy.connect()
            for _ in range(2):
                await wire.send(b"HEAD / HTTP/1.1\r\nHost: h\r\n\r\n")
                assert b"content-length: 7" in await wire.head()

    run(test)


def test_continue_is_the_upstreams_to_say(run: Run) -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert b"expect: 100-continue" in await reader.readuntil(heads.END)
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await reader.readexactly(3)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n" + body)
        await reader.read()

    async def test() -> None:
        async with proxying(play) as proxy:
            wire = await proxy.connect()
            await wire.send(
                b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
            )
            assert await wire.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
            await wire.send(b"abc")
            assert (await wire.response())[1] == b"abc"

    run(test)


def test_a_refusal_before_the_body_came_ends_the_connection(run: Run) -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(heads.END)
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
        await reader.read()

    async def test() -> None:
        async with proxying(play) as proxy:
            wire = await proxy.connect()
            await wire.send(b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 900\r\n\r\nabc")
            head, body = await wire.response()
            assert b"413" in head
            assert b"connection: close" in head
            assert body == b"no"
            assert await wire.closed() == b""

    run(test)


def test_an_idle_connection_that_the_server_closed_costs_nothing(run: Run) -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(heads.END)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()
        # A next request on this connection is cut without an answer.
        await reader.readuntil(heads.END)

    async def test() -> None:
        async with proxying(once) as proxy:
            wire = await proxy.connect()
            for _ in range(4):
                assert (await wire.get())[1] == b"ok"

    run(test)


def test_a_cut_write_is_not_repeated(run: Run) -> None:
    requests: list[bytes] = []

    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(heads.END)
            requests.append(head.split(b"\r\n")[0])
            if head.startswith(b"POST"):
                return
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async def test() -> None:
        async with proxying(cut) as proxy:
            wire = await proxy.connect()
            await wire.get()
            await wire.send(b"POST /once HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
            head, _ = await wire.response()
            assert b"502" in head

    run(test)
    assert requests == [b"GET / HTTP/1.1", b"POST /once HTTP/1.1"]


def test_no_server_is_said_so_and_when_to_try_again(run: Run) -> None:
    async def test() -> None:
        async with playing(echo) as port:
            pass
        async with proxying(port=port) as proxy:
            wire = await proxy.connect()
            head, _ = await wire.get()
            assert b"503" in head
            assert b"retry-after: 1" in head
            assert b"503" in (await wire.get())[0]

    run(test)


def test_a_dead_server_is_passed_over(run: Run) -> None:
    async def test() -> None:
        async with playing(echo) as dead:
            pass
        async with playing(echo) as alive:
            addresses = [connections.Address("127.0.0.1", port) for port in (dead, alive)]
            both = upstream.Upstream(addresses)
            try:
                for _ in range(6):
                    connection = await both.connect()
                    assert connection.address.port == alive
                    connection.kill()
            finally:
                both.close()

    run(test)


def test_a_response_cut_short_is_cut_short_for_the_client(run: Run) -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(heads.END)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        await writer.drain()

    async def test() -> None:
        async with proxying(play) as proxy:
            wire = await proxy.connect()
            await wire.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            rest = await wire.closed()
            assert not rest.endswith(b"0\r\n\r\n")

    run(test)


@pytest.mark.parametrize(
    "broken",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
        b"nonsense\r\n\r\n",
    ],
)
def test_a_broken_response_is_no_response(run: Run, broken: bytes) -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(heads.END)
        writer.write(broken)
        await reader.read()

    async def test() -> None:
        async with proxying(play) as proxy:
            head, _ = await (await proxy.connect()).get()
            assert b" 502 " in head

    run(test)


def test_a_slow_reader_holds_the_sender_back(run: Run) -> None:
    total = 64 * 1024 * 1024
    sent = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(heads.END)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % total)
        piece = b"x" * 65536
        while sent < total:
            writer.write(piece)
            await writer.drain()
            sent += len(piece)
        await reader.read()

    async def test() -> None:
        async with proxying(flood) as proxy:
            wire = await proxy.connect()
            wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await wire.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            before = -1
            while before != sent or not sent:
                before = sent
                await asyncio.sleep(0.1)
            # What is under way is in socket buffers and bounded ones of ours.
            assert sent < total / 2
            wire.writer.transport.resume_reading()  # type: ignore[attr-defined]
            await wire.head()
            assert len(await wire.reader.readexactly(total)) == total

    run(test)


def test_a_client_that_leaves_frees_the_upstream(run: Run) -> None:
    async def test() -> None:
        left = asyncio.Event()

        async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(heads.END)
            await reader.read()
            left.set()

        async with proxying(hang) as proxy:
            wire = await proxy.connect()
            await wire.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            await until(lambda: proxy.target.open == 1)
            wire.writer.transport.abort()
            await left.wait()

    run(test)


def test_a_handlers_crash_is_an_answer(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: upstream.Upstream) -> exchange.Handler:
        def handle(found: exchange.Exchange) -> exchange.Action:
            raise RuntimeError(found.head.target.decode())

        return handle

    async def test() -> None:
        async with proxying(echo, handler=broken) as proxy:
            wire = await proxy.connect()
            for _ in range(2):
                head, body = await wire.get()
                assert b" 500 " in head
                assert b"Runtime" not in body

    run(test)
    assert "handler_crashed" in caplog.text


def test_a_refusal_can_be_replaced(run: Run) -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(heads.END)
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nX-A: b\r\n\r\n")
            writer.write(b"no" if b"/a" in head else b"NO")

    async def replace(body: bytes) -> exchange.Answer | None:
        return exchange.Answer(404, b"gone") if body == b"no" else None

    async def test() -> None:
        made = lambda target: forward(target, replace={403: replace})  # noqa: E731
        async with proxying(play, handler=made) as proxy:
            wire = await proxy.connect()
            head, body = await wire.get(b"/a")
            assert (b" 404 " in head, body) == (True, b"gone")
            head, body = await wire.get(b"/b")
            assert (b" 403 " in head, b"x-a: b" in head, body) == (True, True, b"NO")

    run(test)


def test_the_end_of_a_stream_can_be_ours(run: Run) -> None:
    open_exchanges: list[exchange.Exchange] = []

    async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(heads.END)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n")
        await reader.read()

    def keeping(target: upstream.Upstream) -> exchange.Handler:
        plain = forward(target)

        def handle(found: exchange.Exchange) -> exchange.Action:
            open_exchanges.append(found)
            action = plain(found)
            assert isinstance(action, exchange.Forward)
            return action

        return handle

    async def test() -> None:
        async with proxying(stream, handler=keeping) as proxy:
            wire = await proxy.connect()
            await wire.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            await wire.head()
            assert await wire.reader.readexactly(9) == b"4\r\none\n\r\n"
            open_exchanges[0].interrupt(b"gone\n")
            assert await wire.reader.readexactly(15) == b"5\r\ngone\n\r\n0\r\n\r\n"
            # The connection goes on.
            await wire.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            await wire.head()

    run(test)


def test_drain_lets_what_is_under_way_finish(run: Run) -> None:
    """Defect D18 of Capsule Proxy: a stop cut off whatever was under way."""

    async def test() -> None:
        go, asked = asyncio.Event(), asyncio.Event()

        async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(heads.END)
            asked.set()
            await go.wait()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            await reader.read()

        # The idle client does not close when it hears of the end.
        async with proxying(slow, settings=server.Settings(linger=0.1)) as proxy:
            idle, busy = await proxy.connect(), await proxy.connect()
            await busy.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            await asked.wait()
            draining = asyncio.create_task(proxy.engine.drain(5.0))
            assert await idle.closed() == b""
            go.set()
            head, body = await busy.response()
            assert body == b"ok"
            assert b"connection: close" in head
            await draining
            assert proxy.engine.connections == 0

    run(test)


def test_a_server_that_came_back_is_used(run: Run) -> None:
    async def test() -> None:
        async with playing(echo) as port:
            pass
        async with proxying(port=port, settings=server.Settings()) as proxy:
            wire: Wire = await proxy.connect()
            assert b" 503 " in (await wire.get())[0]
            async with playing(echo, port=port):
                assert b" 200 " in (await wire.get())[0]

    run(test)
