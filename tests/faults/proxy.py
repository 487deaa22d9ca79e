"""The fault proxy: HTTP between a client under test and a real API server, with things that go wrong.

It runs in a thread of its own, so that a client's loop may hang while the network does not. A
`Rule` says which requests a `Fault` happens to and how often; everything else is passed on as it
is. All requests are recorded: a test can count what a client asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import aiohttp
import yarl
from aiohttp import web

from tenantry.kube import config, credentials, tls

#: Headers that belong to one connection, or that the proxy decides itself.
_OWN = frozenset({"connection", "content-length", "host", "keep-alive", "transfer-encoding"})
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclasses.dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    query: Mapping[str, str]
    agent: str
    authorization: str
    at: float

    @property
    def watch(self) -> bool:
        return "watch" in self.query

    @property
    def writes(self) -> bool:
        return self.method in WRITES


Match = Callable[[Seen], bool]


def anything(_: Seen) -> bool:
    return True


def watches(seen: Seen) -> bool:
    return seen.watch


def lists(seen: Seen) -> bool:
    return seen.method == "GET" and not seen.watch


def writes(seen: Seen) -> bool:
    return seen.writes


@dataclasses.dataclass
class Rule:
    """A fault for the next `times` requests that match."""

    fault: Fault
    match: Match = anything
    times: int | None = 1
    hits: int = 0


class _Aborted(Exception):
    """Raised when the connection to the client is gone."""


class Exchange:
    """One request on its way; faults are made of these moves."""

    def __init__(self, proxy: Proxy, request: web.Request, seen: Seen, body: bytes) -> None:
        self.proxy = proxy
        self.request = request
        self.seen = seen
        self.body = body

    def abort(self) -> None:
        """Cut the connection without a goodbye."""
        if self.request.transport is not None:
            self.request.transport.abort()
        raise _Aborted

    @contextlib.asynccontextmanager
    async def above(self) -> Any:
        """Ask the API server."""
        headers = {k: v for k, v in self.request.headers.items() if k.lower() not in _OWN}
        try:
            async with self.proxy.session.request(
                self.request.method,
                yarl.URL(self.proxy.above + self.request.raw_path, encoded=True),
                headers=headers,
                data=self.body or None,
                allow_redirects=False,
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            ) as answer:
                yield answer
        except (aiohttp.ClientError, OSError):
            self.abort()

    async def begin(self, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        """Pass on the head of the answer."""
        headers = {k: v for k, v in answer.headers.items() if k.lower() not in _OWN}
        response = web.StreamResponse(status=answer.status, headers=headers)
        if answer.content_length is not None:
            response.content_length = answer.content_length
        else:
            response.enable_chunked_encoding()
        await response.prepare(self.request)
        return response

    async def write(self, response: web.StreamResponse, data: bytes) -> None:
        while True:
            if self.seen.agent not in self.proxy.held or not self.seen.watch:
                break
            await asyncio.sleep(0.005)
        try:
            await response.write(data)
        except (ConnectionError, RuntimeError) as error:
            raise _Aborted from error

    async def silence(self) -> None:
        """Say nothing more until the client gives up or the proxy ends."""
        while self.request.transport is not None and not self.request.transport.is_closing():
            if self.proxy.released.is_set():
                return
            await asyncio.sleep(0.01)


class Fault:
    """What happens to a request; by itself nothing: it is passed on."""

    async def play(self, exchange: Exchange) -> web.StreamResponse:
        async with exchange.above() as answer:
            response = await exchange.begin(answer)
            async for chunk in answer.content.iter_any():
                await self.chunk(exchange, response, chunk)
        await response.write_eof()
        return response

    async def chunk(self, exchange: Exchange, response: web.StreamResponse, data: bytes) -> None:
        await exchange.write(response, data)


@dataclasses.dataclass
class Answer(Fault):
    """Answer in place of the API server, which is not asked."""

    code: int
    reason: str = ""
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    body: bytes | None = None

    async def play(self, exchange: Exchange) -> web.StreamResponse:
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": self.code,
            "reason": self.reason,
            "message": f"the proxy says {self.code}",
        }
        body = json.dumps(status).encode() if self.body is None else self.body
        return web.Response(
            status=self.code,
            body=body,
            headers={"Content-Type": "application/json", **self.headers},
        )


@dataclasses.dataclass
class Late(Fault):
    """Be slow, then do something else."""

    seconds: float
    then: Fault = dataclasses.field(default_factory=Fault)

    async def play(self, exchange: Exchange) -> web.StreamResponse:
        await asyncio.sleep(self.seconds)
        return await self.then.play(exchange)


class Refuse(Fault):
    """Cut before the API server hears of the request."""

    async def play(self, exchange: Exchange) -> web.StreamResponse:
        exchange.abort()
        raise AssertionError


class Lose(Fault):
    """Let the API server act, and cut before its answer comes back."""

    async def play(self, exchange: Exchange) -> web.StreamResponse:
        async with exchange.above() as answer:
            await answer.read()
        exchange.abort()
        raise AssertionError


@dataclasses.dataclass
class Within(Fault):
    """Pass on the first `size` bytes of the answer, then do something."""

    size: int
    passed: int = 0

    async def play(self, exchange: Exchange) -> web.StreamResponse:
        self.passed = 0
        return await super().play(exchange)

    async def chunk(self, exchange: Exchange, response: web.StreamResponse, data: bytes) -> None:
        left = self.size - self.passed
        self.passed += len(data)
        if left < 0 or len(data) <= left:
            await exchange.write(response, data)
            return
        if left:
            await exchange.write(response, data[:left])
            # The client must have read it before the cut.
            await asyncio.sleep(0.02)
        await self.there(exchange)
        await exchange.write(response, data[left:])
        self.size = -1

    async def there(self, exchange: Exchange) -> None:
        raise NotImplementedError


class Cut(Within):
    async def there(self, exchange: Exchange) -> None:
        exchange.abort()


class Stall(Within):
    async def there(self, exchange: Exchange) -> None:
        await exchange.silence()
        exchange.abort()


@dataclasses.dataclass
class Call(Within):
    """Call something in the middle of an answer, such as the end of the API server."""

    hook: Callable[[], Any] = lambda: None

    async def there(self, exchange: Exchange) -> None:
        await asyncio.to_thread(self.hook)


@dataclasses.dataclass
class Sent(Fault):
    """Call something as soon as the request is on its way to the API server."""

    hook: Callable[[], Any]

    async def play(self, exchange: Exchange) -> web.StreamResponse:
        hook = asyncio.get_running_loop().run_in_executor(None, self.hook)
        try:
            return await super().play(exchange)
        finally:
            await hook


@dataclasses.dataclass
class With(Fault):
    """Wait for something else before the API server hears of the request."""

    moment: Callable[[], Any]

    async def play(self, exchange: Exchange) -> web.StreamResponse:
        await asyncio.to_thread(self.moment)
        return await super().play(exchange)


@dataclasses.dataclass
class Drip(Fault):
    """Slow loris: the answer comes in small pieces with pauses."""

    size: int
    pause: float

    async def chunk(self, exchange: Exchange, response: web.StreamResponse, data: bytes) -> None:
        for start in range(0, len(data), self.size):
            await exchange.write(response, data[start : start + self.size])
            await asyncio.sleep(self.pause)


@dataclasses.dataclass
class Lines(Fault):
    """Change a watch line by line."""

    change: Callable[[dict[str, Any]], Iterable[bytes]]
    _rest: bytes = b""

    async def chunk(self, exchange: Exchange, response: web.StreamResponse, data: bytes) -> None:
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            for changed in self.change(json.loads(line)):
                await exchange.write(response, changed)


def line(kind: str, obj: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


class Proxy:
    """See the module's docstring; `with Proxy(config) as proxy`."""

    def __init__(
        self, source: config.Config, *, context: ssl.SSLContext | None = None, identity: bool = True
    ) -> None:
        """`context` makes it speak TLS; without `identity` clients need credentials of their own."""
        self.source = source
        self.above = source.server
        self.context = context
        self.identity = identity
        self.rules: list[Rule] = []
        self.requests: list[Seen] = []
        #: User agents whose watches are held back.
        self.held: set[str] = set()
        self.released = threading.Event()
        self.down = False
        self.port = 0
        self.session: aiohttp.ClientSession
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="fault-proxy", daemon=True)
        self._started = threading.Event()
        self._stop = asyncio.Event()
        self._open: set[asyncio.Transport] = set()

    @property
    def server(self) -> str:
        return f"{'https' if self.context else 'http'}://127.0.0.1:{self.port}"

    def config(self, **changes: Any) -> config.Config:
        """Give a client's configuration that leads here."""
        return config.Config(server=self.server, **changes)

    def add(self, fault: Fault, match: Match = anything, *, times: int | None = 1) -> Rule:
        rule = Rule(fault, match, times)
        self.rules.append(rule)
        return rule

    def clear(self) -> None:
        self.rules.clear()

    def cut(self) -> None:
        """Cut every connection there is."""
        self._loop.call_soon_threadsafe(self._cut)

    def _cut(self) -> None:
        for transport in list(self._open):
            transport.abort()

    def count(self, match: Match = anything) -> int:
        return sum(1 for seen in list(self.requests) if match(seen))

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self.held.clear()
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        credential = await credentials.Source(self.source).get()
        if not self.identity:
            credential = dataclasses.replace(credential, cert=b"", key=b"", authorization="")
        context = tls.context(self.source, credential)
        connector = aiohttp.TCPConnector(ssl=context, limit=0)
        async with aiohttp.ClientSession(
            connector=connector, auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None)
        ) as self.session:
            runner = web.ServerRunner(
                web.Server(self._handle, access_log=None), shutdown_timeout=0.1
            )
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self.context).start()
            self.port = runner.addresses[0][1]
            self._started.set()
            await self._stop.wait()
            self._cut()
            await runner.cleanup()
        await asyncio.sleep(0.01)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        seen = Seen(
            method=request.method,
            path=request.path,
            query=dict(request.query),
            agent=request.headers.get("User-Agent", ""),
            authorization=request.headers.get("Authorization", ""),
            at=time.monotonic(),
        )
        self.requests.append(seen)
        assert request.transport is not None
        transport = request.transport
        self._open.add(transport)
        body = await request.read()
        exchange = Exchange(self, request, seen, body)  # type: ignore[arg-type]
        try:
            if self.down:
                exchange.abort()
            return await self._fault(seen).play(exchange)
        except _Aborted:
            return web.Response()
        finally:
            if transport.is_closing():
                self._open.discard(transport)

    def _fault(self, seen: Seen) -> Fault:
        for rule in self.rules:
            if rule.match(seen) and (rule.times is None or rule.hits < rule.times):
                rule.hits += 1
                return rule.fault
        return Fault()
