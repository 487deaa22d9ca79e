"""A client of the shared control plane, a namespace per test, and a server that misbehaves."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from tests import loops

from tenantry.api import resources
from tenantry.kube import client, errors, retry
from tenantry.kube import config as configs
from tenantry.local import testing

# looptime asks for the current loop around every test; before the first async one that would make
# a loop nobody closes. Said once, there is none, and it copes.
asyncio.set_event_loop(None)


pytest_asyncio_loop_factories = loops.factories


@pytest.fixture
async def admin(plane: testing.Plane) -> AsyncIterator[client.Client]:
    async with client.Client(plane.config()) as connected:
        yield connected


_COUNTER = itertools.count()


@pytest.fixture
async def namespace(admin: client.Client) -> str:
    """A namespace of the test's own, in which pods can be created at once; nobody deletes it."""
    name = f"kube-{os.getpid()}-{next(_COUNTER)}"
    await admin.create(resources.NAMESPACES, {"metadata": {"name": name}})
    account = {"metadata": {"name": "default", "namespace": name}}
    with contextlib.suppress(errors.AlreadyExists):
        await admin.create(resources.SERVICE_ACCOUNTS, account)
    return name


#: Gets the request head and the writer; what it writes is the answer.
Script = Callable[[str, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


#: Head of a stream; `chunk` makes what follows.
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def reply(code: int, body: bytes | dict[str, Any] = b"{}", **headers: str) -> Script:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def script(
        _head: str, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        lines = [f"HTTP/1.1 {code} X", f"Content-Length: {len(content)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + content)

    return script


def status(code: int, reason: str, **extra: Any) -> dict[str, Any]:
    return {"kind": "Status", "code": code, "reason": reason, "message": "m", **extra}


def cut(begin: bytes = b"") -> Script:
    """Write the beginning of an answer and hang up."""

    async def script(
        _head: str, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(begin)
        await writer.drain()
        raise ConnectionResetError

    return script


async def silence(_head: str, reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Say nothing until the client gives up."""
    await reader.read()
    raise ConnectionResetError


@dataclasses.dataclass
class Scripted:
    """A raw server whose n-th request is handled by the n-th script, the last one from then on."""

    scripts: list[Script]
    heads: list[str] = dataclasses.field(default_factory=list)
    server: str = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = next(
                    (
                        int(line.partition(":")[2])
                        for line in head.splitlines()
                        if line.lower().startswith("content-length:")
                    ),
                    0,
                )
                await reader.readexactly(length)
                script = self.scripts[min(len(self.heads), len(self.scripts) - 1)]
                self.heads.append(head)
                await script(head, reader, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def scripted() -> AsyncIterator[Callable[..., Awaitable[Scripted]]]:
    async with contextlib.AsyncExitStack() as stack:

        async def start(*scripts: Script) -> Scripted:
            result = Scripted(list(scripts))
            listener = await asyncio.start_server(result.handle, "127.0.0.1", 0)
            await stack.enter_async_context(listener)
            port = listener.sockets[0].getsockname()[1]
            result.server = f"http://127.0.0.1:{port}"
            return result

        yield start


#: Waits between tries that a test does not notice.
QUICK = retry.Policy(base=0.001, cap=0.002)


def connect(server: Scripted, **options: Any) -> client.Client:
    return client.Client(configs.Config(server=server.server, token="abc"), policy=QUICK, **options)
