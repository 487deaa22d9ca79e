"""Ends of connections: whoever speaks last is heard, on both hops, over TCP and TLS."""

from __future__ import annotations

import array
import asyncio
import contextlib
import fcntl
import os
import socket
import ssl
import struct
import termios
from collections.abc import AsyncIterator

import pytest

from tenantry.httpproxy import heads, reading, server, wire

from .conftest import Certificates, Proxy, Run, proxying, serve, until
from .test_tunnels import SWITCH, asking

BOTH = pytest.mark.parametrize("tls", [False, True], ids=["tcp", "tls"])
#: So long that a proxy whose client does not read leaves some of it in its kernel, unread.
LAST = b"".join(b"%07d\n" % number for number in range(22_000))


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with a reset, as the kernel does by itself where bytes were not read."""
    found = writer.get_extra_info("socket")
    found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def arrived(writer: asyncio.StreamWriter) -> None:
    """Wait until the other end's kernel has all that was written: a reset would drop the rest."""

    def left() -> int:
        found = array.array("i", [0])
        fcntl.ioctl(writer.get_extra_info("socket").fileno(), termios.TIOCOUTQ, found)
        return found[0] + int(writer.transport.get_write_buffer_size())

    await until(lambda: left() == 0)


class Talker:
    """Speaks over a wire of its own, since the loops' transports know no half-close over TLS."""

    def __init__(self) -> None:
        self.got = b""
        self.pausing = False
        """stop reading after the first head"""
        self.ended = asyncio.Event()
        self.lost = asyncio.Event()
        self.error: Exception | None = None

    def connection_made(self, made: wire.Wire) -> None:
        self.wire = made

    def data_received(self, data: bytes) -> None:
        self.got += data
        if self.pausing and heads.END in self.got:
            self.pausing = False
            self.wire.pause_reading()

    def eof_received(self) -> bool:
        self.ended.set()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self.error = error
        self.lost.set()

    def pause_writing(self) -> None:
        pass

    def resume_writing(self) -> None:
        pass

    @property
    def body(self) -> bytes:
        return self.got.partition(heads.END)[2]

    async def everything(self) -> bytes:
        """Read to the end, whatever that is; return what came after the head."""
        self.wire.resume_reading()
        ends = [asyncio.ensure_future(one.wait()) for one in (self.ended, self.lost)]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        return self.body


async def talk(port: int, tls: ssl.SSLContext | None, plain: socket.socket | None = None) -> Talker:
    loop, talker = asyncio.get_running_loop(), Talker()
    hostname = "127.0.0.1" if tls else None
    made = wire.Wire(talker, reading.Buffer(), tls=tls, hostname=hostname)
    made.ready = loop.create_future()
    if plain is None:
        plain = socket.socket()
        plain.setblocking(False)
    await loop.sock_connect(plain, ("127.0.0.1", port))
    await loop.create_connection(lambda: made, sock=plain)
    await made.ready
    return talker


@contextlib.asynccontextmanager
async def asking_slowly(
    proxy: Proxy, tls: ssl.SSLContext | None, request: bytes
) -> AsyncIterator[Talker]:
    """Ask, read a head and stop; little fits between the proxy and us, so that it stops, too."""
    for one in proxy.engine.sockets:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.setblocking(False)
    talker = await talk(proxy.engine.port, tls, plain)
    try:
        talker.pausing = True
        talker.wire.write(request)
        await until(lambda: heads.END in talker.got)
        yield talker
    finally:
        talker.wire.abort()
        await talker.lost.wait()


async def says_more(client: Talker, proxy: Proxy) -> None:
    """Let the proxy try to pass on something: nothing else tells it of a reset while it waits.

    More than once, as the first try may come before the reset does.
    """

    def left() -> bool:
        client.wire.write(b"x" * 16)
        return not proxy.target.open

    await until(left)


@BOTH
def test_what_a_server_said_before_it_left_a_tunnel(
    run: Run, certificates: Certificates, tls: bool
) -> None:
    """It ends with a reset while the client still sends, and the proxy has not read all of it."""

    async def test() -> None:
        gone = asyncio.Event()

        async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(heads.END)
            writer.write(SWITCH % b"x")
            writer.write(LAST)
            await arrived(writer)
            reset(writer)
            gone.set()

        async with (
            proxying(play, certificates=certificates if tls else None) as proxy,
            asking_slowly(proxy, certificates.client() if tls else None, asking(b"x")) as client,
        ):
            await gone.wait()
            await says_more(client, proxy)
            assert await client.everything() == LAST
            client.wire.close()
            await until(lambda: not proxy.engine.connections)

    run(test)


@BOTH
def test_what_a_client_said_before_it_left_a_tunnel(
    run: Run, certificates: Certificates, tls: bool
) -> None:
    async def test() -> None:
        gone, heard = asyncio.Event(), asyncio.Event()
        got = b""

        async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal got
            await reader.readuntil(heads.END)
            writer.write(SWITCH % b"x")
            await gone.wait()
            writer.write(b"more")
            with contextlib.suppress(ConnectionError):
                while piece := await reader.read(65536):
                    got += piece
            heard.set()

        async with proxying(play, certificates=certificates if tls else None) as proxy:
            client = await proxy.connect()
            await client.send(asking(b"x"))
            await client.head()
            await client.send(LAST)
            await arrived(client.writer)
            reset(client.writer)
            gone.set()
            await heard.wait()
            assert got == LAST

    run(test)


@BOTH
@pytest.mark.parametrize("chunked", [False, True])
def test_a_refusal_while_the_client_still_sends(
    run: Run, certificates: Certificates, tls: bool, chunked: bool
) -> None:
    """As 413 of a server that reads no more and closes: it resets what is still sent to it."""
    upload = b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000\r\n\r\n"

    async def test() -> None:
        gone = asyncio.Event()

        async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(heads.END)
            writer.write(b"HTTP/1.1 413 Too Large\r\nConnection: close\r\n")
            if chunked:
                body = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"
            else:
                body = b"Content-Length: %d\r\n\r\n%s"
            writer.write(body % (len(LAST), LAST))
            await arrived(writer)
            reset(writer)
            gone.set()

        async with (
            proxying(play, certificates=certificates if tls else None) as proxy,
            asking_slowly(proxy, certificates.client() if tls else None, upload) as client,
        ):
            await gone.wait()
            await says_more(client, proxy)
            # It sends on, before and while it reads.
            client.wire.write(b"x" * 500_000)
            told = await client.everything()
            assert b" 413 " in client.got
            assert told == (b"%x\r\n%s\r\n0\r\n\r\n" % (len(LAST), LAST) if chunked else LAST)

    run(test)


@BOTH
def test_an_answer_is_not_reset_by_what_nobody_read(
    run: Run, certificates: Certificates, tls: bool
) -> None:
    """The client sends on while it has read almost nothing, and all of the answer is on its way."""

    async def test() -> None:
        done = asyncio.Event()

        async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(heads.END)
            writer.write(SWITCH % b"x")
            writer.write(LAST)
            await writer.drain()
            # This ends both directions, as programs do that know no half-close.
            writer.close()
            done.set()

        async with (
            proxying(play, certificates=certificates if tls else None) as proxy,
            asking_slowly(proxy, certificates.client() if tls else None, asking(b"x")) as client,
        ):
            client.wire.write(b"x" * 500_000)
            await done.wait()
            client.wire.write(b"x" * 500_000)
            assert await client.everything() == LAST

    run(test)


class Counter(Talker):
    """Answers how much it heard, after it heard all."""

    def eof_received(self) -> bool:
        self.wire.write(self.got[-10:] + b": %d bytes" % len(self.got))
        self.wire.write_eof()
        return True


@contextlib.asynccontextmanager
async def counting(tls: ssl.SSLContext | None) -> AsyncIterator[int]:
    buffer = reading.Buffer()
    listening = await asyncio.get_running_loop().create_server(
        lambda: wire.Wire(Counter(), buffer, tls=tls), "127.0.0.1", 0
    )
    yield listening.sockets[0].getsockname()[1]
    listening.close()


@BOTH
def test_a_direction_ends_by_itself(run: Run, certificates: Certificates, tls: bool) -> None:
    async def test() -> None:
        async with counting(certificates.server() if tls else None) as port:
            talker = await talk(port, certificates.client() if tls else None)
            talker.wire.write(LAST)
            talker.wire.write(b"the end.\r\n")
            talker.wire.write_eof()
            await talker.ended.wait()
            await talker.lost.wait()
            assert talker.got == b"the end.\r\n: %d bytes" % (len(LAST) + 10)
            assert talker.error is None

    run(test)


def test_a_direction_of_a_tunnel_over_tls_ends_by_itself(
    run: Run, certificates: Certificates
) -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise AssertionError("not asked")

    class Server(Counter):
        def data_received(self, data: bytes) -> None:
            if not self.got and heads.END in data:
                self.wire.write(SWITCH % b"x")
                self.got += data.partition(heads.END)[2]
            else:
                self.got += data

    async def test() -> None:
        buffer = reading.Buffer()
        listening = await asyncio.get_running_loop().create_server(
            lambda: wire.Wire(Server(), buffer, tls=certificates.server()), "127.0.0.1", 0
        )
        port = listening.sockets[0].getsockname()[1]
        async with proxying(None, certificates=certificates, port=port) as proxy:
            talker = await talk(proxy.engine.port, certificates.client())
            talker.wire.write(asking(b"x"))
            await until(lambda: heads.END in talker.got)
            talker.wire.write(LAST)
            talker.wire.write_eof()
            await talker.ended.wait()
            assert talker.body == LAST[-10:] + b": %d bytes" % len(LAST)
            await until(lambda: not proxy.engine.connections and not proxy.target.open)
        listening.close()

    run(test)


def test_an_end_that_tls_did_not_say_is_no_end(run: Run, certificates: Certificates) -> None:
    """Anybody on the way can end a TCP connection: a body without a length is not whole then."""

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(heads.END)
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nsome")
        await writer.drain()
        await arrived(writer)
        with socket.socket(fileno=os.dup(writer.get_extra_info("socket").fileno())) as under:
            under.shutdown(socket.SHUT_WR)
        await reader.read()

    async def test() -> None:
        async with proxying(play, certificates=certificates) as proxy:
            client = await proxy.connect()
            await client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            told = await client.closed()
            assert b"some" in told
            assert not told.endswith(b"0\r\n\r\n")

    run(test)


def test_who_shakes_no_hands_is_sent_away(run: Run, certificates: Certificates) -> None:
    settings = server.Settings(handshake_timeout=0.2)

    async def test() -> None:
        async with proxying(serve, settings=settings, certificates=certificates) as proxy:
            for said in (b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n", b"\x16" * 100_000):
                reader, writer = await asyncio.open_connection("127.0.0.1", proxy.engine.port)
                writer.write(said)
                with contextlib.suppress(ConnectionError):
                    assert b"HTTP" not in await reader.read()
                writer.close()
            assert proxy.engine.connections == 0
            assert (await (await proxy.connect()).get())[1] == b"ok"

    run(test)


def test_a_server_that_is_somebody_else_is_not_spoken_to(
    run: Run, certificates: Certificates
) -> None:
    async def test() -> None:
        async with counting(certificates.server()) as port:
            with pytest.raises(ssl.SSLCertVerificationError):
                await talk(port, ssl.create_default_context())

    run(test)


@BOTH
@pytest.mark.parametrize("talks", [False, True])
def test_an_end_has_an_end(run: Run, certificates: Certificates, tls: bool, talks: bool) -> None:
    """Whoever does not close, or sends on for ever, is cut off."""

    async def test() -> None:
        limits = wire.Limits(linger=0.1, longest=0.5, stall=0.3)
        made: list[wire.Wire] = []
        buffer = reading.Buffer()

        def accept() -> wire.Wire:
            context = certificates.server() if tls else None
            made.append(wire.Wire(Talker(), buffer, tls=context, limits=limits))
            return made[-1]

        listening = await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        talker = await talk(port, certificates.client() if tls else None)
        talker.wire.write(b"hello")
        served = made[0]
        await until(lambda: bool(served._user.got))  # type: ignore[attr-defined]
        # More than the kernel takes, of which nothing is read.
        if not talks:
            talker.wire.pause_reading()
            served.write(b"x" * 30_000_000)
        served.close()
        while not served._user.lost.is_set():  # type: ignore[attr-defined]
            if talks:
                talker.wire.write(b"x")
            await asyncio.sleep(0.01)
        listening.close()
        talker.wire.abort()
        await talker.lost.wait()

    run(test)
