"""Parse and write message heads. Pure.

The syntax is llhttp's; on top of it everything is refused that two parsers could read in two
ways: that is what smuggling is made of. Header names are lower-case from here on.
"""

from __future__ import annotations

import dataclasses
import http
import re
from collections.abc import Iterable

import httptools

from tenantry.httpproxy import errors

Headers = list[tuple[bytes, bytes]]

END = b"\r\n\r\n"
#: Longest head of a response, in bytes.
RESPONSE_LIMIT = 256 * 1024
#: Headers of which a second one would make the message mean two things.
_SINGLE = frozenset(
    (
        b"host",
        b"content-length",
        b"transfer-encoding",
        b"authorization",
        b"content-type",
        b"expect",
        b"upgrade",
        b"impersonate-user",
        b"impersonate-uid",
        b"x-forwarded-client-cert",
    )
)
#: Headers that belong to one connection (RFC 9110, 7.6.1) and are never forwarded.
HOP_BY_HOP = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)
#: What a client may name in `Connection`: hop-by-hop by nature. Naming anything else asks us to
#: drop a header on which somebody behind us may rely.
_CONNECTION_OPTIONS = frozenset((b"close", b"keep-alive", b"upgrade", b"te", b"http2-settings"))
_METHODS = frozenset(
    (b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS")
)  # fmt: skip
#: What may stand in a target as it is: visible ASCII but for the mark of a fragment.
_TARGET = bytes(byte for byte in range(0x21, 0x7F) if byte != ord("#"))
#: All but what may not stand in a head by itself.
_UNCONTROLLED = bytes(byte for byte in range(256) if byte not in b"\r\n\0")
_FOLDED = re.compile(rb"\n[ \t]")
_REASONS = {status.value: status.phrase.encode() for status in http.HTTPStatus}


@dataclasses.dataclass(slots=True)
class RequestHead:
    """A request without its body."""

    method: bytes
    target: bytes
    """as sent: path and query"""
    headers: Headers
    host: bytes
    length: int | None
    """None when the body is chunked"""
    options: frozenset[bytes]
    """of the `Connection` header"""
    upgrade: bytes
    """the protocol that the client wants to go on with; empty for none"""
    expects: bool
    """whether the client waits for 100 before it sends the body"""

    @property
    def path(self) -> bytes:
        return self.target.partition(b"?")[0]

    @property
    def query(self) -> bytes:
        return self.target.partition(b"?")[2]

    def get(self, name: bytes) -> bytes:
        """Return the first header of a (lower-case) name, empty when there is none."""
        for key, value in self.headers:
            if key == name:
                return value
        return b""


@dataclasses.dataclass(slots=True)
class ResponseHead:
    """A response without its body."""

    status: int
    reason: bytes
    headers: Headers
    length: int | None
    """None when chunked or until the connection's end"""
    chunked: bool
    keep: bool
    """whether the connection can serve another request"""

    def get(self, name: bytes) -> bytes:
        """Return the first header of a (lower-case) name, empty when there is none."""
        for key, value in self.headers:
            if key == name:
                return value
        return b""


class _Sink:
    """What llhttp reports to."""

    __slots__ = ("complete", "headers", "reason", "url")

    def __init__(self) -> None:
        self.url = b""
        self.reason = b""
        self.headers: Headers = []
        self.complete = False

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_status(self, reason: bytes) -> None:
        self.reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        self.complete = True


def parse_request(block: bytes) -> RequestHead:
    """Parse a request's head, which ends with an empty line.

    :raises BadMessageError: when it is not exactly what RFC 9112 says, or could mean two things
    """
    _check_lines(block)
    sink = _Sink()
    parser = httptools.HttpRequestParser(sink)
    _feed(parser, block, sink)
    version, method = parser.get_http_version(), parser.get_method()
    if version != "1.1":
        raise errors.BadMessageError("only HTTP/1.1 is spoken here", 505)
    if method not in _METHODS:
        raise errors.BadMessageError("method is not supported", 405)
    # The parser tolerates more than one space and an absent version; the line as we would write it.
    if not block.startswith(b"%s %s HTTP/1.1\r\n" % (method, sink.url)):
        raise errors.BadMessageError("request line is not exact")
    _check_target(sink.url)
    found = _singles(sink.headers)
    host = found.get(b"host")
    if not host:
        raise errors.BadMessageError("exactly one Host header is needed")
    length, chunked = _framing(found)
    options = _options(sink.headers)
    expects = found.get(b"expect", b"").lower()
    if expects not in {b"", b"100-continue"}:
        raise errors.BadMessageError("expectation cannot be met", 417)
    upgrade = found.get(b"upgrade", b"") if b"upgrade" in options else b""
    if upgrade and (chunked or length):
        raise errors.BadMessageError("a request to upgrade has no body")
    return RequestHead(
        method=method,
        target=sink.url,
        headers=sink.headers,
        host=host,
        length=None if chunked else length or 0,
        options=options,
        upgrade=upgrade,
        expects=bool(expects),
    )


def parse_response(block: bytes, *, to_head: bool) -> ResponseHead:
    """Parse a response's head.

    :param to_head: whether the request was HEAD, so that there is no body whatever is said
    :raises BadMessageError: when it cannot be told where the response ends
    """
    _check_lines(block)
    sink = _Sink()
    parser = httptools.HttpResponseParser(sink)
    _feed(parser, block, sink)
    status = parser.get_status_code()
    found = _singles(sink.headers)
    length, chunked = _framing(found)
    if to_head or status < 200 or status in {204, 304}:
        length, chunked = 0, False
    options = _options(sink.headers, strict=False)
    keep = block.startswith(b"HTTP/1.1 ") and b"close" not in options
    return ResponseHead(
        status=status,
        reason=sink.reason,
        headers=sink.headers,
        length=length,
        chunked=chunked,
        keep=keep and (chunked or length is not None),
    )


def request_bytes(method: bytes, target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Write a request's head."""
    lines = [b"%s %s HTTP/1.1" % (method, target)]
    lines += [b"%s: %s" % header for header in headers]
    return b"\r\n".join(lines) + END


def response_bytes(
    status: int, headers: Iterable[tuple[bytes, bytes]], reason: bytes = b""
) -> bytes:
    """Write a response's head."""
    lines = [b"HTTP/1.1 %d %s" % (status, reason or _REASONS.get(status, b"Unknown"))]
    lines += [b"%s: %s" % header for header in headers]
    return b"\r\n".join(lines) + END


def end_to_end(headers: Headers) -> Headers:
    """Return the headers that may be forwarded: those that are not the connection's own."""
    return [header for header in headers if header[0] not in HOP_BY_HOP]


def _check_lines(block: bytes) -> None:
    # Where each CR has its LF, and there is nothing else of the kind, all is said at once.
    if block.translate(None, _UNCONTROLLED) != b"\r\n" * block.count(b"\r\n"):
        raise errors.BadMessageError("line ends other than CRLF, or NUL in the head")
    if _FOLDED.search(block):
        raise errors.BadMessageError("folded header")


def _feed(
    parser: httptools.HttpRequestParser | httptools.HttpResponseParser, block: bytes, sink: _Sink
) -> None:
    try:
        parser.feed_data(block)
    except httptools.HttpParserUpgrade:
        pass
    except httptools.HttpParserError as error:
        raise errors.BadMessageError(f"not HTTP: {error}") from None
    if not sink.complete:
        raise errors.BadMessageError("head is not complete")


def _check_target(target: bytes) -> None:
    if not target.startswith(b"/"):
        raise errors.BadMessageError("request target must be a path")
    if target.translate(None, _TARGET):
        raise errors.BadMessageError("request target has characters that must be encoded")


def _singles(headers: Headers) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _SINGLE:
            if name in found:
                raise errors.BadMessageError(f"{name.decode()}: given more than once")
            found[name] = value
    return found


def _framing(found: dict[bytes, bytes]) -> tuple[int | None, bool]:
    coding, length = found.get(b"transfer-encoding"), found.get(b"content-length")
    if coding is not None:
        if length is not None:
            raise errors.BadMessageError("both Content-Length and Transfer-Encoding")
        if coding.lower() != b"chunked":
            raise errors.BadMessageError("transfer coding is not supported", 501)
        return None, True
    if length is None:
        return None, False
    if not length.isdigit() or len(length) > 18:
        raise errors.BadMessageError("Content-Length is not a number")
    return int(length), False


def _options(headers: Headers, *, strict: bool = True) -> frozenset[bytes]:
    values = [value for name, value in headers if name == b"connection"]
    if not values:
        return frozenset()
    found = {option.strip().lower() for value in values for option in value.split(b",")} - {b""}
    if strict and not found <= _CONNECTION_OPTIONS:
        raise errors.BadMessageError("Connection names a header that is not the connection's")
    return frozenset(found)
