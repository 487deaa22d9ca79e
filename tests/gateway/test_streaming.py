"""Logs and tunnels: real kubectl, gateway and API server, before a kubelet that a test plays."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenantry.gateway import paths
from tenantry.httpproxy import heads
from tenantry.pki import authority

from .harness import USERS, World, eventually

pytestmark = [pytest.mark.plane, pytest.mark.timeout(240)]

SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
LOGS = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"


class Kubelet:
    """Gives a log whose second line comes when it is told to, and echoes through tunnels."""

    def __init__(self, folder: Path) -> None:
        issued = authority.Authority.create("kubelet", time.time()).issue_server(
            ["127.0.0.1"], time.time()
        )
        cert, key = folder / "kubelet.crt", folder / "kubelet.key"
        cert.write_bytes(issued.cert)
        key.write_bytes(issued.key)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(cert, key)
        self._loop = asyncio.new_event_loop()
        self._more = asyncio.Event()
        self.port = 0
        started = threading.Event()

        def run() -> None:
            asyncio.set_event_loop(self._loop)
            listening = self._loop.run_until_complete(
                asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)
            )
            self.port = listening.sockets[0].getsockname()[1]
            started.set()
            self._loop.run_forever()
            listening.close()
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.run_until_complete(asyncio.sleep(0.05))
            self._loop.close()

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        assert started.wait(10)

    def more(self) -> None:
        self._loop.call_soon_threadsafe(self._more.set)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(heads.END)
            if b"/containerLogs/" in head:
                writer.write(LOGS + b"6\r\nfirst\n\r\n")
                await writer.drain()
                await self._more.wait()
                writer.write(b"7\r\nsecond\n\r\n0\r\n\r\n")
            else:
                writer.write(SWITCH)
                while data := await reader.read(65536):
                    writer.write(data)
                    await writer.drain()
            await writer.drain()
        except (asyncio.CancelledError, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()


@pytest.fixture(scope="module")
def kubelet(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubelet]:
    found = Kubelet(tmp_path_factory.mktemp("kubelet"))
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n-kubelet"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "oil-1"},
        "spec": {
            "nodeName": "n-kubelet",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
            "containers": [{"name": "c", "image": "none"}],
        },
    }
    text = json.dumps(node) + "\n---\n" + json.dumps(pod)
    world.plane.run("create", "-f", "-", stdin=text)
    status = {
        "status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": found.port}},
        }
    }
    patch = ("patch", "node", "n-kubelet", "--subresource=status", "--type=merge", "-p")
    world.plane.run(*patch, json.dumps(status))
    yield found
    world.plane.run("delete", "pod", "p", "-n", "oil-1", "--force", "--grace-period=0")
    world.plane.run("delete", "node", "n-kubelet")
    found.close()


def test_logs_are_followed(world: World, kubelet: Kubelet) -> None:
    following = subprocess.Popen(
        [str(world.plane.kubectl), f"--kubeconfig={world.kubeconfig('alice', USERS)}", "logs",
         "-f", "p", "-n", "oil-1"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        assert following.stdout is not None
        # The line is there while the log goes on.
        assert following.stdout.readline() == "first\n"
        kubelet.more()
        assert following.stdout.readline() == "second\n"
        assert following.wait(20) == 0
    finally:
        following.kill()
        following.communicate()


@pytest.mark.parametrize("verb", ["exec?command=sh&stdin=true", "attach?stdin=true"])
def test_tunnels_to_the_kubelet(world: World, kubelet: Kubelet, verb: str) -> None:
    assert kubelet.port
    audit = world.audit()

    async def test() -> None:
        folder = world.folder
        host, port = world.server.removeprefix("https://").split(":")
        pki = world.plane.platform.paths.pki
        context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        ca = authority.Authority.load((pki / "ca.crt").read_bytes(), (pki / "ca.key").read_bytes())
        issued = ca.issue_client("alice", [USERS], time.time())
        (folder / "a.crt").write_bytes(issued.cert)
        (folder / "a.key").write_bytes(issued.key)
        context.load_cert_chain(folder / "a.crt", folder / "a.key")
        async with asyncio.timeout(30):
            reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
            target = paths.Target("", "v1", "pods", "oil-1", "p").path
            asked = [
                (b"host", b"h"),
                (b"connection", b"Upgrade"),
                (b"upgrade", b"SPDY/3.1"),
                (b"x-stream-protocol-version", b"v4.channel.k8s.io"),
                (b"content-length", b"0"),
            ]
            line = f"{target}/{verb}&container=c".encode()
            writer.write(heads.request_bytes(b"POST", line, asked))
            head = await reader.readuntil(heads.END)
            assert head.startswith(b"HTTP/1.1 101 "), head
            for size in (1, 10_000, 500_000):
                writer.write(b"x" * size)
                await writer.drain()
                assert await reader.readexactly(size) == b"x" * size
            writer.transport.abort()

    asyncio.run(test())
    what = ("create", f"pods/{verb.partition('?')[0]}", "oil-1", "p")
    assert eventually(lambda: audit.read().get(what)) == {"alice"}


def test_strangers_get_no_tunnel(world: World, kubelet: Kubelet) -> None:
    assert kubelet.port
    bob = world.kubeconfig("bob", USERS, "wind-owners")
    done = world.run(bob, "logs", "p", "-n", "oil-1", check=False)
    assert "(Forbidden)" in done.stderr
    done = world.run(bob, "exec", "p", "-n", "oil-1", "--", "sh", check=False)
    assert "(Forbidden)" in done.stderr or "forbidden" in done.stderr.lower()
