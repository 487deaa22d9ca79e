from __future__ import annotations

import pytest

from tenantry.gateway import errors, websocket
from tenantry.httpproxy import heads

from .sockets import BINARY, CLOSE, PING, TEXT, masked

#: The example of RFC 6455, chapter 1.3.
KEY, ACCEPT = b"dGhlIHNhbXBsZSBub25jZQ==", b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
OPENING = {
    b"host": b"h",
    b"connection": b"Upgrade",
    b"upgrade": b"websocket",
    b"sec-websocket-version": b"13",
    b"sec-websocket-key": KEY,
}


def opening(**more: bytes) -> dict[bytes, bytes]:
    found = OPENING | {name.replace("_", "-").encode(): value for name, value in more.items()}
    head = heads.parse_request(heads.request_bytes(b"GET", b"/", list(found.items())))
    return dict(websocket.opening(head))


def test_the_opening_of_the_rfc() -> None:
    assert opening() == {b"sec-websocket-accept": ACCEPT}


def test_the_protocol_is_agreed_to_without_the_token() -> None:
    token = b"base64url.bearer.authorization.k8s.io.YQ"
    for protocols in (token + b", binary.k8s.io", b"binary.k8s.io"):
        found = opening(sec_websocket_protocol=protocols)
        assert found[b"sec-websocket-protocol"] == b"binary.k8s.io"
    assert b"sec-websocket-protocol" not in opening(sec_websocket_protocol=token)


@pytest.mark.parametrize(
    "more",
    [
        {"sec_websocket_version": b"8"},
        {"sec_websocket_key": b""},
        {"sec_websocket_key": b"YQ=="},
        {"sec_websocket_key": b"!" * 24},
        {"sec_websocket_protocol": b"a, b"},
        {"upgrade": b"SPDY/3.1"},
    ],
)
def test_what_is_no_opening(more: dict[str, bytes]) -> None:
    with pytest.raises(errors.Malformed):
        opening(**more)


@pytest.mark.parametrize(("size", "head"), [(125, 2), (126, 4), (65535, 4), (65536, 10)])
def test_messages_have_the_shortest_head(size: int, head: int) -> None:
    found = websocket.message(b"x" * size, text=True)
    assert len(found) == size + head
    assert found[0] == 0x81
    assert websocket.message(b"", text=False) == b"\x82\x00"


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_pings_are_answered_and_messages_are_skipped(step: int) -> None:
    ear = websocket.Ear()
    long = b"\x82\xff" + (300_000).to_bytes(8, "big") + b"mask" + b"y" * 300_000
    said = masked(TEXT, b"x") + masked(PING, b"1") + long + masked(BINARY) + masked(PING, b"2")
    answers = [ear.feed(said[at : at + step]) for at in range(0, len(said), step)]
    found = [answer for answer in answers if answer]
    assert found[-1] == b"\x8a\x012"
    assert set(found) <= {b"\x8a\x011", b"\x8a\x012"}
    assert not ear.ended
    assert ear.feed(masked(CLOSE)) == websocket.CLOSE
    assert ear.ended


@pytest.mark.parametrize(
    "said",
    [
        b"\x81\x01x",  # without a mask
        b"\x89\xfe\x00\x80",  # a ping that is long
        b"\x09\x80mask",  # a ping in pieces
    ],
)
def test_who_breaks_the_rules_is_done(said: bytes) -> None:
    ear = websocket.Ear()
    ear.feed(said)
    assert ear.ended
    assert ear.feed(masked(PING)) == b""
