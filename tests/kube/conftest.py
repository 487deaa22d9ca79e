"""A real etcd and kube-apiserver for this directory's tests, and a server that misbehaves."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import aiohttp
import pytest

from tenantry.api import resources
from tenantry.kube import client, config
from tenantry.pki import authority

READY_WITHIN = 90.0

# looptime asks for the current loop around every test; before the first async one that would make
# a loop nobody closes. Said once, there is none, and it copes.
asyncio.set_event_loop(None)


@dataclasses.dataclass(frozen=True)
class Plane:
    """A running API server and the authority that says who is who."""

    server: str
    etcd: str
    authority: authority.Authority

    def config(
        self, user: str = "admin", groups: tuple[str, ...] = ("system:masters",)
    ) -> config.Config:
        """Give the configuration of a user with a client certificate."""
        issued = self.authority.issue_client(user, groups, time.time())
        return config.Config(
            server=self.server,
            ca_data=self.authority.cert,
            cert_data=issued.cert,
            key_data=issued.key,
        )

    async def compact(self) -> None:
        """Make etcd forget all versions but the newest, as it does by itself every five minutes."""
        async with aiohttp.ClientSession(self.etcd) as session:
            async with session.post("/v3/kv/range", json={"key": "AA=="}) as answer:
                revision = (await answer.json())["header"]["revision"]
            async with session.post("/v3/kv/compaction", json={"revision": revision}) as answer:
                assert answer.status == 200


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _binary(name: str) -> str:
    directory = os.environ.get("TENANTRY_TEST_BIN_DIR")
    if not directory:
        pytest.fail("set TENANTRY_TEST_BIN_DIR to a directory with etcd and kube-apiserver")
    path = pathlib.Path(directory, name)
    if not os.access(path, os.X_OK):
        pytest.fail(f"TENANTRY_TEST_BIN_DIR: {path} is missing or not executable")
    return str(path)


@pytest.fixture(scope="session")
def plane() -> Iterator[Plane]:
    memory = "/dev/shm" if pathlib.Path("/dev/shm").is_dir() else None
    root = pathlib.Path(tempfile.mkdtemp(prefix="tenantry-kube-", dir=memory))
    now = time.time()
    ca = authority.Authority.create("kube-tests", now)
    serving = ca.issue_server(("127.0.0.1", "localhost"), now)
    signing = authority.signing_key()
    (root / "ca.crt").write_bytes(ca.cert)
    (root / "serving.crt").write_bytes(serving.cert)
    (root / "serving.key").write_bytes(serving.key)
    (root / "sa.pub").write_bytes(signing.cert)
    (root / "sa.key").write_bytes(signing.key)
    clients, peers, secure = _free_ports(3)
    commands = {
        "etcd": [
            _binary("etcd"),
            f"--data-dir={root / 'etcd'}",
            "--unsafe-no-fsync",
            "--log-level=warn",
            f"--listen-client-urls=http://127.0.0.1:{clients}",
            f"--advertise-client-urls=http://127.0.0.1:{clients}",
            f"--listen-peer-urls=http://127.0.0.1:{peers}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peers}",
            f"--initial-cluster=default=http://127.0.0.1:{peers}",
        ],
        "kube-apiserver": [
            _binary("kube-apiserver"),
            f"--etcd-servers=http://127.0.0.1:{clients}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={secure}",
            f"--tls-cert-file={root / 'serving.crt'}",
            f"--tls-private-key-file={root / 'serving.key'}",
            f"--client-ca-file={root / 'ca.crt'}",
            f"--service-account-key-file={root / 'sa.pub'}",
            f"--service-account-signing-key-file={root / 'sa.key'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",
            "--endpoint-reconciler-type=none",
            # Else continued lists come from memory and never expire while a test looks.
            "--feature-gates=ListFromCacheSnapshot=false",
        ],
    }
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        for name, command in commands.items():
            log = stack.enter_context((root / f"{name}.log").open("wb"))
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=root)
            stack.callback(_stop, process)
        result = Plane(f"https://127.0.0.1:{secure}", f"http://127.0.0.1:{clients}", ca)
        _wait_ready(result, root, process)
        yield result


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait_ready(plane: Plane, root: pathlib.Path, process: subprocess.Popen[bytes]) -> None:
    trust = ssl.create_default_context(cadata=plane.authority.cert.decode())
    deadline = time.monotonic() + READY_WITHIN
    while time.monotonic() < deadline:
        if process.poll() is None:
            try:
                with urllib.request.urlopen(f"{plane.server}/readyz", context=trust, timeout=5):
                    return
            except (OSError, urllib.error.URLError):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=0.1)
                continue
        break
    log = (root / "kube-apiserver.log").read_text(errors="replace")[-2000:]
    pytest.fail(f"kube-apiserver was not ready within {READY_WITHIN:g} s:\n{log}")


@pytest.fixture
async def admin(plane: Plane) -> AsyncIterator[client.Client]:
    async with client.Client(plane.config()) as connected:
        yield connected


_COUNTER = itertools.count()


@pytest.fixture
async def namespace(admin: client.Client) -> str:
    """A namespace of the test's own; the plane is thrown away, so nobody deletes it."""
    name = f"kube-{os.getpid()}-{next(_COUNTER)}"
    await admin.create(resources.NAMESPACES, {"metadata": {"name": name}})
    return name


#: Gets the request head and the writer; what it writes is the answer.
Script = Callable[[str, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


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
