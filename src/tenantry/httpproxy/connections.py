"""One connection to a server behind.

It carries one exchange at a time and reports to its `Consumer`, or several questions at once, whose
whole answers an `Asker` gets.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Protocol

from tenantry.httpproxy import errors, framing, heads, pipelining, wire


class Consumer(Protocol):
    """Who gets the response on a connection."""

    #: Whether `response_body` gets payload instead of the framed bytes.
    decode: bool

    def response_started(self, head: heads.ResponseHead) -> None: ...
    def response_body(self, data: bytes) -> None: ...
    def response_ended(self) -> None: ...
    def response_failed(self, error: errors.ProxyError) -> None: ...
    def upstream_writable(self, writable: bool) -> None: ...


class Asker(Protocol):
    """Who gets whole answers to several requests."""

    def answered(self, found: list[pipelining.Answer]) -> None: ...
    def failed(self, error: errors.ProxyError, *, begun: bool) -> None:
        """Note that no more answers come; `begun` tells whether one had."""


@dataclasses.dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens."""

    host: str
    port: int

    @property
    def authority(self) -> bytes:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}".encode()


class Owner(Protocol):
    """Who keeps connections that nobody uses."""

    def release(self, connection: Connection, /) -> None: ...
    def forget(self, connection: Connection, /) -> None: ...


class Connection:
    """One connection; idle while it has no consumer."""

    def __init__(self, owner: Owner, address: Address) -> None:
        self.address = address
        self.transport: wire.Wire | None = None
        self.used = False
        self._owner = owner
        self._consumer: Consumer | None = None
        self._asked: tuple[Asker, pipelining.Answers] | None = None
        self._buffer = b""
        self._head: heads.ResponseHead | None = None
        self._framer: framing.Framer | None = None
        self._to_head = False
        self._request_done = True
        self._answered = False
        self.idle_since = 0.0
        self._dead = False

    # As an exchange sees it.

    def begin(self, consumer: Consumer, head: bytes, *, to_head: bool, complete: bool) -> None:
        """Send a request's head (and body, when it is `complete` already)."""
        assert self.transport is not None
        self._consumer = consumer
        self._to_head = to_head
        self._request_done = complete
        self._answered = False
        self._buffer = b""
        self._head = self._framer = None
        self.transport.write(head)

    def ask(
        self, asker: Asker, requests: bytes, *, count: int, took: Callable[[int], None]
    ) -> None:
        """Send so many GETs at once, to be answered one after the other.

        :param took: is told the size of each piece of an answer
        """
        assert self.transport is not None
        self._asked = (asker, pipelining.Answers(count, took))
        self.transport.write(requests)

    def write(self, data: bytes) -> None:
        """Send more of the body, or of a tunnel."""
        if self.transport is not None and not self._dead:
            self.transport.write(data)

    def request_ended(self) -> None:
        self._request_done = True

    @property
    def framer(self) -> framing.Framer | None:
        """What follows the response's body, once that has begun."""
        return self._framer

    @property
    def answered(self) -> bool:
        """Whether anything of the response has come."""
        return self._answered

    def pause(self, paused: bool) -> None:
        """Stop or go on reading."""
        if self.transport is None or self._dead:
            return
        if paused and self.transport.is_reading():
            self.transport.pause_reading()
        elif not paused and not self.transport.is_reading():
            self.transport.resume_reading()

    def shut(self) -> None:
        """End our direction of a tunnel after what was written."""
        if self.transport is not None and not self._dead:
            self.transport.write_eof()

    def leave(self) -> None:
        """Drop a tunnel; what was written before is still sent."""
        self._consumer = None
        self._dead = True
        if self.transport is not None:
            self.transport.close()

    def abandon(self) -> None:
        """Drop the exchange and the connection with it."""
        self._consumer = self._asked = None
        self.kill()

    def kill(self) -> None:
        self._dead = True
        if self.transport is not None:
            self.transport.abort()

    @property
    def usable(self) -> bool:
        return not self._dead and self.transport is not None and not self.transport.is_closing()

    # As the wire sees it.

    def connection_made(self, made: wire.Wire) -> None:
        self.transport = made

    def data_received(self, data: bytes) -> None:
        if self._asked is not None:
            asker, answers = self._asked
            self._answer(asker, answers, answers.feed(data))
            return
        consumer = self._consumer
        if consumer is None:
            # Nobody asked: the server has lost track, or somebody else speaks.
            self.kill()
            return
        self._answered = True
        try:
            if self._framer is None or consumer.decode:
                self._receive(consumer, data)
                return
            end = self._framer.feed(data)
            if end:
                consumer.response_body(data if end == len(data) else data[:end])
            if self._framer.done and self._consumer is consumer:
                self._ended(consumer, extra=end < len(data))
        except errors.BadMessageError as error:
            self._fail(errors.UpstreamBrokenError(error.reason))

    def _receive(self, consumer: Consumer, data: bytes) -> None:
        at, begun = 0, False
        while self._framer is None:
            # Other heads may come before that of the response.
            if self._buffer:
                data, at, self._buffer = self._buffer + data[at:], 0, b""
            end = data.find(heads.END, at) + len(heads.END)
            if end < len(heads.END):
                self._buffer = data[at:]
                if len(self._buffer) > heads.RESPONSE_LIMIT:
                    raise errors.BadMessageError("response head is too long")
                return
            self._started(consumer, data[at:end])
            at, begun = end, True
            if self._consumer is not consumer:
                return
        end = self._body(consumer, self._framer, data, at, begun=begun)
        if self._framer.done and self._consumer is consumer:
            self._ended(consumer, extra=end < len(data))

    def _started(self, consumer: Consumer, block: bytes) -> None:
        head = heads.parse_response(block, to_head=self._to_head)
        if head.status == 101:
            self._head, self._framer = head, framing.UntilClose()
        elif head.status >= 200:
            self._head = head
            self._framer = framing.framer(length=head.length, chunked=head.chunked)
        consumer.response_started(head)

    @staticmethod
    def _body(
        consumer: Consumer, framer: framing.Framer, data: bytes, at: int, *, begun: bool
    ) -> int:
        """Hand over what belongs to the body; return where it ends."""
        if consumer.decode:
            sink: list[bytes] = []
            end = framer.feed(data, at, sink)
            if sink:
                consumer.response_body(b"".join(sink))
        else:
            end = framer.feed(data, at)
            if end > at or begun:
                consumer.response_body(data[at:end])
        return end

    def _ended(self, consumer: Consumer, *, extra: bool) -> None:
        assert self._head is not None
        self._consumer = None
        self._free(keep=self._head.keep and self._request_done and not extra)
        consumer.response_ended()

    def _answer(
        self, asker: Asker, answers: pipelining.Answers, found: list[pipelining.Answer]
    ) -> None:
        over = answers.over
        if over:
            self._asked = None
            self._free(keep=answers.reusable)
        if found:
            asker.answered(found)
        if over and answers.owed:
            why = answers.broken or "closed early"
            asker.failed(errors.UpstreamBrokenError(why), begun=answers.begun)

    def _free(self, *, keep: bool) -> None:
        """Let others have the connection; whoever hears of the end may take it again at once."""
        self.used = True
        if keep:
            self._owner.release(self)
        else:
            self.kill()

    def eof_received(self) -> bool:
        if self._asked is not None:
            asker, answers = self._asked
            if found := answers.end():
                self._answer(asker, answers, found)
            return False
        consumer = self._consumer
        if consumer is None or self._head is None or self._head.length is not None:
            return False
        if self._head.chunked or self._dead:
            return False
        # A body, or a tunnel's direction, that ends with the connection. In a tunnel the other
        # direction may go on.
        tunnel = self._head.status == 101
        if not tunnel:
            self._consumer = None
        consumer.response_ended()
        return tunnel

    def connection_lost(self, exc: Exception | None) -> None:
        self._dead = True
        self._owner.forget(self)
        self._fail(errors.UpstreamBrokenError(str(exc) if exc else "closed early"))

    def _fail(self, error: errors.ProxyError) -> None:
        consumer, self._consumer = self._consumer, None
        if not self._dead:
            self.kill()
        if consumer is not None:
            consumer.response_failed(error)
        if self._asked is not None:
            (asker, answers), self._asked = self._asked, None
            asker.failed(error, begun=answers.begun)

    def pause_writing(self) -> None:
        if self._consumer is not None:
            self._consumer.upstream_writable(False)

    def resume_writing(self) -> None:
        if self._consumer is not None:
            self._consumer.upstream_writable(True)
