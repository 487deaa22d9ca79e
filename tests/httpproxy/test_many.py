"""Ten thousand clients that say nothing."""

from __future__ import annotations

import asyncio
import resource
import sys

import pytest
import uvloop

from tenantry.httpproxy import server

from .conftest import proxying, serve, until

CLIENTS = 10_000
#: In a process of its own, since each process may have so many files open and no more. Half of
#: its clients begin a request that they never end.
PROGRAM = """
import resource, socket, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
port, count = int(sys.argv[1]), int(sys.argv[2])
held = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
for one in held[::2]:
    one.sendall(b"GET / HTTP/1.1\\r\\nHost: ")
sys.stdin.read()
"""


@pytest.mark.long
@pytest.mark.timeout(300)
def test_ten_thousand_idle_connections_do_no_harm() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    async def test() -> None:
        settings = server.Settings(head_timeout=120.0)
        async with proxying(serve, settings=settings) as proxy:
            clients = await asyncio.create_subprocess_exec(
                sys.executable, "-c", PROGRAM, str(proxy.engine.port), str(CLIENTS),
                stdin=asyncio.subprocess.PIPE,
            )  # fmt: skip
            try:
                for _ in range(6):
                    if proxy.engine.connections < CLIENTS:
                        await asyncio.sleep(5)
                assert proxy.engine.connections == CLIENTS
                busy = await proxy.connect()
                async with asyncio.timeout(10):
                    for _ in range(100):
                        assert (await busy.get())[1] == b"ok"
                # None of them costs a connection to the server behind.
                assert proxy.target.open == 1
            finally:
                clients.kill()
                await clients.wait()
            await until(lambda: proxy.engine.connections == 1)

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(test())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
