from __future__ import annotations

import pytest

from tenantry.httpproxy import errors, heads


def block(*lines: bytes, first: bytes = b"GET /api HTTP/1.1", host: bool = True) -> bytes:
    named = (b"Host: h",) if host else ()
    return b"\r\n".join((first, *named, *lines)) + heads.END


def test_a_plain_request() -> None:
    head = heads.parse_request(block(b"Accept:  */* ", b"X-Empty:"))
    assert head.method == b"GET"
    assert head.target == b"/api"
    assert head.headers == [(b"host", b"h"), (b"accept", b"*/*"), (b"x-empty", b"")]
    assert head.length == 0
    assert not head.upgrade


def test_path_and_query_are_told_apart_at_the_first_mark() -> None:
    head = heads.parse_request(block(first=b"GET /a?b=c?d HTTP/1.1"))
    assert (head.path, head.query) == (b"/a", b"b=c?d")


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(block(b"Content-Length: 1", b"Transfer-Encoding: chunked"), id="cl+te"),
        pytest.param(block(b"Content-Length: 1", b"Content-Length: 1"), id="two lengths"),
        pytest.param(block(b"Content-Length: 1, 1"), id="list of lengths"),
        pytest.param(block(b"Content-Length: +1"), id="signed length"),
        pytest.param(block(b"Content-Length: 0x1"), id="hexadecimal length"),
        pytest.param(block(b"Content-Length: -1"), id="negative length"),
        pytest.param(block(b"Content-Length: 9999999999999999999"), id="absurd length"),
        pytest.param(block(b"Transfer-Encoding: gzip, chunked"), id="two codings"),
        pytest.param(block(b"Transfer-Encoding: identity"), id="identity"),
        pytest.param(block(b"Transfer-Encoding: xchunked"), id="unknown coding"),
        pytest.param(
            block(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"), id="te twice"
        ),
        pytest.param(block(b"Transfer-Encoding : chunked"), id="space before the colon"),
        pytest.param(block(b"X: a", b" b"), id="folded by a space"),
        pytest.param(block(b"X: a", b"\tb"), id="folded by a tab"),
        pytest.param(b"GET / HTTP/1.1\nHost: h\n\r\n\r\n", id="bare LF"),
        pytest.param(block(b"X: a\nY: b"), id="bare LF in a header"),
        pytest.param(block(b"X: a\rY: b"), id="bare CR in a header"),
        pytest.param(block(b"X: a\0b"), id="NUL"),
        pytest.param(block(b"X: a\x01b"), id="control character"),
        pytest.param(block(host=False), id="no host"),
        pytest.param(block(b"Host: other"), id="two hosts"),
        pytest.param(block(b"HOST: other"), id="two hosts, other case"),
        pytest.param(block(b"Host:", host=False), id="empty host"),
        pytest.param(
            block(b"Authorization: Bearer a", b"authorization: Bearer b"), id="two tokens"
        ),
        pytest.param(block(b"Impersonate-User: a", b"Impersonate-User: b"), id="two users"),
        pytest.param(block(b": value"), id="no name"),
        pytest.param(block(b"Na me: value"), id="space in a name"),
        pytest.param(block(b"N\xc3\xa4me: value"), id="name not ASCII"),
        pytest.param(block(b"no colon"), id="no colon"),
        pytest.param(block(b"Connection: Impersonate-User"), id="connection names a header"),
        pytest.param(block(b"Connection: close, Authorization"), id="connection names the token"),
        pytest.param(block(b"Connection: X-Forwarded-Client-Cert"), id="connection names XFCC"),
        pytest.param(block(first=b"GET http://h/api HTTP/1.1"), id="absolute form"),
        pytest.param(block(first=b"GET * HTTP/1.1"), id="asterisk"),
        pytest.param(block(first=b"GET  /api HTTP/1.1"), id="two spaces"),
        pytest.param(block(first=b"GET /api  HTTP/1.1"), id="two spaces later"),
        pytest.param(block(first=b" GET /api HTTP/1.1"), id="space first"),
        pytest.param(block(first=b"GET /a b HTTP/1.1"), id="space in the path"),
        pytest.param(block(first=b"GET /api\tHTTP/1.1"), id="tab"),
        pytest.param(block(first=b"GET /api#x HTTP/1.1"), id="fragment"),
        pytest.param(block(first=b"GET /\xff HTTP/1.1"), id="path not ASCII"),
        pytest.param(block(first=b"GET /api HTTP/1.0"), id="HTTP/1.0"),
        pytest.param(block(first=b"GET /api HTTP/2.0"), id="HTTP/2.0"),
        pytest.param(block(first=b"GET /api"), id="HTTP/0.9"),
        pytest.param(block(first=b"get /api HTTP/1.1"), id="lower-case method"),
        pytest.param(block(first=b"CONNECT h:1 HTTP/1.1"), id="CONNECT"),
        pytest.param(block(first=b"TRACE / HTTP/1.1"), id="TRACE"),
        pytest.param(block(b"Expect: 200-maybe"), id="unknown expectation"),
        pytest.param(
            block(b"Connection: Upgrade", b"Upgrade: SPDY/3.1", b"Content-Length: 5"),
            id="upgrade with a body",
        ),
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(bad: bytes) -> None:
    with pytest.raises(errors.BadMessageError):
        heads.parse_request(bad)


def test_an_upgrade_needs_both_headers() -> None:
    assert heads.parse_request(block(b"Upgrade: SPDY/3.1")).upgrade == b""
    head = heads.parse_request(block(b"Connection: keep-alive, Upgrade", b"Upgrade: SPDY/3.1"))
    assert head.upgrade == b"SPDY/3.1"


def test_headers_of_the_connection_are_not_forwarded() -> None:
    head = heads.parse_request(block(b"Connection: close", b"Keep-Alive: 1", b"TE: trailers"))
    assert heads.end_to_end(head.headers) == [(b"host", b"h")]


@pytest.mark.parametrize(
    ("lines", "length", "chunked", "keep"),
    [
        ((b"Content-Length: 3",), 3, False, True),
        ((b"Transfer-Encoding: chunked",), None, True, True),
        ((), None, False, False),
        ((b"Content-Length: 3", b"Connection: close"), 3, False, False),
    ],
)
def test_where_a_response_ends(
    lines: tuple[bytes, ...], length: int | None, chunked: bool, keep: bool
) -> None:
    head = heads.parse_response(block(*lines, first=b"HTTP/1.1 200 OK", host=False), to_head=False)
    assert (head.length, head.chunked, head.keep) == (length, chunked, keep)
    assert (head.status, head.reason) == (200, b"OK")


@pytest.mark.parametrize("status", [b"204", b"304"])
def test_a_status_without_a_body(status: bytes) -> None:
    head = heads.parse_response(
        block(b"Content-Length: 3", first=b"HTTP/1.1 %s X" % status, host=False), to_head=False
    )
    assert head.length == 0


def test_a_response_to_head_has_no_body() -> None:
    found = block(b"Content-Length: 3", first=b"HTTP/1.1 200 OK", host=False)
    assert heads.parse_response(found, to_head=True).length == 0


def test_written_heads_can_be_read_again() -> None:
    written = heads.request_bytes(b"GET", b"/a?b", [(b"host", b"h"), (b"x", b"y")])
    head = heads.parse_request(written)
    assert (head.target, head.get(b"x")) == (b"/a?b", b"y")
    answer = heads.parse_response(
        heads.response_bytes(404, [(b"content-length", b"0")]), to_head=False
    )
    assert (answer.status, answer.reason) == (404, b"Not Found")
