from __future__ import annotations

import hashlib
import time
from urllib import parse

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from tenantry.gateway import authenticate, cache, errors, identity, tokens, xfcc
from tenantry.httpproxy import heads
from tenantry.pki import authority

NOW = time.time()
AUTHORITY = authority.Authority.create("test", NOW)


def der(pem: bytes) -> bytes:
    return x509.load_pem_x509_certificate(pem).public_bytes(serialization.Encoding.DER)


ALICE = AUTHORITY.issue_client("alice", ["g1", "g2"], NOW).cert


def test_a_certificate_names_user_and_groups() -> None:
    found, ends = identity.from_certificate(der(ALICE), NOW)
    assert ends > NOW
    assert found == identity.Identity("alice", ("g1", "g2", "system:authenticated"))
    assert found.headers() == [
        (b"impersonate-user", b"alice"),
        (b"impersonate-group", b"g1"),
        (b"impersonate-group", b"g2"),
    ]


@pytest.mark.parametrize("days", [-3650, 3650])
def test_a_certificate_out_of_its_time_is_nobody(days: int) -> None:
    with pytest.raises(errors.Unauthenticated):
        identity.from_certificate(der(ALICE), NOW + days * 86400)


def test_a_certificate_without_a_name_is_nobody() -> None:
    server = AUTHORITY.issue_server(["127.0.0.1"], NOW).cert
    with pytest.raises(errors.Unauthenticated):
        identity.from_certificate(der(server), NOW)
    with pytest.raises(errors.Unauthenticated):
        identity.from_certificate(b"nonsense", NOW)


def test_uid_and_extra_go_along() -> None:
    found = identity.of("a", ("g",), "u-1", {"example.com/Key": ["v1", "v2"]})
    assert found.headers() == [
        (b"impersonate-user", b"a"),
        (b"impersonate-group", b"g"),
        (b"impersonate-uid", b"u-1"),
        (b"impersonate-extra-example.com%2fkey", b"v1"),
        (b"impersonate-extra-example.com%2fkey", b"v2"),
    ]
    assert identity.impersonation(found.headers()) == identity.Impersonation(
        "a", ("g",), "u-1", (("example.com/key", ("v1", "v2")),)
    )


@pytest.mark.parametrize("name", ["a\r\nImpersonate-Group: system:masters", "a\nb", "a\0"])
def test_a_name_cannot_add_a_header(name: str) -> None:
    with pytest.raises(errors.Unauthenticated):
        identity.Identity(name).headers()
    with pytest.raises(errors.Unauthenticated):
        identity.Identity("a", (name,)).headers()


def test_groups_without_a_user_cannot_be_impersonated() -> None:
    """Defect D2: groups that nobody had reviewed went on to the API server."""
    with pytest.raises(errors.Malformed):
        identity.impersonation([(b"impersonate-group", b"system:masters")])


def test_claims_do_not_survive() -> None:
    headers: heads.Headers = [
        (b"authorization", b"Bearer x"),
        (b"impersonate-user", b"admin"),
        (b"impersonate-group", b"system:masters"),
        (b"impersonate-uid", b"1"),
        (b"impersonate-extra-scopes", b"all"),
        (b"x-remote-user", b"admin"),
        (b"x-remote-group", b"system:masters"),
        (b"x-forwarded-client-cert", b"Cert=x"),
        (b"accept", b"*/*"),
    ]
    assert identity.unclaimed(headers) == [(b"accept", b"*/*")]


def test_a_service_account_is_in_its_groups() -> None:
    found = identity.Impersonation("system:serviceaccount:ns:sa", (), "", ()).identity()
    assert found.groups == (
        "system:serviceaccounts",
        "system:serviceaccounts:ns",
        "system:authenticated",
    )
    assert found.subjects[0] == ("ServiceAccount", "system:serviceaccount:ns:sa")


# X-Forwarded-Client-Cert.

CERT = parse.quote(ALICE.decode(), safe="")
HASH = hashlib.sha256(der(ALICE)).hexdigest()


@pytest.mark.parametrize(
    "value",
    [
        f"Cert={CERT}",
        f'Cert="{CERT}"',
        f'By=spiffe://a;Hash={HASH};Cert="{CERT}";Subject="CN=a, O=b;c";URI=',
        f'hash={HASH.upper()};cert={CERT};Subject="a \\" b"',
    ],
)
def test_a_forwarded_certificate(value: str) -> None:
    assert xfcc.certificate(value) == der(ALICE)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Hash=00",
        "Cert=",
        "Cert=nonsense",
        f"Cert={CERT},Cert={CERT}",
        f"Cert={CERT};Cert={CERT}",
        f"Hash=00;Cert={CERT}",
        f'Cert="{CERT}',
        f"Cert={CERT}{CERT}",
        f"Cert={CERT}trailing",
        f"nonsense;Cert={CERT}",
        f'Cert="{CERT}\\',
    ],
)
def test_what_is_not_exactly_one_certificate_is_nobody(value: str) -> None:
    with pytest.raises(errors.Unauthenticated):
        xfcc.certificate(value)


# Caches and networks.


def test_a_cache_forgets_in_time_and_in_order() -> None:
    found: cache.Cache[str, int] = cache.Cache(2)
    found.put("a", 1, 10.0)
    found.put("b", 2, 10.0)
    assert found.get("a", 9.0) == 1
    found.put("c", 3, 10.0)
    assert [found.get(key, 9.0) for key in "abc"] == [1, None, 3]
    assert found.get("a", 10.0) is None
    assert len(found) == 1


def test_no_network_trusts_nobody() -> None:
    """Defect D16: without a list everybody was believed."""
    assert not authenticate.trusted("127.0.0.1", ())
    assert not authenticate.trusted("nonsense", ())


def test_a_token_in_a_websocket_protocol_is_not_passed_on_by_us() -> None:
    value = b"base64url.bearer.authorization.k8s.io.YWJj, v4.channel.k8s.io"
    assert tokens.without_token(value) == b"v4.channel.k8s.io"


@pytest.mark.parametrize(
    ("heard", "left"),
    [
        (identity.ANY, ["devs", "devs-old", "ops", "system:masters"]),
        (identity.Groups("^dev"), ["devs", "devs-old"]),
        (identity.Groups("^dev", ("-old$",)), ["devs"]),
        (identity.Groups("", ("^dev", "^system:")), ["ops"]),
        # Anywhere, as in Go.
        (identity.Groups("p"), ["ops"]),
        (identity.Groups("^nobody$"), []),
    ],
)
def test_groups_that_are_not_heard_of_are_as_if_not_named(
    heard: identity.Groups, left: list[str]
) -> None:
    """Defect D2: they were not judged, but sent."""
    headers = [(b"impersonate-user", b"alice"), (b"authorization", b"Bearer t")]
    groups = (b"devs", b"devs-old", b"ops", b"system:masters")
    headers[1:1] = [(b"impersonate-group", group) for group in groups]
    found = identity.impersonation(headers, heard)
    assert found is not None
    assert list(found.groups) == left
    kept = found.heard(headers)
    assert [value.decode() for name, value in kept if name == b"impersonate-group"] == left
    assert (b"authorization", b"Bearer t") in kept
    sent = found.identity().headers()
    assert [value.decode() for name, value in sent if name == b"impersonate-group"] == left
