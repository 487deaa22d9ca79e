"""As much of WebSocket as a watch needs: the opening, and frames both ways. Pure.

A client has nothing to say in a watch: what it sends is skipped, and only pings and its goodbye
are answered, as by the API server.
"""

from __future__ import annotations

import base64
import binascii
import hashlib

from tenantry.gateway import errors, tokens
from tenantry.httpproxy import heads

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TEXT, _BINARY, _CLOSE, _PING, _PONG = 1, 2, 8, 9, 10
_FIN, _MASK = 0x80, 0x80
#: Longest payload of a frame that controls.
_SHORT = 125
#: "Normal closure".
CLOSE = bytes((_FIN | _CLOSE, 2)) + (1000).to_bytes(2, "big")


def opening(head: heads.RequestHead) -> heads.Headers:
    """Return the headers that accept a client's opening.

    :raises Malformed: when it is none
    """
    if head.method != b"GET" or head.upgrade.lower() != b"websocket":
        raise errors.Malformed("what is narrowed can be watched over WebSocket only")
    if head.get(b"sec-websocket-version").strip() != b"13":
        raise errors.Malformed("Sec-WebSocket-Version must be 13")
    key = head.get(b"sec-websocket-key").strip()
    try:
        sound = len(base64.b64decode(key, validate=True)) == 16
    except binascii.Error:
        sound = False
    if not sound:
        raise errors.Malformed("Sec-WebSocket-Key must be 16 bytes in base64")
    digest = hashlib.sha1(key + _GUID, usedforsecurity=False).digest()
    found: heads.Headers = [(b"sec-websocket-accept", base64.b64encode(digest))]
    protocols = tokens.without_token(head.get(b"sec-websocket-protocol"))
    if b"," in protocols:
        raise errors.Malformed("Sec-WebSocket-Protocol must name one protocol beside the token's")
    if protocols:
        found.append((b"sec-websocket-protocol", protocols))
    return found


def message(data: bytes, *, text: bool) -> bytes:
    """Return a message as one frame."""
    return _frame(_TEXT if text else _BINARY, data)


def _frame(code: int, data: bytes) -> bytes:
    size = len(data)
    if size <= _SHORT:
        return bytes((_FIN | code, size)) + data
    if size < 1 << 16:
        return bytes((_FIN | code, 126)) + size.to_bytes(2, "big") + data
    return bytes((_FIN | code, 127)) + size.to_bytes(8, "big") + data


class Ear:
    """Follows what a client says, and holds no more of it than a ping."""

    def __init__(self) -> None:
        self.ended = False
        self._held = bytearray()
        self._skip = 0

    def feed(self, data: bytes) -> bytes:
        """Take a piece; return what is to be answered. `ended` tells when the client is done."""
        answers = b""
        while data and not self.ended:
            if self._skip:
                skipped = min(self._skip, len(data))
                self._skip -= skipped
                data = data[skipped:]
                continue
            # The longest head has 14 bytes, the longest frame that is held 131.
            taken = 14 + _SHORT - len(self._held)
            self._held += data[:taken]
            data = data[taken:]
            while (answer := self._next()) is not None:
                # Only the last of several pings must be answered.
                answers = answer or answers
        return answers

    def _next(self) -> bytes | None:
        """Take a frame, or the head of a long one, from what is held; None when there is none."""
        held = self._held
        if len(held) < 2 or self.ended:
            return None
        code, size = held[0] & 0x0F, held[1] & 0x7F
        control = code >= _CLOSE
        if not held[1] & _MASK or (control and (size > _SHORT or not held[0] & _FIN)):
            return self._end()
        width = {126: 2, 127: 8}.get(size, 0)
        start = 2 + width + 4
        if len(held) < start:
            return None
        if width:
            size = int.from_bytes(held[2 : 2 + width], "big")
        if not control:
            present = min(size, len(held) - start)
            self._skip = size - present
            del held[: start + present]
            return b""
        if len(held) < start + size:
            return None
        mask = held[start - 4 : start]
        content = bytes(byte ^ mask[at % 4] for at, byte in enumerate(held[start : start + size]))
        del held[: start + size]
        if code == _PING:
            return _frame(_PONG, content)
        return self._end() if code == _CLOSE else b""

    def _end(self) -> bytes:
        self.ended = True
        return CLOSE
