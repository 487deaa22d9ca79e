"""A client's connection: reads requests one after another and has each answered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from tenantry.core import clock
from tenantry.httpproxy import errors, exchange, framing, heads, relay

if TYPE_CHECKING:
    from tenantry.httpproxy import server as servers
    from tenantry.httpproxy import wire

logger = logging.getLogger(__name__)

#: Bytes held of what a client sends ahead of its turn.
_AHEAD = 64 * 1024
_NEVER = float("inf")
_MEDIA = b"content-type"


class Connection:
    """One connection of a client. `deadline` is looked at by the server's sweep."""

    def __init__(self, server: servers.Server) -> None:
        self.peer = exchange.Peer("", b"", tls=False)
        self.exchange: exchange.Exchange | None = None
        self.deadline = 0.0
        self.writable = True
        self._server = server
        self._settings = server.settings
        self._transport: wire.Wire | None = None
        self._buffer = b""
        self._framer: framing.Framer | None = None
        self._sink: list[bytes] | None = None
        self._relay: relay.Relay | relay.Ended | None = None
        self._task: asyncio.Task[None] | None = None
        self._pauses: set[str] = set()
        self._last = False
        self._closing = False
        self._reading_head = True
        self._response_timeout = _NEVER

    # The wire's side.

    def connection_made(self, made: wire.Wire) -> None:
        self._transport = made
        self.peer = exchange.Peer(made.host, made.certificate, tls=made.secure)
        self.deadline = clock.monotonic() + self._settings.head_timeout
        self._server.opened(self)

    def data_received(self, data: bytes) -> None:
        if self._relay is not None and self._relay.tunnel:
            self._relay.through(data)
            if self.deadline != _NEVER:
                self.deadline = clock.monotonic() + self._settings.idle_timeout
            return
        self._buffer = self._buffer + data if self._buffer else data
        self.advance()

    def eof_received(self) -> bool:
        if self._relay is not None and self._relay.tunnel:
            self._relay.client_shut()
            return True
        return False

    def connection_lost(self, _exc: Exception | None) -> None:
        self._server.closed(self)
        found, self.exchange = self.exchange, None
        if self._relay is not None:
            self._relay.leave()
        if self._task is not None:
            self._task.cancel()
        if found is not None:
            found.outcome.error = found.outcome.error or "client closed the connection"
            found.wake()
            self._over(found)

    def pause_writing(self) -> None:
        self.writable = False
        # A client that does not read must not hold our memory for ever.
        self.deadline = clock.monotonic() + self._settings.stall_timeout
        if self._relay is not None:
            self._relay.client_writable(False)

    def resume_writing(self) -> None:
        self.writable = True
        waits = _NEVER if self.exchange is not None else self._settings.idle_timeout
        self.deadline = clock.monotonic() + waits
        if self._relay is not None:
            self._relay.client_writable(True)
        if self.exchange is not None:
            self.exchange.wake()

    # Requests.

    @property
    def request_done(self) -> bool:
        return self._framer is None or self._framer.done

    @property
    def idle(self) -> bool:
        return self.exchange is None

    def advance(self) -> None:
        """Take from the buffer what can be taken now."""
        while self._buffer and not self._closing:
            if self.exchange is None:
                if not self._next_request():
                    return
            elif self.request_done or not self._take_body():
                break
        self.pause("ahead", paused=len(self._buffer) > _AHEAD and not self._closing)

    def _next_request(self) -> bool:
        end = self._buffer.find(heads.END)
        if end < 0 and len(self._buffer) <= self._settings.head_limit:
            # The time for a head runs from its first byte, however slowly the others come.
            if not self._reading_head:
                self._reading_head = True
                self.deadline = clock.monotonic() + self._settings.head_timeout
            return False
        if end < 0 or end > self._settings.head_limit:
            self._refuse(errors.BadMessageError("head is too long", 431))
            return False
        block = self._buffer[: end + 4]
        try:
            head = heads.parse_request(block)
        except errors.BadMessageError as error:
            self._refuse(error)
            return False
        self._buffer = self._buffer[end + 4 :]
        self._reading_head = False
        now = clock.monotonic()
        self._framer = framing.framer(length=head.length, chunked=head.length is None)
        self._sink = None
        self._response_timeout = _NEVER
        self.deadline = _NEVER if self._framer.done else now + self._settings.body_timeout
        self._last = b"close" in head.options or self._server.draining
        found = self.exchange = exchange.Exchange(self, head, now)
        self._server.requests += 1
        try:
            action = self._server.handler(found)
        except Exception as error:
            self._crashed(found, error)
            return True
        if action is None or isinstance(action, (exchange.Answer, exchange.Forward)):
            self._perform(found, action)
        else:
            self._task = asyncio.get_running_loop().create_task(self._run(found, action))
        return True

    async def _run(self, found: exchange.Exchange, work: servers.Work) -> None:
        try:
            action = await work
            if self.exchange is found:
                self._task = None
                self._perform(found, action)
        except errors.ClientGoneError:
            pass
        except errors.TooLargeError as error:
            self.fail(413, str(error))
        except errors.BadMessageError as error:
            self.fail(error.code, error.reason)
        except errors.UpstreamUnavailableError as error:
            self.fail(503, str(error), retry=True)
        except errors.UpstreamBrokenError as error:
            self.fail(502, str(error))
        except Exception as error:
            self._crashed(found, error)

    def _perform(self, found: exchange.Exchange, action: exchange.Action) -> None:
        if isinstance(action, exchange.Answer):
            self.answer(action)
        elif action is not None:
            self._response_timeout = _NEVER if action.timeout is None else action.timeout
            if self.request_done:
                self.deadline = clock.monotonic() + self._response_timeout
            self._relay = relay.Relay(self, found, action)
            self._relay.start()
            self.advance()

    def _crashed(self, found: exchange.Exchange, error: Exception) -> None:
        method = found.head.method.decode()
        logger.error("handler_crashed", extra={"method": method}, exc_info=error)
        self.fail(500, "the gateway failed; its log says why")

    def _take_body(self) -> bool:
        """Take a piece of the request's body; tell whether more could be taken."""
        if self._sink is None and (self._relay is None or not self._relay.ready):
            return False
        assert self._framer is not None
        try:
            end = self._framer.feed(self._buffer, 0, self._sink)
        except errors.BadMessageError as error:
            self._refuse(error)
            return False
        piece = self._buffer if end == len(self._buffer) else self._buffer[:end]
        self._buffer = self._buffer[end:]
        done = self._framer.done
        waits = self._response_timeout if done else self._settings.body_timeout
        self.deadline = clock.monotonic() + waits
        if self._relay is not None:
            self._relay.body(piece, complete=done)
        elif self.exchange is not None:
            self.exchange.wake()
        return bool(self._buffer)

    def collect(self, pieces: list[bytes]) -> None:
        """Put the request's body into a list from now on."""
        self._sink = pieces
        self.advance()

    # Responses.

    def response_head(self, status: int, headers: heads.Headers, reason: bytes = b"") -> bytes:
        """Return the bytes of a response's head, and note that it begins."""
        found = self.exchange
        assert found is not None
        found.started = True
        found.outcome.status = status
        found.outcome.media = next((value for name, value in headers if name == _MEDIA), b"")
        if status != 101 and (self._last or not self.request_done or self._server.draining):
            self._last = True
            headers = [*headers, (b"connection", b"close")]
        return heads.response_bytes(status, headers, reason)

    def begin_response(self, status: int, headers: heads.Headers) -> None:
        self.send(self.response_head(status, headers))

    def answer(self, answer: exchange.Answer) -> None:
        """Send a whole response."""
        if self.exchange is None:
            return
        headers = [*answer.headers, (b"content-length", b"%d" % len(answer.body))]
        head = self.response_head(answer.status, headers)
        self.send(head if self.exchange.head.method == b"HEAD" else head + answer.body)
        self.finish()

    def fail(self, code: int, why: str, *, retry: bool = False) -> None:
        """Answer with an error of ours, or cut the connection when it is too late for that."""
        found = self.exchange
        if found is None:
            return
        found.outcome.error = why
        if self._relay is not None:
            self._relay.abandon()
        if found.started:
            self.abort()
            return
        self.answer(self._settings.error(code, why, retry))

    def send(self, data: bytes) -> None:
        if self._transport is not None:
            if self.exchange is not None:
                self.exchange.outcome.sent += len(data)
            self._transport.write(data)

    def finish(self) -> None:
        """End the exchange; the next one may begin."""
        found, self.exchange = self.exchange, None
        complete = self.request_done
        self._relay = self._task = None
        self._framer = self._sink = None
        if found is not None:
            self._over(found)
        if self._last or not complete:
            self.close()
            return
        self.deadline = clock.monotonic() + self._settings.idle_timeout
        self.pause("upstream", paused=False)
        if self._buffer:
            asyncio.get_running_loop().call_soon(self.advance)

    def tunnel(self) -> None:
        """Let bytes pass both ways from now on."""
        self._last = True
        self.deadline = _NEVER
        held, self._buffer = self._buffer, b""
        self.pause("ahead", paused=False)
        if held and self._relay is not None:
            self._relay.through(held)

    def switch(self, headers: heads.Headers, heard: Callable[[bytes], None]) -> None:
        """Switch protocols; what the client says goes to a handler."""
        assert self.exchange is not None
        upgrade = [(b"connection", b"Upgrade"), (b"upgrade", self.exchange.head.upgrade)]
        self.send(self.response_head(101, [*headers, *upgrade]))
        self._relay = relay.Ended(heard)
        self.tunnel()

    def interrupt(self, last: bytes) -> None:
        """End a forwarded response now."""
        found, active = self.exchange, self._relay
        if found is None or active is None or not found.started or not active.between():
            self.abort()
            return
        active.abandon()
        self.send((framing.chunk(last) if last else b"") + framing.LAST_CHUNK)
        self.finish()

    def shut(self) -> None:
        """End our direction of a tunnel; the client's may go on while it says something."""
        self.deadline = clock.monotonic() + self._settings.idle_timeout
        if self._transport is not None:
            self._transport.write_eof()

    def abort(self) -> None:
        """Cut the connection."""
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close after what was written. What the client still sends is not looked at any more."""
        self._closing = True
        self._buffer = b""
        # The wire has deadlines of its own for this.
        self.deadline = _NEVER
        if self._transport is not None:
            self._transport.close()

    def expire(self, now: float) -> None:
        """Act on a deadline that has passed."""
        if (self.exchange is None and not self._buffer) or not self.writable:
            self.abort()
        elif self.exchange is None:
            self._refuse(errors.BadMessageError("head did not come in time", 408))
        elif not self.request_done:
            self._last = True
            self.fail(408, "body did not come in time")
        else:
            self.deadline = now + self._settings.stall_timeout
            self.fail(504, "upstream did not answer in time")

    def pause(self, why: str, *, paused: bool) -> None:
        """Stop or go on reading; every reason must be gone to go on."""
        if self._transport is None:
            return
        if paused:
            if not self._pauses and not self._transport.is_closing():
                self._transport.pause_reading()
            self._pauses.add(why)
        elif why in self._pauses:
            self._pauses.discard(why)
            if not self._pauses and not self._transport.is_closing():
                self._transport.resume_reading()

    def _refuse(self, error: errors.BadMessageError) -> None:
        """Answer what could not be parsed, and end: nobody knows where the next request begins."""
        self._server.refused += 1
        self._last = True
        self._buffer = b""
        if self.exchange is not None:
            self.fail(error.code, error.reason)
            return
        answer = self._settings.error(error.code, error.reason, False)
        headers = [
            *answer.headers,
            (b"content-length", b"%d" % len(answer.body)),
            (b"connection", b"close"),
        ]
        self.send(heads.response_bytes(error.code, headers) + answer.body)
        self.close()

    def _over(self, found: exchange.Exchange) -> None:
        if found.done is not None:
            done, found.done = found.done, None
            done(found)
