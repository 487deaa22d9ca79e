"""What the tests of the runtime share: names of their own on the shared plane, waiting, faults."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import os
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol
from urllib import parse

import pytest
from tests import loops

from tenantry.api import resources
from tenantry.kube import client, config
from tenantry.local import testing
from tenantry.runtime import timing

# looptime asks for the current loop around every test; before the first async one that would make
# a loop that nobody closes.
asyncio.set_event_loop(None)

_COUNTER = itertools.count()


pytest_asyncio_loop_factories = loops.factories


class Until(Protocol):
    async def __call__(self, condition: Callable[[], Any], within: float = 20.0) -> None: ...


@pytest.fixture
def until() -> Until:
    """Wait for a condition, with a deadline."""

    async def wait(condition: Callable[[], Any], within: float = 20.0) -> None:
        loop = asyncio.get_running_loop()
        met: asyncio.Future[None] = loop.create_future()

        def look() -> None:
            if met.done():
                return
            try:
                if condition():
                    met.set_result(None)
                else:
                    loop.call_later(0.005, look)
            except Exception as error:
                met.set_exception(error)

        look()
        async with asyncio.timeout(within):
            await met

    return wait


@pytest.fixture
def quick() -> timing.Timing:
    """Intervals a tenth of their length."""
    return timing.Timing().scaled(0.1)


@pytest.fixture
async def admin(plane: testing.Plane) -> AsyncIterator[client.Client]:
    async with client.Client(plane.config()) as connected:
        yield connected


@pytest.fixture
async def namespace(admin: client.Client) -> str:
    """A namespace of the test's own; the plane is thrown away, so nobody deletes it."""
    name = f"runtime-{os.getpid()}-{next(_COUNTER)}"
    await admin.create(resources.NAMESPACES, {"metadata": {"name": name}})
    return name


#: By this label informers of tests leave out what Kubernetes itself puts into every namespace.
SELECTOR = "runtime-test=mine"


def config_map(namespace: str, name: str, **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "namespace": namespace,
            "name": name,
            "labels": {"runtime-test": "mine"},
        },
        "data": data,
    }


@dataclasses.dataclass
class Proxy:
    """Bytes between a client under test and the API server: cut, held back, or refused."""

    host: str
    port: int
    config: config.Config
    accepting: bool = True
    _flowing: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)
    _open: set[asyncio.StreamWriter] = dataclasses.field(default_factory=set)

    def freeze(self) -> None:
        """Let nothing through, without a word to either side."""
        self._flowing.clear()

    def thaw(self) -> None:
        self._flowing.set()

    def cut(self) -> None:
        """Close every connection in the middle of whatever it does."""
        for writer in list(self._open):
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mine = {writer}
        try:
            if self.accepting:
                above_reader, above_writer = await asyncio.open_connection(self.host, self.port)
                mine.add(above_writer)
                self._open.add(above_writer)
                await asyncio.gather(
                    self._copy(reader, above_writer), self._copy(above_reader, writer)
                )
        except OSError:
            pass
        finally:
            self._open -= mine
            for each in mine:
                each.transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(65536):
            await self._flowing.wait()
            writer.write(chunk)
            await writer.drain()
        writer.transport.abort()


@pytest.fixture
async def proxy(plane: testing.Plane) -> AsyncIterator[Proxy]:
    base = plane.config()
    above = parse.urlsplit(base.server)
    assert above.hostname is not None
    made = Proxy(above.hostname, above.port or 443, base)
    made.thaw()
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made._open.add(writer)
        task = asyncio.get_running_loop().create_task(made.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    made.config = dataclasses.replace(
        base, server=f"https://127.0.0.1:{port}", tls_server_name=above.hostname
    )
    try:
        yield made
    finally:
        listener.close()
        made.thaw()
        for task in list(tasks):
            task.cancel()
        with contextlib.suppress(Exception):
            await asyncio.gather(*tasks, return_exceptions=True)
        await listener.wait_closed()
        made.cut()
        # Transports let go of their sockets one turn of the loop after they are closed.
        for _ in range(3):
            await asyncio.sleep(0)
