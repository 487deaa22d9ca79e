"""Many questions of a handler at once, and how many connections they take."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from tenantry.httpproxy import connections, errors, fetch, heads, upstream

from .conftest import Play, Run, playing, proxying, serve, until

TARGETS = [b"/%d" % number for number in range(40)]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await serve(reader, writer, lambda head, _: head.split(b" ")[1] * 100)


@contextlib.asynccontextmanager
async def reaching(play: Play) -> AsyncIterator[upstream.Upstream]:
    """Serve, and give who asks there."""
    async with playing(play) as port:
        target = upstream.Upstream([connections.Address("127.0.0.1", port)])
        try:
            yield target
        finally:
            target.close()


async def ask(
    target: upstream.Upstream, *targets: bytes, limit: int = 1 << 20, timeout: float = 5.0
) -> list[bytes]:
    answers = await fetch.several(
        target, targets, [(b"accept", b"x")], at_once=4, limit=limit, timeout=timeout
    )
    return [answer.body for answer in answers]


def test_answers_come_in_order_over_few_connections(run: Run) -> None:
    async def test() -> None:
        async with reaching(echo) as target:
            for _ in range(2):
                assert await ask(target, *TARGETS) == [path * 100 for path in TARGETS]
                assert target.open == 4
            assert await ask(target) == []

    run(test)


def test_a_connection_is_sent_several_requests_before_it_answers(run: Run) -> None:
    """And however the answers are cut into pieces, each is told from the next."""
    read: list[int] = []

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        targets = [(await reader.readuntil(heads.END)).split(b" ")[1] for _ in range(10)]
        read.append(len(targets))
        said = b""
        for number, target in enumerate(targets):
            if number % 3 == 0:
                said += b"HTTP/1.1 103 Early Hints\r\n\r\n"
            if number % 2:
                chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(target), target)
                said += b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked
            else:
                said += b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(target) + target
        size = 1 + len(read) * 11
        for at in range(0, len(said), size):
            writer.write(said[at : at + size])
            await writer.drain()
            await asyncio.sleep(0)
        await reader.read()

    async def test() -> None:
        async with reaching(play) as target:
            assert await ask(target, *TARGETS) == TARGETS

    run(test)
    assert read == [10] * 4


def test_what_was_not_answered_before_a_connection_closed_is_asked_again(run: Run) -> None:
    asked: list[bytes] = []

    async def two(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for left in (1, 0):
            head = await reader.readuntil(heads.END)
            asked.append(head.split(b" ")[1])
            close = b"" if left else b"Connection: close\r\n"
            body = b"Content-Length: %d\r\n\r\n" % len(asked[-1]) + asked[-1]
            writer.write(b"HTTP/1.1 200 OK\r\n" + close + body)
        await writer.drain()

    async def test() -> None:
        async with reaching(two) as target:
            assert await ask(target, *TARGETS) == TARGETS
            await until(lambda: target.open == 0)

    run(test)
    assert sorted(asked) == sorted(TARGETS)


def test_an_answer_that_nobody_asked_for_is_nobodys(run: Run) -> None:
    """It must not become the answer to the next question on that connection."""

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while target := (await reader.readuntil(heads.END)).split(b" ")[1]:
            body = b"Content-Length: %d\r\n\r\n" % len(target) + target
            one = b"HTTP/1.1 200 OK\r\n" + body
            writer.write(one + one if target == b"/twice" else one)

    async def test() -> None:
        async with reaching(play) as target:
            assert await ask(target, b"/twice") == [b"/twice"]
            assert await ask(target, b"/1", b"/2") == [b"/1", b"/2"]

    run(test)


def test_all_bodies_together_have_a_limit(run: Run) -> None:
    async def test() -> None:
        async with reaching(echo) as target:
            with pytest.raises(errors.TooLargeError):
                await ask(target, *TARGETS, limit=5_000)
            assert await ask(target, b"/1", limit=200) == [b"/1" * 100]

    run(test)


def test_a_connection_that_was_closed_meanwhile_is_replaced_once(run: Run) -> None:
    asked: list[bytes] = []

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(heads.END)
        asked.append(head.split(b" ")[1])
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()
        # The next one is read and cut off.
        await reader.readuntil(heads.END)

    async def test() -> None:
        async with reaching(once) as target:
            assert await ask(target, *TARGETS[:12]) == [b"ok"] * 12

    run(test)
    assert sorted(asked) == sorted(TARGETS[:12])


@pytest.mark.parametrize(
    "said", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"]
)
def test_one_that_fails_fails_all_and_leaves_nothing(run: Run, said: bytes) -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(heads.END)
        if b"/0 " in head:
            writer.write(said)
            await writer.drain()
            return
        await reader.read()

    async def test() -> None:
        async with reaching(play) as target:
            with pytest.raises(errors.UpstreamBrokenError):
                await ask(target, *TARGETS)
            await until(lambda: target.open == 0)

    run(test)


def test_nobody_waits_for_ever(run: Run) -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def test() -> None:
        async with playing(play) as port:
            target = upstream.Upstream([connections.Address("127.0.0.1", port)])
            try:
                with pytest.raises(errors.UpstreamBrokenError, match=r"within 0\.2 s"):
                    await ask(target, *TARGETS, timeout=0.2)
                await until(lambda: target.open == 0)
            finally:
                target.close()
        dead = upstream.Upstream([connections.Address("127.0.0.1", port)])
        with pytest.raises(errors.UpstreamUnavailableError):
            await ask(dead, *TARGETS)
        dead.close()

    run(test)


def test_as_many_connections_are_kept_as_were_needed_at_once(run: Run) -> None:
    """Defect D13 of Capsule Proxy: two were kept, every other request made a new one."""
    made = 0

    async def test() -> None:
        nonlocal made
        all_there, waiting = asyncio.Event(), 0

        async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal made, waiting
            made += 1
            while head := await reader.readuntil(heads.END):
                assert head
                waiting += 1
                if waiting % 50 == 0:
                    all_there.set()
                await all_there.wait()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

        async with proxying(count) as proxy:
            wires = [await proxy.connect() for _ in range(50)]
            for _ in range(3):
                all_there.clear()
                await asyncio.gather(*(wire.get() for wire in wires))
            assert proxy.target.open == 50

    run(test)
    assert made == 50
