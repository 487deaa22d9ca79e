"""Asking a unit whether it does its work: one GET, by hand, since nothing else is needed."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from urllib import parse

from tenantry.local import plane

TIMEOUT = 3.0


async def ask(probe: plane.Probe, *, timeout: float = TIMEOUT) -> str:
    """Return "" when the answer is 200, else what is wrong, in words."""
    try:
        async with asyncio.timeout(timeout):
            return await _ask(probe)
    except TimeoutError:
        return f"no answer within {timeout:g} s"
    except ConnectionRefusedError:
        return "does not listen yet"
    except (OSError, asyncio.IncompleteReadError) as err:
        return str(err) or type(err).__name__


async def _ask(probe: plane.Probe) -> str:
    url = parse.urlsplit(probe.url)
    host, port = url.hostname or "", url.port or 0
    context = _context(probe) if url.scheme == "https" else None
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        path = parse.urlunsplit(("", "", url.path or "/", url.query, ""))
        request = f"GET {path} HTTP/1.1\r\nHost: {url.netloc}\r\nConnection: close\r\n\r\n"
        writer.write(request.encode())
        answer = await reader.read(4096)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    status = answer.partition(b"\r\n")[0].split(b" ", 2)
    if len(status) < 2 or not status[0].startswith(b"HTTP/1."):
        return "does not speak HTTP"
    return "" if status[1] == b"200" else f"answered {status[1].decode(errors='replace')}"


def _context(probe: plane.Probe) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=probe.ca)
    if probe.cert:
        context.load_cert_chain(probe.cert, probe.key)
    return context
