"""Carry bytes over TCP or TLS so that each direction ends by itself and nothing that came is lost.

Three things that the event loops' own transports do would cut off the end of what somebody said:

* Over TLS they have no half-close: who hears the end of one direction ends both.
* A write that fails closes the connection, and what had come by then is never read. But who ends
  while we still send says the most important thing last: a refusal, the last line of a program.
* A socket that is closed with bytes in it that nobody read is reset, and the kernel forgets what
  it has not sent yet. So who closes reads to the other's end first, for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import fcntl
import os
import ssl
import sys
import termios
from typing import Any, Protocol

from tenantry.core import clock
from tenantry.httpproxy import reading


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """How long a connection may take to begin and to end."""

    handshake: float = 10.0
    linger: float = 2.0
    """seconds of silence after which a closing connection is cut, when all has been sent"""
    longest: float = 30.0
    """seconds that the other end may go on sending while it is being closed"""
    stall: float = 60.0
    """seconds for which the other end may not read what is still to be sent"""


class User(Protocol):
    """Who speaks over a wire."""

    def connection_made(self, wire: Wire) -> None: ...
    def data_received(self, data: bytes) -> None: ...

    def eof_received(self) -> bool:
        """Note that nothing more comes; tell whether more is to be sent."""

    def connection_lost(self, error: Exception | None) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


class Wire(asyncio.BufferedProtocol):
    """One connection. For its user it is what a transport is elsewhere."""

    def __init__(
        self,
        user: User,
        buffer: reading.Buffer,
        *,
        tls: ssl.SSLContext | None = None,
        hostname: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Prepare; the wire is then given to an event loop as a protocol.

        :param hostname: whom the server must prove to be; None = this end is the server
        """
        self.ready: asyncio.Future[None] | None = None
        """who waits for the connection to be usable"""
        self._user = user
        self._deliver = user.data_received
        self._view = buffer.view
        self._limits = limits or Limits()
        self._transport: Any = None
        self._incoming = self._outgoing = None
        self._tls: ssl.SSLObject | None = None
        if tls is not None:
            self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            self._tls = tls.wrap_bio(
                self._incoming,
                self._outgoing,
                server_side=hostname is None,
                server_hostname=hostname,
            )
        self._opened = False
        self._ended = False
        """the other end said that nothing more comes"""
        self._shut = False
        """we said so"""
        self._closing = False
        self._lost = False
        self._timer: asyncio.TimerHandle | None = None
        self._heard = False
        self._unsent = 0

    # The user's side.

    def write(self, data: bytes) -> None:
        """Send, or keep until it can be sent."""
        if self._shut or self._lost:
            return
        if self._tls is None:
            self._transport.write(data)
            return
        size = self._tls.write(data)
        if size < len(data):
            # A call takes one record.
            rest = memoryview(data)
            pieces = [self._sealed()]
            while size < len(data):
                size += self._tls.write(rest[size:])
                pieces.append(self._sealed())
            self._transport.writelines(pieces)
            return
        self._transport.write(self._sealed())

    def write_eof(self) -> None:
        """End our direction after what was written."""
        if self._shut or self._lost:
            return
        self._shut = True
        if self._tls is not None:
            # It would wait for the other's end, too.
            with contextlib.suppress(ssl.SSLError):
                self._tls.unwrap()
            self._flush()
        if not self._transport.is_closing():
            # Who was reset meanwhile hears of it from the loop.
            with contextlib.suppress(OSError):
                self._transport.write_eof()
            if self._ended:
                self._transport.close()

    def close(self) -> None:
        """End both directions: after what was written, and when the other end has read it."""
        if self._closing or self._lost:
            return
        self._closing = True
        if not self._opened:
            self._transport.abort()
            return
        self.write_eof()
        if self._ended:
            self._transport.close()
            return
        self._transport.resume_reading()
        began = clock.monotonic()
        self._unsent = self._left()
        self._timer = asyncio.get_running_loop().call_later(
            self._limits.linger, self._look, began, began
        )

    def abort(self) -> None:
        """Cut the connection."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    def pause_reading(self) -> None:
        if not self._closing:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def is_reading(self) -> bool:
        found: bool = self._transport.is_reading()
        return found

    def is_closing(self) -> bool:
        return self._closing or self._lost or self._transport.is_closing()

    @property
    def host(self) -> str:
        """The other end's address, empty where there is none."""
        name = self._transport.get_extra_info("peername")
        return name[0] if isinstance(name, tuple) else ""

    @property
    def secure(self) -> bool:
        """Whether it is TLS."""
        return self._tls is not None

    @property
    def certificate(self) -> bytes:
        """What the other end proved to be, DER; empty for nothing."""
        found = self._tls.getpeercert(binary_form=True) if self._tls is not None else None
        return found or b""

    # The event loop's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        if self._tls is None:
            self._open()
            return
        self._timer = asyncio.get_running_loop().call_later(
            self._limits.handshake, self._break, TimeoutError("no TLS handshake in time")
        )
        self._shake()

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        self._take(self._view[:nbytes])

    def eof_received(self) -> bool:
        if self._closing or self._lost:
            return False
        if not self._opened:
            self._break(ConnectionResetError("closed during the TLS handshake"))
            return False
        if self._ended:
            return not self._shut
        if self._tls is not None:
            # Somebody else could have ended the TCP connection: only TLS can say it is whole.
            self._break(ConnectionResetError("ended without an end of TLS"))
            return False
        return self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and self._opened and not (self._closing or self._ended or self._lost):
            self._take_rest()
        self._break(exc)

    def pause_writing(self) -> None:
        if self._opened and not self._lost:
            self._user.pause_writing()

    def resume_writing(self) -> None:
        if self._opened and not self._lost:
            self._user.resume_writing()

    # In between.

    def _open(self) -> None:
        self._opened = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._user.connection_made(self)
        if self.ready is not None and not self.ready.done():
            self.ready.set_result(None)

    def _shake(self) -> None:
        assert self._tls is not None
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError as error:
            # What is wrong is told to the other end.
            self._flush()
            self._break(error)
        else:
            self._flush()
            self._open()
            self._decrypt()

    def _take(self, data: memoryview) -> None:
        if self._closing or self._lost:
            self._heard = True
        elif self._incoming is None:
            self._deliver(bytes(data))
        else:
            self._incoming.write(data)
            if self._opened:
                self._decrypt()
            else:
                self._shake()

    def _decrypt(self) -> None:
        assert self._tls is not None
        assert self._incoming is not None
        assert self._outgoing is not None
        # What came encrypted is in the incoming buffer by now, and this one free again.
        view = self._view
        room = len(view)
        more, ended = True, False
        broken: Exception | None = None
        while more and not (self._closing or self._lost):
            size, more = 0, False
            try:
                while True:
                    got: Any = self._tls.read(room - size, view[size:])
                    if not got:
                        ended = True
                        break
                    size += got
                    if size == room:
                        more = True
                        break
                    if not self._incoming.pending:
                        # Asking again would cost an exception.
                        break
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLZeroReturnError:
                ended = True
            except ssl.SSLError as error:
                broken = error
            if self._outgoing.pending:
                self._flush()
            if size:
                self._deliver(bytes(view[:size]))
        if broken is not None:
            self._break(broken)
        elif ended and not (self._closing or self._lost):
            self._end()

    def _take_rest(self) -> None:
        """Read what came before a write failed; the loop itself does not look for it any more."""
        found = self._transport.get_extra_info("socket")
        with contextlib.suppress(OSError):
            # No more than the kernel keeps: nothing can come to this connection now.
            while size := os.readv(found.fileno(), [self._view]):
                self._take(self._view[:size])

    def _end(self) -> bool:
        """Tell the user that nothing more comes; tell whether the connection goes on."""
        self._ended = True
        if self._user.eof_received() and not self._shut:
            return True
        self.close()
        return False

    def _break(self, error: Exception | None) -> None:
        """Tell that the connection is gone, once."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._lost:
            return
        self._lost = True
        if self._opened or self._transport.get_write_buffer_size():
            self._transport.abort()
        else:
            self._transport.close()
        if self._opened:
            self._user.connection_lost(error)
        elif self.ready is not None and not self.ready.done():
            self.ready.set_exception(error or ConnectionResetError("closed early"))

    def _sealed(self) -> bytes:
        assert self._outgoing is not None
        return self._outgoing.read()

    def _flush(self) -> None:
        assert self._outgoing is not None
        if self._outgoing.pending and not self._transport.is_closing():
            self._transport.write(self._outgoing.read())

    def _left(self) -> int:
        """Return how many bytes the other end has not confirmed."""
        kernel = b"\0" * 4
        with contextlib.suppress(OSError):
            socket = self._transport.get_extra_info("socket")
            kernel = fcntl.ioctl(socket.fileno(), termios.TIOCOUTQ, kernel)
        size: int = self._transport.get_write_buffer_size()
        return size + int.from_bytes(kernel, sys.byteorder)

    def _look(self, began: float, moved: float) -> None:
        """Cut a closing connection at which nothing happens any more."""
        now, unsent = clock.monotonic(), self._left()
        if unsent < self._unsent:
            moved = now
        waits = self._limits.stall if unsent else self._limits.linger
        talks = self._heard and now - began < self._limits.longest
        if now - moved < waits or talks:
            self._heard, self._unsent = False, unsent
            self._timer = asyncio.get_running_loop().call_later(
                self._limits.linger, self._look, began, moved
            )
        else:
            self._transport.abort()
