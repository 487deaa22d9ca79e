"""Connections to one server: send one request, or open one stream. No retries here.

The thin shell around aiohttp. It says of every failure whether the request had been handed to
the network (`Lost.sent`), which is what `client` needs to tell "rejected" from "unknown".
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
import ssl
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import aiohttp
import yarl

from tenantry.kube import chunked, credentials, tls
from tenantry.kube import config as configs

#: Seconds to connect, TLS included not; a dead host must not eat the whole deadline.
CONNECT_TIMEOUT = 10.0
#: Seconds an idle connection is kept; the API server closes its own after 90.
KEEPALIVE = 60.0
#: Turns of the event loop that `close` waits for sockets to end; they take two or three.
SETTLE_TURNS = 50
#: Bytes buffered per connection before reading pauses (aiohttp pauses at twice this).
BODY_BUFFER = 512 * 1024
WATCH_BUFFER = 64 * 1024
#: Bytes that an answer may have, after decompression. A page of 500 objects of a few KB has two or
#: three MiB; one of objects as large as etcd takes them is asked for in smaller pages.
LONGEST_ANSWER = 128 << 20


class Lost(Exception):
    """Raised when no complete answer came.

    :param sent: whether the request may have reached the server
    :param untrusted: whether it ended because the server's certificate is not trusted
    :param too_large: whether it was given up because it has too many bytes
    """

    def __init__(
        self, why: str, *, sent: bool, untrusted: bool = False, too_large: bool = False
    ) -> None:
        self.why = why
        self.sent = sent
        self.untrusted = untrusted
        self.too_large = too_large
        super().__init__(why)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """One HTTP request; `target` is path and query, percent-encoded."""

    method: str
    target: str
    headers: Sequence[tuple[str, str]]
    body: bytes | None = None


@dataclasses.dataclass(frozen=True)
class Response:
    """A complete answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    #: Values of the `Warning` headers, see `warning`.
    warnings: Sequence[str] = ()


@dataclasses.dataclass
class _Progress:
    """What the tracing hook knows of one request."""

    sent: bool = False


class Transport:
    """The pools of one configuration; sessions and TLS contexts appear on first use."""

    def __init__(
        self, config: configs.Config, *, connections: int, longest_answer: int = LONGEST_ANSWER
    ) -> None:
        self._config = config
        self._longest_answer = longest_answer
        self._connections = connections
        self._calls: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None
        self._tls: tuple[credentials.Credential, ssl.SSLContext] | None = None
        self._closed = False
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self.source = credentials.Source(config, check=self._context)

    async def close(self) -> None:
        """Close all connections and return when their sockets are closed; open streams end cut."""
        self._closed = True
        for session in (self._calls, self._streams):
            if session is not None:
                await session.close()
        self._calls = self._streams = None
        self._tls = None
        await self._settle()

    async def _settle(self) -> None:
        """End what the sessions no longer know: connections in the middle of a TLS goodbye.

        Without it their sockets would outlive an event loop that ends after us.
        """
        left = [one for one in self._sockets if one.fileno() != -1]
        for one in left:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for _ in range(SETTLE_TURNS):
            if all(one.fileno() == -1 for one in left):
                return
            # The loop is about to read the end of file that the shutdown made.
            await asyncio.sleep(0)

    def _socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, _ = address
        made = socket.socket(family, kind, protocol)
        self._sockets.add(made)
        return made

    async def send(
        self, request: Request, credential: credentials.Credential, *, timeout: float
    ) -> Response:
        """Send and read the whole answer, whatever its status.

        :param timeout: seconds for everything, waiting for a free connection included
        :raises Lost: when there is no complete answer
        """
        if self._calls is None:
            connector = aiohttp.TCPConnector(limit=self._connections, **self._sockets_of_ours)
            self._calls = self._session(connector, buffer=BODY_BUFFER)
        progress = _Progress()
        try:
            async with asyncio.timeout(timeout):
                async with self._start(self._calls, request, credential, progress) as response:
                    body = await self._body(response)
                    headers = response.headers
                    return Response(response.status, headers, body, headers.getall("Warning", ()))
        # aiohttp's own time-outs are both kinds; they say more than ours.
        except aiohttp.ClientError as error:
            raise _lost(error, progress) from error
        except TimeoutError as error:
            raise Lost(f"no answer within {timeout:g} s", sent=progress.sent) from error

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        chunks, size = [], 0
        async for chunk in response.content.iter_any():
            size += len(chunk)
            if size > self._longest_answer:
                response.close()  # else the rest would be read to use the connection again
                why = f"the answer has more than {self._longest_answer} bytes"
                raise Lost(why, sent=True, too_large=True)
            chunks.append(chunk)
        return b"".join(chunks)

    async def open(
        self,
        request: Request,
        credential: credentials.Credential,
        *,
        timeout: float,
        inactivity: float | None,
    ) -> aiohttp.ClientResponse:
        """Open a stream from the pool for watches; the caller closes it.

        :param timeout: seconds until the answer's head is there
        :param inactivity: seconds without a byte after which reading fails
        :raises Lost: when no answer begins
        """
        if self._streams is None:
            connector = chunked.Connector(limit=0, **self._sockets_of_ours)
            self._streams = self._session(connector, buffer=WATCH_BUFFER)
        progress = _Progress()
        limits = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_TIMEOUT, sock_read=inactivity
        )
        try:
            async with asyncio.timeout(timeout):
                response: aiohttp.ClientResponse = await self._start(
                    self._streams, request, credential, progress, timeout=limits
                )
                return response
        # aiohttp's own time-outs are both kinds; they say more than ours.
        except aiohttp.ClientError as error:
            raise _lost(error, progress) from error
        except TimeoutError as error:
            raise Lost(f"no answer within {timeout:g} s", sent=progress.sent) from error

    async def rest(self, response: aiohttp.ClientResponse, *, timeout: float) -> bytes:
        """Read the body of a refused stream; what cannot be read within `timeout` is left out."""
        try:
            async with asyncio.timeout(timeout):
                return await self._body(response)
        except (aiohttp.ClientError, TimeoutError, Lost):
            return b""

    def _start(
        self,
        session: aiohttp.ClientSession,
        request: Request,
        credential: credentials.Credential,
        progress: _Progress,
        **options: Any,
    ) -> Any:
        headers = list(request.headers)
        if credential.authorization:
            headers.append(("Authorization", credential.authorization))
        if self._config.tls_server_name:
            options["server_hostname"] = self._config.tls_server_name
        if self._config.proxy_url:
            options["proxy"] = self._config.proxy_url
        return session.request(
            request.method,
            yarl.URL(self._config.server + request.target, encoded=True),
            headers=headers,
            data=request.body,
            ssl=self._context(credential),
            allow_redirects=False,
            trace_request_ctx=progress,
            **options,
        )

    def _context(self, credential: credentials.Credential) -> ssl.SSLContext | bool:
        if not self._config.server.startswith("https:"):
            return True
        if self._tls is None or not _same_tls(self._tls[0], credential):
            self._tls = (credential, tls.context(self._config, credential))
        return self._tls[1]

    @property
    def _sockets_of_ours(self) -> dict[str, Any]:
        if self._closed:
            raise RuntimeError("client is closed")
        return {"keepalive_timeout": KEEPALIVE, "socket_factory": self._socket}

    def _session(self, connector: aiohttp.TCPConnector, *, buffer: int) -> aiohttp.ClientSession:
        trace = aiohttp.TraceConfig()
        trace.on_request_headers_sent.append(_mark_sent)
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT),
            read_bufsize=buffer,
            trace_configs=[trace],
            middlewares=(_once,),
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"),
        )


def _same_tls(one: credentials.Credential, other: credentials.Credential) -> bool:
    if one is other:
        return True
    return (one.ca, one.cert, one.key) == (other.ca, other.cert, other.key)


def _lost(error: aiohttp.ClientError, progress: _Progress) -> Lost:
    untrusted = isinstance(error, aiohttp.ClientConnectorCertificateError)
    return Lost(str(error) or type(error).__name__, sent=progress.sent, untrusted=untrusted)


async def _mark_sent(_session: object, context: Any, _params: object) -> None:
    context.trace_request_ctx.sent = True


class _Cut(aiohttp.ClientError):
    """Raised in place of the errors after which aiohttp would repeat PUT and DELETE by itself."""


async def _once(
    request: aiohttp.ClientRequest,
    handler: Callable[[aiohttp.ClientRequest], Any],
) -> aiohttp.ClientResponse:
    try:
        response: aiohttp.ClientResponse = await handler(request)
    except (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError):
        raise
    except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
        raise _Cut(str(error) or type(error).__name__) from error
    return response
