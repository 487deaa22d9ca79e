"""A WebSocket of a test: as little as shows what arrives, and in which frames."""

from __future__ import annotations

import base64
import os
import socket
import ssl
from collections.abc import Iterator
from typing import Self
from urllib import parse

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


def masked(code: int, data: bytes = b"") -> bytes:
    """Return a frame of a client."""
    assert len(data) <= 125
    mask = os.urandom(4)
    content = bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))
    return bytes((0x80 | code, 0x80 | len(data))) + mask + content


class Socket:
    """One opening, and frames if it was accepted."""

    def __init__(
        self, server: str, context: ssl.SSLContext, target: str, **headers: str | None
    ) -> None:
        place = parse.urlsplit(server)
        self._socket = context.wrap_socket(
            socket.create_connection((place.hostname or "", place.port or 443), timeout=20),
            server_hostname=place.hostname,
        )
        sent: dict[str, str | None] = {
            "Host": place.netloc,
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Origin": server,
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": base64.b64encode(b"k" * 16).decode(),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        lines = [f"{name}: {value}" for name, value in sent.items() if value is not None]
        self._socket.sendall(f"GET {target} HTTP/1.1\r\n".encode())
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode())
        self._held = b""
        while b"\r\n\r\n" not in self._held:
            self._more()
        head, _, self._held = self._held.partition(b"\r\n\r\n")
        first, *rest = head.decode().split("\r\n")
        self.code = int(first.split()[1])
        self.headers = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in rest)
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """Yield codes and contents until the other end says goodbye."""
        while True:
            first, size = self._take(2)
            assert first & 0x80, "a message in pieces"
            assert not size & 0x80, "a server does not mask"
            if size == 126:
                size = int.from_bytes(self._take(2), "big")
            elif size == 127:
                size = int.from_bytes(self._take(8), "big")
            content = self._take(size)
            if first & 0x0F == CLOSE:
                return
            yield first & 0x0F, content

    def _take(self, size: int) -> bytes:
        while len(self._held) < size:
            self._more()
        found, self._held = self._held[:size], self._held[size:]
        return found

    def _more(self) -> None:
        data = self._socket.recv(65536)
        if not data:
            raise EOFError
        self._held += data
