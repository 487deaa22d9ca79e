"""In whose name requests go on, without any server."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import msgspec
import pytest

from tenantry.gateway import accesslog, authenticate, handler, upstreams, watches
from tenantry.gateway.identity import Identity
from tenantry.httpproxy import exchange, heads
from tenantry.kube import config
from tenantry.pki import authority

from .conftest import USERS, Known, person
from .test_identity import der

NOW = time.time()
CA = authority.Authority.create("test", NOW)
CERT = der(CA.issue_client("alice", [USERS], NOW).cert)
TOKEN = b"Bearer abc.def.ghi"


@dataclasses.dataclass
class Connection:
    """As much of a client's connection as a handler looks at."""

    peer: exchange.Peer
    exchange: Any = None


class Gateway:
    def __init__(self, known: Known, **options: Any) -> None:
        self.servers = upstreams.Upstreams(config.Config(server="http://127.0.0.1:1"))
        self.servers.authorization = b"Bearer the-gateways-own"
        trusted = options.pop("trusted", ())
        kinds = options.pop("kinds", (authenticate.CERTIFICATE, authenticate.BEARER))
        self.authenticator = authenticate.Authenticator(
            None, self.servers, authenticate.Options(kinds=kinds, trusted=trusted)  # type: ignore[arg-type]
        )  # fmt: skip
        self.seen: list[handler.Entry] = []
        self.fresh = True
        self.handle = handler.Handler(
            handler.Parts(
                client=None,  # type: ignore[arg-type]
                servers=self.servers,
                authenticator=self.authenticator,
                known=known.snapshot,
                watches=watches.Watches(known.snapshot, self.authenticator),
                observe=self.seen.append,
                fresh=lambda: self.fresh,
            ),
            handler.Options(**options),
        )

    def found(
        self, line: str, *headers: tuple[bytes, bytes], certificate: bytes = b""
    ) -> exchange.Exchange:
        method, target = line.split()
        block = heads.request_bytes(method.encode(), target.encode(), [(b"host", b"h"), *headers])
        peer = exchange.Peer("10.0.0.1", certificate, tls=True)
        connection: Any = Connection(peer)
        return exchange.Exchange(connection, heads.parse_request(block), 0.0)

    def know(self, found: exchange.Exchange, who: Identity) -> None:
        """Let a caller be known, as after a review."""
        key = self.authenticator.caller(found).key
        self.authenticator._accepted.put(key, who, time.monotonic() + 60)

    def ask(self, line: str, *headers: tuple[bytes, bytes], certificate: bytes = b"") -> Any:
        return self.handle(self.found(line, *headers, certificate=certificate))


CLAIMS = [
    (b"x-remote-user", b"admin"),
    (b"x-remote-group", b"system:masters"),
    (b"x-forwarded-for", b"1.2.3.4"),
    (b"x-forwarded-client-cert", b"Cert=x"),
    (b"accept", b"application/json"),
]
INSIDE = "GET /api/v1/namespaces/oil-1/pods?a=%20b"


def test_a_token_goes_on_as_it_came(known: Known) -> None:
    gateway = Gateway(known)
    claims = [(b"impersonate-user", b"bob"), (b"impersonate-group", b"g"), *CLAIMS]
    action = gateway.ask(INSIDE, (b"authorization", TOKEN), *claims)
    assert isinstance(action, exchange.Forward)
    assert action.server is gateway.servers.plain
    assert action.target == b"/api/v1/namespaces/oil-1/pods?a=%20b"
    # Whether bob may be impersonated is the API server's to say, about the same token.
    assert action.headers == [
        (b"authorization", TOKEN),
        (b"impersonate-user", b"bob"),
        (b"impersonate-group", b"g"),
        (b"accept", b"application/json"),
        (b"x-forwarded-for", b"10.0.0.1"),
    ]
    assert gateway.authenticator.questions == 0


def test_a_certificate_is_impersonated_and_nothing_else_is_claimed(known: Known) -> None:
    gateway = Gateway(known)
    action = gateway.ask(INSIDE, (b"authorization", TOKEN), *CLAIMS, certificate=CERT)
    assert isinstance(action, exchange.Forward)
    assert action.server is gateway.servers.own
    assert action.headers == [
        (b"accept", b"application/json"),
        (b"x-forwarded-for", b"10.0.0.1"),
        (b"authorization", b"Bearer the-gateways-own"),
        (b"impersonate-user", b"alice"),
        (b"impersonate-group", USERS.encode()),
    ]


def test_what_is_narrowed_says_nothing_about_the_caller(known: Known) -> None:
    gateway = Gateway(known)
    headers = [(b"authorization", TOKEN), *CLAIMS]
    line = "GET /api/v1/namespaces?labelSelector=x&limit=5"
    gateway.know(gateway.found(line, *headers), person("alice"))
    action = gateway.ask(line, *headers)
    assert isinstance(action, exchange.Forward)
    assert action.server is gateway.servers.own
    assert action.target == (
        b"/api/v1/namespaces?limit=5"
        b"&labelSelector=capsule.clastix.io%2Ftenant+in+%28gas%2Coil%29%2Cx"
    )
    assert action.headers == [
        (b"accept", b"application/json"),
        (b"x-forwarded-for", b"10.0.0.1"),
        (b"authorization", b"Bearer the-gateways-own"),
    ]


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ([], 401),
        ([(b"authorization", b"Basic YTpi")], 401),
        ([(b"authorization", b"Bearer")], 401),
        ([(b"authorization", TOKEN), (b"impersonate-group", b"system:masters")], 400),
        ([(b"authorization", TOKEN), (b"impersonate-uid", b"1")], 400),
    ],
)
def test_who_cannot_be_made_out_is_answered_and_nothing_is_sent(
    known: Known, headers: heads.Headers, code: int
) -> None:
    """Defect D1: the request was proxied after its refusal was written."""
    action = Gateway(known).ask(INSIDE, *headers)
    assert isinstance(action, exchange.Answer)
    assert action.status == code
    assert msgspec.json.decode(action.body)["kind"] == "Status"


@pytest.mark.parametrize(
    "line", ["GET /api/v1//namespaces", "GET /api/v1/pods/../namespaces", "GET /api/v1/%6eodes"]
)
def test_a_disguised_path_is_answered(known: Known, line: str) -> None:
    action = Gateway(known).ask(line, (b"authorization", TOKEN))
    assert isinstance(action, exchange.Answer)
    assert action.status == 400


@pytest.mark.parametrize(
    ("protocol", "allowed"),
    [(b"SPDY/3.1", True), (b"websocket", True), (b"h2c", False), (b"TLS/1.0", False)],
)
def test_a_tunnel_is_for_exec_and_not_for_more_requests(
    known: Known, protocol: bytes, *, allowed: bool
) -> None:
    action = Gateway(known).ask(
        "POST /api/v1/namespaces/oil-1/pods/p/exec",
        (b"authorization", TOKEN),
        (b"connection", b"Upgrade, HTTP2-Settings"),
        (b"upgrade", protocol),
        (b"http2-settings", b"x"),
    )
    assert isinstance(action, exchange.Forward) is allowed
    if isinstance(action, exchange.Forward):
        assert b"http2-settings" not in dict(action.headers)
        assert action.timeout is None


def test_one_caller_cannot_take_all_places(known: Known) -> None:
    gateway = Gateway(known, concurrency=2)
    held = [gateway.found(INSIDE, (b"authorization", TOKEN)) for _ in range(3)]
    actions = [gateway.handle(found) for found in held]
    assert [isinstance(action, exchange.Forward) for action in actions] == [True, True, False]
    assert isinstance(actions[2], exchange.Answer)
    assert actions[2].status == 429
    assert (b"retry-after", b"1") in actions[2].headers
    # Others are not held up, and a place that is given back can be taken.
    other = gateway.ask(INSIDE, (b"authorization", TOKEN + b"x"))
    assert isinstance(other, exchange.Forward)
    assert held[0].done is not None
    held[0].done(held[0])
    assert isinstance(gateway.ask(INSIDE, (b"authorization", TOKEN)), exchange.Forward)


def test_only_trusted_sources_are_served_and_believed(known: Known) -> None:
    """Defect D16: everybody's word about a certificate was taken."""
    from tenantry.apps import gateway as role

    kinds = (authenticate.FORWARDED,)
    value = b"Cert=" + _quoted(CA.issue_client("alice", [USERS], NOW).cert)
    header = (b"x-forwarded-client-cert", value)
    near, far = role.networks_of(("10.0.0.0/8",)), role.networks_of(("192.168.0.0/16",))
    action = Gateway(known, kinds=kinds, trusted=near, sources=near).ask(INSIDE, header)
    assert isinstance(action, exchange.Forward)
    assert (b"impersonate-user", b"alice") in action.headers
    assert b"x-forwarded-client-cert" not in dict(action.headers)
    for options in ({"sources": far}, {"trusted": far}, {}):
        refused = Gateway(known, kinds=kinds, **options).ask(INSIDE, header)
        assert isinstance(refused, exchange.Answer)
        assert refused.status in {401, 403}


def test_the_access_log_says_who_and_what_but_no_secrets(known: Known) -> None:
    """Defect D15: tokens were logged."""
    gateway = Gateway(known)
    headers = [(b"authorization", TOKEN)]
    line = "GET /api/v1/namespaces?secret=value"
    gateway.know(gateway.found(line, *headers), person("alice"))
    found = gateway.found(line, *headers)
    gateway.handle(found)
    found.outcome.status, found.outcome.sent = 200, 17
    assert found.done is not None
    found.done(found)
    written: list[bytes] = []
    log = accesslog.AccessLog(written.append, wall=lambda: 1_000_000_000.25)
    entry = gateway.seen[0]
    _add(log, entry)
    (line_,) = written[0].splitlines()
    assert b"secret" not in line_
    assert b"abc.def" not in line_
    told = msgspec.json.decode(line_)
    assert told["time"] == "2001-09-09T01:46:40.250000Z"
    assert (told["user"], told["tenants"], told["decision"]) == ("alice", ["gas", "oil"], "filter")
    assert (told["status"], told["bytes"], told["path"]) == (200, 17, "/api/v1/namespaces")


def _add(log: accesslog.AccessLog, entry: handler.Entry) -> None:
    import asyncio

    async def add() -> None:
        log.add(entry, 0.5)
        log.flush()

    asyncio.run(add())


def _quoted(pem: bytes) -> bytes:
    from urllib import parse

    return parse.quote(pem.decode(), safe="").encode()


@pytest.mark.parametrize("path", ["/_healthz"])
def test_health_needs_nobody(known: Known, path: str) -> None:
    action = Gateway(known).ask(f"GET {path}")
    assert isinstance(action, exchange.Answer)
    assert (action.status, action.body) == (200, b"ok")


ALL = "GET /api/v1/pods?watch=true"


def test_what_is_stale_narrows_nothing(known: Known) -> None:
    """Cut off, a gateway cannot know what was taken away meanwhile: RBAC alone decides then."""
    gateway = Gateway(known)
    headers = [(b"authorization", TOKEN)]
    for line in ("GET /api/v1/namespaces", ALL, "GET /api/v1/nodes"):
        gateway.know(gateway.found(line, *headers), person("alice"))
    gateway.fresh = False
    for line in ("GET /api/v1/namespaces", ALL, "GET /api/v1/nodes"):
        action = gateway.ask(line, *headers)
        assert isinstance(action, exchange.Forward)
        assert action.server is gateway.servers.plain
        assert action.target.decode() == line.removeprefix("GET ")


def test_a_watch_is_not_spread_over_too_many_namespaces(known: Known) -> None:
    headers = [(b"authorization", TOKEN)]
    gateway = Gateway(known, fanout=2)
    gateway.know(gateway.found(ALL, *headers), person("alice"))
    action = gateway.ask(ALL, *headers)
    assert isinstance(action, exchange.Answer)
    assert action.status == 403
    assert b"3 namespaces" in action.body
    # A list is no connection that stays.
    listed = gateway.ask("GET /api/v1/pods", *headers)
    assert not isinstance(listed, exchange.Answer)
    listed.close()


def test_one_caller_cannot_take_all_connections_with_watches(known: Known) -> None:
    headers = [(b"authorization", TOKEN)]
    gateway = Gateway(known, streams=7)
    found = [gateway.found(ALL, *headers) for _ in range(3)]
    gateway.know(found[0], person("alice"))
    actions: list[Any] = [gateway.handle(one) for one in found]
    assert isinstance(actions[2], exchange.Answer)
    assert actions[2].status == 429
    assert found[0].done is not None
    found[0].done(found[0])
    again = gateway.ask(ALL, *headers)
    assert not isinstance(again, exchange.Answer)
    for work in (*actions[:2], again):
        work.close()


@pytest.mark.parametrize(
    ("line", "accept", "code"),
    [
        (ALL, b"application/yaml", 406),
        (ALL, b"application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io", 406),
        ("GET /api/v1/pods", b"application/yaml", 406),
        ("GET /api/v1/namespaces/oil-1", b"application/yaml", 406),
    ],
)
def test_what_cannot_be_looked_into_is_not_acceptable(
    known: Known, line: str, accept: bytes, code: int
) -> None:
    headers = [(b"authorization", TOKEN), (b"accept", accept)]
    gateway = Gateway(known)
    gateway.know(gateway.found(line, *headers), person("alice"))
    action = gateway.ask(line, *headers)
    assert isinstance(action, exchange.Answer)
    assert action.status == code
