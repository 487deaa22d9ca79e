"""An informer against a server that plays faults which the real one does not have on demand."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib import parse

import pytest

from tenantry.api import resources
from tenantry.kube import client as kube
from tenantry.kube import config
from tenantry.runtime import informer, queue, store, timing, views

from .conftest import Until

QUICK = dataclasses.replace(timing.Timing(), watch_retry_first=0.02, watch_retry_longest=0.1)


def obj(name: str, version: int, uid: str = "u") -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": "ns",
            "name": name,
            "uid": f"{name}-{uid}",
            "resourceVersion": str(version),
        }
    }


def line(kind: str, body: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": body}).encode() + b"\n"


def bookmark(version: int, *, end: bool = False) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    if end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return line("BOOKMARK", {"metadata": metadata})


def status(code: int, reason: str) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": reason}


@dataclasses.dataclass
class Reply:
    code: int = 200
    body: bytes = b""
    headers: str = ""
    #: Keep the stream open after the body, as a watch does.
    hold: bool = False
    #: Cut instead of ending in order.
    cut: bool = False


def page(version: int, *items: dict[str, Any], more: str = "") -> Reply:
    metadata = {"resourceVersion": str(version), "continue": more}
    return Reply(body=json.dumps({"metadata": metadata, "items": items}).encode())


def refusal(code: int, reason: str, headers: str = "") -> Reply:
    return Reply(code, json.dumps(status(code, reason)).encode(), headers)


NO_STREAMING = refusal(422, "Invalid")


def watch(*lines: bytes, hold: bool = True, cut: bool = False) -> Reply:
    return Reply(body=b"".join(lines), hold=hold, cut=cut)


class Server:
    """Answers the n-th request with the n-th reply, and holds the last watch open."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.queries: list[dict[str, str]] = []
        self.port = 0
        self._closing = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # uvloop's word for a connection that the client has left is a RuntimeError.
        with contextlib.suppress(asyncio.IncompleteReadError, OSError, RuntimeError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                target = parse.urlsplit(head.split(" ")[1])
                query = dict(parse.parse_qsl(target.query))
                if query.get("limit") == "1":
                    # Which version we are at: later than all that these tests know.
                    reply = page(999_999)
                else:
                    self.queries.append(query)
                    number = len(self.queries) - 1
                    reply = self.replies[number] if number < len(self.replies) else watch()
                writer.write(
                    f"HTTP/1.1 {reply.code} X\r\nTransfer-Encoding: chunked\r\n"
                    f"Content-Type: application/json\r\n{reply.headers}\r\n".encode()
                )
                if reply.body:
                    writer.write(b"%x\r\n%s\r\n" % (len(reply.body), reply.body))
                await writer.drain()
                if reply.cut:
                    break
                if reply.hold:
                    await self._closing.wait()
                writer.write(b"0\r\n\r\n")
                await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    def kinds(self) -> list[str]:
        """Tell what was asked for: list, stream (a watch that begins with a list), or watch."""
        return [
            "stream"
            if "sendInitialEvents" in query
            else f"watch {query.get('resourceVersion', '')}"
            if "watch" in query
            else "list"
            for query in self.queries
        ]

    def close(self) -> None:
        self._closing.set()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    tasks: list[asyncio.Task[None]] = []

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.get_running_loop().create_task(made.serve(reader, writer)))

    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    made.port = listener.sockets[0].getsockname()[1]
    yield made
    made.close()
    listener.close()
    await listener.wait_closed()
    await asyncio.wait_for(asyncio.gather(*tasks), 10)


Follow = Callable[..., Awaitable[tuple[informer.Informer[dict[str, Any]], list[str]]]]


@pytest.fixture
async def follow(server: Server) -> AsyncIterator[Follow]:
    async with contextlib.AsyncExitStack() as stack:

        async def start(
            *replies: Reply, timings: timing.Timing = QUICK
        ) -> tuple[informer.Informer[dict[str, Any]], list[str]]:
            server.replies = list(replies)
            source = config.Config(server=f"http://127.0.0.1:{server.port}")
            client = await stack.enter_async_context(kube.Client(source, timeout=5.0))
            found = informer.Informer(
                client, resources.CONFIG_MAPS, views.as_dict, timing=timings, ordered=lambda: True
            )
            events: list[str] = []

            def note(event: store.Event[dict[str, Any]]) -> None:
                events.append(f"{event.type} {event.key[1]}@{event.resource_version}")

            found.subscribe(note)
            task = asyncio.create_task(found.run())

            async def end() -> None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

            stack.push_async_callback(end)
            return found, events

        yield start


async def test_a_list_that_expires_half_way_begins_anew(
    server: Server, follow: Follow, until: Until
) -> None:
    found, events = await follow(
        NO_STREAMING,
        page(10, obj("a", 1), obj("b", 2), more="token"),
        refusal(410, "Expired"),
        page(20, obj("b", 2), obj("c", 15)),
        watch(),
    )
    await until(lambda: len(server.queries) == 5)
    assert server.kinds() == ["stream", "list", "list", "list", "watch 20"]
    assert events == ["added a@1", "added b@2", "added c@15", "deleted a@1"]
    assert found.at_least("20")


async def test_gone_in_the_stream_is_a_difference(
    server: Server, follow: Follow, until: Until
) -> None:
    _, events = await follow(
        watch(line("ADDED", obj("a", 1)), line("ADDED", obj("b", 2)), bookmark(10, end=True),
              line("ERROR", status(410, "Expired")), hold=False),
        watch(line("ADDED", obj("a", 1)), line("ADDED", obj("c", 12)),
              line("ADDED", obj("b", 13, uid="new")), bookmark(20, end=True)),
    )  # fmt: skip
    await until(lambda: len(events) == 5)
    assert server.kinds() == ["stream", "stream"]
    assert events == [
        "added a@1", "added b@2", "added c@12", "deleted b@2", "added b@13",
    ]  # fmt: skip


async def test_gone_as_an_answer_lists_again(server: Server, follow: Follow, until: Until) -> None:
    await follow(
        watch(bookmark(10, end=True), hold=False),
        refusal(410, "Gone"),
        watch(bookmark(20, end=True)),
    )
    await until(lambda: len(server.queries) == 3)
    assert server.kinds() == ["stream", "watch 10", "stream"]


@pytest.mark.parametrize("older", [bookmark(5), line("MODIFIED", obj("a", 5))])
async def test_an_etcd_restored_from_an_older_snapshot_is_listed_again(
    server: Server, follow: Follow, until: Until, older: bytes
) -> None:
    found, events = await follow(
        watch(line("ADDED", obj("a", 9)), bookmark(10, end=True), older),
        watch(line("ADDED", obj("b", 3)), bookmark(5, end=True)),
    )
    await until(lambda: found.resource_version == "5")
    assert server.kinds() == ["stream", "stream"]
    assert events == ["added a@9", "added b@3", "deleted a@9"]


async def test_half_a_line_is_read_again(server: Server, follow: Follow, until: Until) -> None:
    whole = line("MODIFIED", obj("a", 12))
    found, events = await follow(
        watch(line("ADDED", obj("a", 1)), bookmark(10, end=True), whole[:30], hold=False, cut=True),
        watch(whole),
    )
    await until(lambda: found.at_least("12"))
    assert server.kinds() == ["stream", "watch 10"]
    assert events == ["added a@1", "modified a@12"]


async def test_a_line_that_is_no_event_ends_the_stream_not_the_informer(
    server: Server, follow: Follow, until: Until
) -> None:
    found, _ = await follow(
        watch(bookmark(10, end=True), line("ADDED", {"metadata": {"labels": 5}})),
        watch(b"<html>\n"),
        watch(line("ADDED", obj("a", 12))),
    )
    await until(lambda: found.at_least("12"))
    assert server.kinds() == ["stream", "watch 10", "watch 10"]


async def test_waits_as_long_as_the_server_asks(
    server: Server, follow: Follow, until: Until
) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    found, _ = await follow(
        refusal(429, "TooManyRequests", "Retry-After: 1\r\n"), watch(bookmark(10, end=True))
    )
    await until(lambda: found.synced)
    assert loop.time() - began >= 1.0


async def test_a_server_that_fails_for_a_while_is_not_hammered(
    server: Server, follow: Follow, until: Until
) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    found, _ = await follow(
        *[refusal(500, "InternalError")] * 5,
        watch(bookmark(10, end=True), hold=False),
        *[watch(hold=False)] * 5,
        watch(line("ADDED", obj("a", 12))),
    )
    await until(lambda: found.at_least("12"))
    # 0.02 + 0.04 + 0.08 + 0.1 ..., twice: 11 failures cannot take less.
    assert loop.time() - began > 0.7


async def test_a_kind_that_went_and_came_back_is_listed_again(
    server: Server, follow: Follow, until: Until
) -> None:
    found, events = await follow(
        watch(line("ADDED", obj("a", 1)), bookmark(10, end=True), hold=False),
        refusal(404, "NotFound"),
        watch(line("ADDED", obj("a", 30, uid="new")), bookmark(30, end=True)),
    )
    await until(lambda: found.resource_version == "30")
    assert server.kinds() == ["stream", "watch 10", "stream"]
    assert events == ["added a@1", "deleted a@1", "added a@30"]


async def test_a_server_that_ignores_the_wish_for_a_stream_is_listed(
    server: Server, follow: Follow, until: Until
) -> None:
    found, events = await follow(
        watch(line("ADDED", obj("a", 1)), bookmark(10)), page(20, obj("a", 1)), watch()
    )
    await until(lambda: found.synced)
    assert server.kinds()[:2] == ["stream", "list"]
    assert events == ["added a@1"]


async def test_a_burst_leaves_turns_to_others_and_one_key_per_object(
    server: Server, follow: Follow, until: Until
) -> None:
    lines = [line("ADDED", obj(f"o{n}", n + 1)) for n in range(100)]
    changes = [line("MODIFIED", obj(f"o{n % 100}", n + 1000)) for n in range(20_000)]
    found, _ = await follow(watch(*lines, bookmark(500, end=True), *changes))
    work: queue.WorkQueue[str] = queue.WorkQueue()
    found.subscribe(lambda event: work.add(event.key[1], queue.LOW if event.initial else 0))
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await until(lambda: found.at_least("20999"))
    task.cancel()
    assert turns > 10
    assert len(work) == 100


async def test_waiters_are_released_by_the_event_they_wait_for(
    server: Server, follow: Follow, until: Until
) -> None:
    release = watch(line("ADDED", obj("a", 12)))
    found, _ = await follow(watch(bookmark(10, end=True), hold=False), refusal(500, "x"), release)
    await until(lambda: found.synced)
    waits = (found.wait_for("11", 10), found.wait_for("12", 10), found.wait_for("13", 0.3))
    assert tuple(await asyncio.gather(*waits)) == (True, True, False)
