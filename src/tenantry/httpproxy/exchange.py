"""One request of a client, as a handler sees it, and what a handler can decide."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias

from tenantry.httpproxy import errors, framing, heads, upstream

if TYPE_CHECKING:
    from tenantry.httpproxy import downstream


@dataclasses.dataclass(slots=True)
class Answer:
    """A response that is known as a whole."""

    status: int
    body: bytes = b""
    headers: heads.Headers = dataclasses.field(default_factory=list)


#: Given the body of a response, what to answer instead of it.
Replacement: TypeAlias = Callable[[bytes], Awaitable[Answer | None]]


@dataclasses.dataclass(slots=True, kw_only=True)
class Forward:
    """Send the request on, with this head, and stream both ways."""

    server: upstream.Upstream
    target: bytes
    headers: heads.Headers
    """without those of the connection, without framing and Host, which the engine adds"""
    timeout: float | None = 120.0
    """seconds until the response must have begun; None for requests that may stay silent"""
    replace: dict[int, Replacement] | None = None
    """by status: what to answer instead, given the response's body; None = leave it"""


Action: TypeAlias = Answer | Forward | None
#: None means that the handler answered by itself.
Handler: TypeAlias = Callable[["Exchange"], Action | Coroutine[Any, Any, Action]]


@dataclasses.dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end."""

    host: str
    certificate: bytes
    """the verified client certificate, DER; empty for none"""
    tls: bool


@dataclasses.dataclass(slots=True)
class Outcome:
    """How an exchange went."""

    status: int = 0
    """0 when no response was begun"""
    sent: int = 0
    """bytes of the response, framing included"""
    upstream_seconds: float = 0.0
    """from sending the request's head on until the response began"""
    error: str = ""
    media: bytes = b""
    """the response's content type"""


class Exchange:
    """A request and the ways to answer it. Only one of `respond` and `start` may be used, once."""

    __slots__ = (
        "_connection",
        "_pieces",
        "_raw",
        "_waiter",
        "done",
        "forwarded_at",
        "head",
        "outcome",
        "started",
        "started_at",
    )

    def __init__(
        self, connection: downstream.Connection, head: heads.RequestHead, now: float
    ) -> None:
        self._connection = connection
        self.head = head
        self.outcome = Outcome()
        self.started_at = now
        self.forwarded_at = 0.0
        self.started = False
        self.done: Callable[[Exchange], None] | None = None
        """called once, when the exchange is over"""
        self._pieces: list[bytes] = []
        self._raw = False
        self._waiter: asyncio.Future[None] | None = None

    @property
    def peer(self) -> Peer:
        return self._connection.peer

    @property
    def gone(self) -> bool:
        """Whether the client has hung up."""
        return self._connection.exchange is not self

    async def body(self, limit: int) -> bytes:
        """Read the request's body.

        :raises TooLargeError: when it is longer than `limit`
        :raises ClientGoneError: when it will never be complete
        """
        if self.head.expects:
            self._connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._connection.collect(self._pieces)
        while not self._connection.request_done:
            if sum(map(len, self._pieces)) > limit:
                raise errors.TooLargeError(limit)
            await self._wait()
        found = b"".join(self._pieces)
        if len(found) > limit:
            raise errors.TooLargeError(limit)
        return found

    def respond(self, answer: Answer) -> None:
        """Answer as a whole."""
        if not self.gone:
            self._connection.answer(answer)

    def start(self, status: int, headers: heads.Headers) -> None:
        """Begin a response whose length is not known."""
        self._require_client()
        self._connection.begin_response(status, [*headers, (b"transfer-encoding", b"chunked")])

    def switch(self, headers: heads.Headers, heard: Callable[[bytes], None]) -> None:
        """Switch to the protocol that the client asked for, and speak it here.

        From then on bytes are written as they are.

        :param heard: gets what the client says; nothing when it has said all
        """
        self._require_client()
        self._raw = True
        self._connection.switch(headers, heard)

    def offer(self, data: bytes) -> None:
        """Send a piece of the response, unless the client does not keep up."""
        if not self.gone and self._connection.writable:
            self._connection.send(data)

    async def write(self, data: bytes) -> None:
        """Send a piece of the response; wait while the client does not keep up.

        :raises ClientGoneError: when nobody reads it
        """
        self._require_client()
        if data:
            self._connection.send(data if self._raw else framing.chunk(data))
        while not self._connection.writable:
            await self._wait()

    def end(self) -> None:
        """End the response that `start` or `switch` began."""
        if not self.gone:
            if not self._raw:
                self._connection.send(framing.LAST_CHUNK)
            self._connection.finish()

    def interrupt(self, last: bytes = b"") -> None:
        """End a forwarded response early, whole if possible, with `last` as its last payload."""
        if not self.gone:
            self._connection.interrupt(last)

    def wake(self) -> None:
        """Let a handler that waits look again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self) -> None:
        self._require_client()
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter
        self._require_client()

    def _require_client(self) -> None:
        if self.gone:
            raise errors.ClientGoneError
