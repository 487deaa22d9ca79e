"""What ends an open watch, and what a hostile client is told, with a real API server behind."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import harness
from .harness import USERS, Caller, World, eventually
from .test_modes import gateway
from .test_workers import ready

pytestmark = [pytest.mark.plane, pytest.mark.timeout(240)]

#: The issue's promise for a right that is taken away.
SOON = 10.0


class Line:
    """A wire to the API server that can fall silent, as a network does: nobody is told."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._loop = asyncio.new_event_loop()
        self._flows = asyncio.Event()
        self._flows.set()
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()
        begun = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(begun,), daemon=True)
        self._thread.start()
        assert begun.wait(10)

    def _run(self, begun: threading.Event) -> None:
        self._server = self._loop.run_until_complete(
            asyncio.start_server(self._accept, "127.0.0.1", 0)
        )
        self.port = self._server.sockets[0].getsockname()[1]
        begun.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._end())
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", self._target)
        for source, sink in ((reader, there[1]), (there[0], writer)):
            task = self._loop.create_task(self._pump(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                await self._flows.wait()
                sink.write(data)
                await sink.drain()
        except ConnectionError:
            pass
        finally:
            sink.close()

    def cut(self) -> None:
        self._loop.call_soon_threadsafe(self._flows.clear)

    def heal(self) -> None:
        self._loop.call_soon_threadsafe(self._flows.set)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)


def gone(watch: harness.Watch) -> float:
    """Read a watch to its end; return how long that took."""
    began = time.monotonic()
    while watch.next() is not None:
        pass
    return time.monotonic() - began


def test_who_is_cut_off_from_the_api_server_narrows_nothing(world: World, tmp_path: Path) -> None:
    line = Line(int(world.plane.server.rpartition(":")[2]))
    text = world.plane.platform.paths.kubeconfig("gateway").read_text()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(text.replace(world.plane.server, f"https://127.0.0.1:{line.port}"))
    pki = world.plane.platform.paths.pki
    options = (f"--ssl-cert-path={pki / 'gateway.crt'}", f"--ssl-key-path={pki / 'gateway.key'}")
    try:
        with gateway(world, tmp_path, *options, kubeconfig=kubeconfig) as port:
            path = tmp_path / "alice.yaml"
            mine = world.kubeconfig("alice", USERS).read_text()
            path.write_text(mine.replace(world.server, f"https://127.0.0.1:{port}"))
            alice = Caller(path)
            assert "oil-1" in (alice.names("/api/v1/namespaces") or ())
            with (
                alice.watching("/api/v1/namespaces?watch=true") as narrowed,
                alice.watching("/api/v1/configmaps?watch=true") as merged,
            ):
                assert narrowed.next() is not None
                assert merged.next() is not None
                line.cut()
                # A touch is due every three seconds, and missed after fifteen.
                assert 5 < gone(narrowed) < 20
                assert gone(merged) < 5
                assert not ready(port + 1)
            line.heal()
            eventually(lambda: ready(port + 1), 30)
            assert "oil-1" in (alice.names("/api/v1/namespaces") or ())
            alice.close()
    finally:
        line.close()


@pytest.fixture
def dora(world: World) -> Iterator[Caller]:
    """Somebody with a right in one namespace, by a role of its own."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "dorina", "namespace": "gas-1"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}],
    }
    binding = ("rolebinding", "dorina", "-n", "gas-1")
    world.plane.run("create", "-f", "-", stdin=json.dumps(role))
    world.plane.run("create", *binding, "--role=dorina", "--user=dorina")
    made = Caller(world.kubeconfig("dorina", USERS))
    eventually(lambda: made.names("/api/v1/namespaces/gas-1/configmaps") is not None)
    yield made
    made.close()
    world.plane.run("delete", *binding, "--ignore-not-found")
    world.plane.run("delete", "role", "dorina", "-n", "gas-1", "--ignore-not-found")


@pytest.mark.parametrize("how", ["binding", "rule"])
def test_a_watch_does_not_outlive_the_right_to_it(world: World, dora: Caller, how: str) -> None:
    """The API server itself would let it go on."""
    target = "/api/v1/namespaces/gas-1/configmaps?watch=true"
    with dora.watching(target) as watch:
        assert watch.next() is not None
        if how == "binding":
            world.plane.run("delete", "rolebinding", "dorina", "-n", "gas-1")
        else:
            patch = '{"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["list"]}]}'
            world.plane.run("patch", "role", "dorina", "-n", "gas-1", "--type=merge", "-p", patch)
        assert gone(watch) < SOON


def test_a_merged_watch_does_not_outlive_the_right_to_a_part(world: World) -> None:
    path = world.kubeconfig("alice", USERS)
    alice = Caller(path)
    body = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "oil-brief", "labels": {"capsule.clastix.io/tenant": "oil"}},
    }
    assert alice.ask("POST", "/api/v1/namespaces", body)[0] == 201
    watched = "/api/v1/namespaces/oil-brief/configmaps"
    # kube-root-ca.crt comes by itself.
    eventually(lambda: alice.names(watched))
    try:
        with alice.watching("/api/v1/configmaps?watch=true") as watch:
            assert watch.next() is not None
            # Capsule's own bindings would come back: the tenant loses its owner there.
            world.plane.run("delete", "namespace", "oil-brief", "--wait=false")
            assert gone(watch) < SOON
    finally:
        world.plane.run("delete", "namespace", "oil-brief", "--ignore-not-found")
        alice.close()


#: What is not alice's, in as many ways as there are to write it.
DISGUISES = [
    "//api/v1/namespaces", "/api//v1/namespaces", "/api/v1/namespaces/", "/api/v1/./namespaces",
    "/api/v1/pods/../namespaces", "/api/v1/%6eamespaces", "/api/v1/%6Eamespaces",
    "/api/v1/namespaces%2f", "/api/v1/namespaces%00", "/api/v1/namespaces;x=y",
    "/API/v1/namespaces", "/api/V1/Namespaces", "/api/v1/watch/namespaces",
    "/api/v1/namespaces/wind-1", "/api/v1/namespaces/%77ind-1", "/api/v1/namespaces/wind-1/",
    "/api/v1/namespaces/oil-1/../wind-1", "/api/v1/namespaces/oil-1%2f..%2fwind-1",
    "/api/v1/namespaces/wind-1/configmaps", "/api/v1/namespaces/wind-1/configmaps/wind-notes",
    "/api/v1/namespaces//configmaps", "/api/v1/namespaces/%2e%2e/configmaps",
    "/api/v1/namespaces?labelSelector=", "/api/v1/namespaces?labelSelector=a&labelSelector=",
    "/api/v1/namespaces?labelSelector=%21x,kubernetes.io/metadata.name%3Dwind-1",
    "/api/v1/namespaces?labelSelector=%21x%26labelSelector%3D",
    "/api/v1/namespaces?%6cabelSelector=&fieldSelector=metadata.name%3Dwind-1",
    "/api/v1/namespaces?fieldSelector=metadata.name%21%3Doil-1",
    "/api/v1/namespaces?resourceVersion=0&resourceVersionMatch=Exact",
    "/api/v1/namespaces?resourceVersion=1&resourceVersionMatch=Exact",
    "/api/v1/namespaces?limit=1&continue=nonsense",
    "/api/v1/configmaps?fieldSelector=metadata.namespace%3Dwind-1",
    "/api/v1/configmaps?limit=1&continue=bm9uc2Vuc2U",
    "/api/v1/nodes?fieldSelector=metadata.name%3Dn-wind", "/api/v1/nodes/n-wind/proxy/",
]  # fmt: skip


@pytest.mark.parametrize("target", DISGUISES)
def test_no_way_of_writing_it_shows_what_is_not_the_callers(world: World, target: str) -> None:
    """Raw, since clients tidy up what they are given."""
    alice = Caller(world.kubeconfig("alice", USERS))
    connection = alice.connection()
    try:
        for sign in ("", "?watch=true&timeoutSeconds=1" if "?" not in target else "&watch=1"):
            if sign.startswith("&"):
                # Only what is refused at once can be asked to be watched without an end.
                continue
            connection.putrequest("GET", target + sign, skip_accept_encoding=True)
            connection.putheader("Accept", "application/json")
            connection.endheaders()
            answer = connection.getresponse()
            told = answer.read()
            if answer.status == 200:
                for name in (b'"wind-1"', b'"wind-notes"', b'"n-wind"', b'"kube-system"'):
                    assert b'"name":' + name not in told.replace(b'": "', b'":"'), target
            else:
                assert 300 <= answer.status < 500
            connection.close()
    finally:
        connection.close()
        alice.close()


@pytest.mark.parametrize("form", ["absolute", "host", "asterisk", "authority"])
def test_targets_that_are_no_paths_are_refused(world: World, form: str) -> None:
    connection: http.client.HTTPSConnection = Caller(world.kubeconfig("alice", USERS)).connection()
    place = f"{connection.host}:{connection.port}"
    line = {
        "absolute": f"GET https://{place}/api/v1/namespaces HTTP/1.1\r\nHost: {place}\r\n",
        "host": "GET /api/v1/namespaces HTTP/1.1\r\nHost: a\r\nHost: b\r\n",
        "asterisk": f"OPTIONS * HTTP/1.1\r\nHost: {place}\r\n",
        "authority": f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n",
    }[form]
    connection.connect()
    connection.sock.sendall(line.encode() + b"\r\n")
    answer = http.client.HTTPResponse(connection.sock)
    answer.begin()
    assert answer.status in {400, 405}
    assert b"items" not in answer.read()
    answer.close()
    connection.close()


def test_what_the_filter_relies_on_is_not_the_tenants_to_change(world: World) -> None:
    """Labels, owner references and names: none of them brings somebody else's thing into sight."""
    bob = Caller(world.kubeconfig("bob", USERS, "wind-owners"))
    alice = Caller(world.kubeconfig("alice", USERS))
    own = "/api/v1/namespaces/oil-1"
    try:
        for labels in (
            {"capsule.clastix.io/tenant": "wind"},
            {"capsule.clastix.io/tenant": None},
            {"kubernetes.io/metadata.name": "wind-1"},
        ):
            alice.ask("PATCH", own, {"metadata": {"labels": labels}})
            assert bob.names("/api/v1/namespaces") == ["wind-1"]
            assert "oil-1" in (alice.names("/api/v1/namespaces") or ())
        code, _ = alice.ask("PATCH", own, {"metadata": {"ownerReferences": []}})
        assert code >= 400 or "oil-1" in (alice.names("/api/v1/namespaces") or ())
        # Even an administrator's slip, a label without the tenant's ownership, shows nothing.
        label = ("label", "namespace", "default", "capsule.clastix.io/tenant=oil")
        world.plane.run(*label, "--overwrite", check=False)
        assert "default" not in (alice.names("/api/v1/namespaces") or ())
    finally:
        world.plane.run("label", "namespace", "default", "capsule.clastix.io/tenant-", check=False)
        alice.close()
        bob.close()


PROTOBUF = "application/vnd.kubernetes.protobuf"


def answered(caller: Caller, method: str, target: str, accept: str) -> tuple[int, set[str], bytes]:
    """Return all of an answer that does not differ from one time to the next."""
    connection = caller.connection()
    try:
        connection.request(method, target, headers={"Accept": accept, **caller.headers})
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    once = ("audit-id", "date", "content-length")
    return answer.status, {k.lower() for k in answer.headers if k.lower() not in once}, body


@pytest.mark.parametrize("accept", [harness.JSON, harness.TABLE, PROTOBUF])
@pytest.mark.parametrize(
    ("path", "hidden"),
    [
        ("/api/v1/namespaces", "wind-1"),
        ("/apis/capsule.clastix.io/v1beta2/tenants", "wind"),
        ("/api/v1/nodes", "n-wind"),
        ("/apis/storage.k8s.io/v1/storageclasses", "wind-fast"),
    ],
)
def test_what_is_hidden_looks_like_what_is_missing(
    world: World, path: str, hidden: str, accept: str
) -> None:
    alice = Caller(world.kubeconfig("alice", USERS))
    missing = "x" * len(hidden)
    for method in ("GET", "HEAD", "OPTIONS", "DELETE"):
        for more in ("", "/", "/status", "?watch=true&timeoutSeconds=1", "?resourceVersion=0",
                     "?dryRun=All"):  # fmt: skip
            if method == "DELETE" and more != "?dryRun=All":
                continue
            there, not_there = (
                answered(alice, method, f"{path}/{name}{more}", accept)
                for name in (hidden, missing)
            )
            assert there[0] >= 400
            assert there[2].replace(hidden.encode(), missing.encode()) == not_there[2]
            assert there[:2] == not_there[:2], (method, more)
    alice.close()
