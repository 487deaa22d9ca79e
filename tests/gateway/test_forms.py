"""Narrowed watches in each form: what a caller sees is the same, and no form shows more."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenantry.gateway import protobuf
from tenantry.kube import watch
from tenantry.pki import authority

from . import harness, sockets
from .harness import USERS, Caller, World
from .test_live import SOON

pytestmark = [pytest.mark.plane, pytest.mark.timeout(240)]

BINARY = "application/vnd.kubernetes.protobuf;stream=watch"
#: How watches are opened: whether over WebSocket, and in which form.
WAYS = [
    (False, BINARY),
    (False, harness.METADATA),
    (True, harness.JSON),
    (True, BINARY),
    (True, harness.TABLE),
]
#: Those that come as protobuf.
BINARIES = (BINARY, harness.METADATA)
#: Filtered by a selector, looked into, spread over namespaces.
TARGETS = [
    "/api/v1/namespaces",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/api/v1/configmaps",
]
#: The whole list as events, up to a mark.
WHOLE = (
    "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
)

Event = tuple[str, str]


def told(payload: bytes, *, text: bool) -> tuple[Event, bool]:
    """Return type and name of an event, and whether it ends the initial ones."""
    if not text:
        kind, wrapped = protobuf.parse_event(payload)
        _, annotations = protobuf.mark(wrapped)
        name = protobuf.of_object(wrapped).name if kind != "ERROR" else ""
        return (kind, name), annotations.get(watch.INITIAL_EVENTS_END) == "true"
    event = json.loads(payload)
    found = event["object"]
    if "rows" in found:
        found = found["rows"][0]["object"] if found["rows"] else found
    metadata = found["metadata"]
    ends = metadata.get("annotations", {}).get(watch.INITIAL_EVENTS_END) == "true"
    return (event["type"], metadata.get("name", "")), ends


@contextlib.contextmanager
def opened(caller: Caller, target: str, accept: str, *, upgrade: bool) -> Iterator[Iterator[bytes]]:
    """Open a watch; give its events, each as it came, until it ends."""
    if upgrade:
        with caller.socket(target, Accept=accept) as socket:
            assert socket.code == 101, socket.headers
            yield (payload for _, payload in socket.frames())
        return
    connection = caller.connection()
    try:
        connection.request("GET", target, headers={"Accept": accept, **caller.headers})
        answer = connection.getresponse()
        assert answer.status == 200
        if accept not in BINARIES:
            yield iter(answer.readline, b"")
            return
        assert answer.headers["Content-Type"].startswith("application/vnd.kubernetes.protobuf")
        sizes = iter(lambda: answer.read(4), b"")
        yield (answer.read(int.from_bytes(size, "big")) for size in sizes)
    finally:
        connection.close()


def initial(caller: Caller, target: str, accept: str, *, upgrade: bool) -> list[Event]:
    """Return what stands for the list, in order of the names."""
    found: list[Event] = []
    with opened(caller, f"{target}?{WHOLE}", accept, upgrade=upgrade) as events:
        for payload in events:
            assert b"wind" not in payload
            assert accept != harness.METADATA or b"PartialObjectMetadata" in payload
            event, ends = told(payload, text=accept not in BINARIES)
            if ends:
                return sorted(found)
            found.append(event)
    raise AssertionError(f"ended without a mark after {found}")


@pytest.fixture(scope="module")
def alice(world: World) -> Iterator[Caller]:
    made = Caller(world.kubeconfig("alice", USERS))
    yield made
    made.close()


@pytest.mark.parametrize("target", TARGETS)
def test_every_form_shows_the_same(alice: Caller, target: str) -> None:
    plain = initial(alice, target, harness.JSON, upgrade=False)
    assert {kind for kind, _ in plain} == {"ADDED"}
    for upgrade, accept in WAYS:
        assert initial(alice, target, accept, upgrade=upgrade) == plain, (upgrade, accept)


@pytest.mark.parametrize("accept", [harness.JSON, BINARY])
def test_messages_are_the_api_servers(world: World, alice: Caller, accept: str) -> None:
    """Frame by frame what the API server itself says to who may see all."""
    selector = "capsule.clastix.io%2Ftenant+in+%28gas%2Coil%29"
    admin = Caller(world.plane.platform.paths.kubeconfig("admin"))

    def said(caller: Caller, target: str) -> tuple[dict[str, str], list[tuple[int, bytes]]]:
        found: list[tuple[int, bytes]] = []
        more = {"Accept": accept, "Sec-WebSocket-Protocol": "binary.k8s.io"}
        with caller.socket(target, **more) as socket:
            kept = {name: socket.headers.get(name, "") for name in socket.headers if "sec-" in name}
            for code, payload in socket.frames():
                (kind, _), ends = told(payload, text=accept not in BINARIES)
                if ends:
                    return kept, sorted(found)
                found.append((code, payload))
        raise AssertionError(kind)

    path = f"/api/v1/namespaces?{WHOLE}"
    harness.eventually(lambda: said(alice, path) == said(admin, f"{path}&labelSelector={selector}"))
    admin.close()


@pytest.mark.parametrize(("upgrade", "accept"), WAYS)
def test_changes_are_told_and_the_end_of_the_right(
    world: World, upgrade: bool, accept: str
) -> None:
    """A watch that is looked into, until the owner is none."""
    admin = Caller(world.plane.platform.paths.kubeconfig("admin"))
    tenants = "/apis/capsule.clastix.io/v1beta2/tenants"
    owner = harness.user("fay")
    owner["proxySettings"] = [{"kind": "StorageClasses", "operations": ["List"]}]
    body = harness.tenant("forms", owner, storageClasses={"allowed": ["f-1"], "allowedRegex": "^f"})
    fay = Caller(world.kubeconfig("fay", USERS))
    classes = "/apis/storage.k8s.io/v1/storageclasses"
    text = accept not in BINARIES
    try:
        assert admin.ask("POST", tenants, body)[0] == 201
        harness.eventually(lambda: fay.names(tenants) == ["forms"])
        harness.eventually(lambda: fay.names(classes) == [])
        with opened(fay, f"{classes}?{WHOLE}", accept, upgrade=upgrade) as events:
            assert told(next(events), text=text)[1]
            for name in ("w-1", "f-1"):
                assert admin.ask("POST", classes, harness.storage_class(name))[0] == 201
            # Bookmarks come when they come.
            changes = (event for event, _ in (told(one, text=text) for one in events))
            news = (event for event in changes if event[0] != "BOOKMARK")
            assert next(news) == ("ADDED", "f-1")
            revoked = time.monotonic()
            assert admin.ask("PATCH", f"{tenants}/forms", {"spec": {"owners": []}})[0] == 200
            assert list(news) == [("ERROR", "")]
            assert time.monotonic() - revoked < SOON
    finally:
        for name in ("w-1", "f-1"):
            admin.ask("DELETE", f"{classes}/{name}")
        admin.ask("DELETE", f"{tenants}/forms")
        admin.close()
        fay.close()


OPENINGS: list[tuple[str, dict[str, str | None], int]] = [
    # No other protocol, and no half of an opening.
    ("?watch=true", {"Upgrade": "SPDY/3.1"}, 400),
    ("?watch=true", {"Upgrade": "h2c"}, 400),
    ("?watch=true", {"Sec-WebSocket-Key": None}, 400),
    ("?watch=true", {"Sec-WebSocket-Key": "short"}, 400),
    ("?watch=true", {"Sec-WebSocket-Version": "8"}, 400),
    ("?watch=true", {"Sec-WebSocket-Protocol": "binary.k8s.io, base64.binary.k8s.io"}, 400),
    # A list is no watch.
    ("", {}, 400),
    ("?watch=false", {}, 400),
    # A version that never was (in the API server's own words), and a selector that is none.
    ("?watch=true&resourceVersion=-1", {}, 500),
    ("?watch=true&labelSelector=a%3Db)%20or%20(c", {}, 400),
]


@pytest.mark.parametrize("target", TARGETS)
def test_an_opening_gives_nothing_that_a_request_does_not(alice: Caller, target: str) -> None:
    for query, headers, code in OPENINGS:
        with alice.socket(target + query, **headers) as socket:
            assert socket.code == code, (query, headers)


def test_nobody_watches_by_switching(world: World) -> None:
    with sockets.Socket(
        world.server, world.trusting, "/api/v1/namespaces?watch=true",
        **{"Sec-WebSocket-Protocol": "base64url.bearer.authorization.k8s.io.bm9uc2Vuc2U"},
    ) as socket:  # fmt: skip
        assert socket.code == 401


def test_a_client_is_answered_when_it_pings_or_leaves_and_else_not_heard(alice: Caller) -> None:
    with alice.socket("/api/v1/namespaces?watch=true&resourceVersion=0") as socket:
        frames = socket.frames()
        for _ in alice.names("/api/v1/namespaces") or ():
            assert next(frames)[0] == sockets.TEXT
        # What looks like another request is not one.
        socket.send(sockets.masked(sockets.TEXT, b"GET /api/v1/nodes HTTP/1.1\r\n\r\n"))
        socket.send(sockets.masked(sockets.PING, b"there?"))
        assert next(found for found in frames if found[0] != sockets.TEXT) == (
            sockets.PONG,
            b"there?",
        )
        socket.send(sockets.masked(sockets.CLOSE))
        assert list(frames) == []


#: Seconds for which the certificate of a test is good.
_BRIEF = 6.0


def test_watches_end_with_the_certificate(world: World, tmp_path: Path) -> None:
    """In every form, what is narrowed and what is passed on; and a kept connection is no way."""
    pki = world.plane.platform.paths.pki
    ca = authority.Authority.load((pki / "ca.crt").read_bytes(), (pki / "ca.key").read_bytes())
    text = world.kubeconfig("alice", USERS).read_text()
    now = time.time()
    issued = ca.issue_client("alice", [USERS], now, days=_BRIEF / 86400)
    for key, content in (("client-certificate-data", issued.cert), ("client-key-data", issued.key)):
        quoted = base64.b64encode(content).decode()
        text = re.sub(rf'({key}"?: ?"?)[A-Za-z0-9+/=]+', rf"\g<1>{quoted}", text)
    path = tmp_path / "brief.yaml"
    path.write_text(text)
    brief = Caller(path)
    assert "oil-1" in (brief.names("/api/v1/namespaces") or ())
    with contextlib.ExitStack() as stack:
        opened_ones = [
            stack.enter_context(opened(brief, f"{target}?watch=true", accept, upgrade=upgrade))
            for target in (*TARGETS, "/api/v1/namespaces/oil-1/configmaps")
            for upgrade, accept in ((False, harness.JSON), (True, BINARY))
        ]
        assert time.time() < now + _BRIEF, "too slow to tell anything"
        for events in opened_ones:
            with contextlib.suppress(EOFError, http.client.IncompleteRead):
                for _ in events:
                    pass
            assert time.time() < now + _BRIEF + SOON
    # A certificate says its end in whole seconds.
    assert time.time() >= int(now + _BRIEF)
    for target in ("/api/v1/namespaces", "/api/v1/namespaces/oil-1/configmaps"):
        assert brief.ask("GET", target)[0] == 401
    brief.close()
