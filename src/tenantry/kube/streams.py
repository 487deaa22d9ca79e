"""Open watch streams, and the text of a request's target."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Self
from urllib import parse

import aiohttp

from tenantry.kube import calls, errors, transport
from tenantry.kube import watch as watches

#: A stream that brings little, again and again, is read this many seconds apart: waking up for each
#: event costs more than the event. The first after a pause is never delayed.
COLLECT = 0.02
#: Bytes per second from which a stream brings much, and is read as fast as it comes.
MUCH = 16 << 20


def target(path: str, query: Mapping[str, str] | None) -> str:
    """Join path and query; parameters with an empty value are left out."""
    pairs = [(key, value) for key, value in (query or {}).items() if value]
    if not pairs:
        return path
    return f"{path}?{parse.urlencode(pairs, quote_via=parse.quote)}"


class Watch:
    """One watch: enter it to connect, iterate once over its lines, leave it to disconnect.

    Iteration ends when the server ends the stream in order; a cut raises `Unreachable`. Lines that
    were complete before a cut have been given out.
    """

    def __init__(
        self, caller: calls.Caller, request: transport.Request, *, inactivity: float | None
    ) -> None:
        self._caller = caller
        self._request = request
        self._inactivity = inactivity
        self._response: aiohttp.ClientResponse | None = None

    async def __aenter__(self) -> Self:
        self._response = await self._caller.open(
            self._request, timeout=None, inactivity=self._inactivity
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._response is not None:
            self._response.close()
            self._response = None

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        async for lines in self.batches():
            for line in lines:
                yield line

    async def batches(self) -> AsyncGenerator[list[bytes], None]:
        """Iterate over all lines that arrived together: fewer switches for a busy stream."""
        if self._response is None:
            raise RuntimeError("enter the watch before iterating over it")
        splitter = watches.Splitter()
        path = self._request.target.partition("?")[0]
        try:
            loop = asyncio.get_running_loop()
            last = 0.0
            content = self._response.content
            while chunk := await content.readany():
                size = len(chunk)
                lines = splitter.feed(chunk)
                # A stream may be silent from here on: nothing that was read is held meanwhile.
                del chunk
                if lines:
                    yield lines
                del lines
                now = loop.time()
                if now - last < 2 * COLLECT and size < MUCH * (now - last):
                    await self._collect()
                    now = loop.time()
                last = now
        # RuntimeError is what reading on a connection that we closed ourselves gives.
        except (aiohttp.ClientError, TimeoutError, RuntimeError) as error:
            why = str(error) or type(error).__name__
            raise errors.Unreachable(f"watch {path}: {why}") from error
        if splitter.pending:
            raise errors.Unreachable(f"watch {path}: ended within a line")

    async def _collect(self) -> None:
        """Leave what comes in the kernel for a moment."""
        connection = self._response.connection if self._response is not None else None
        protocol = connection.protocol if connection is not None else None
        if protocol is None:
            return  # it has ended, and what is left is in memory
        protocol.pause_reading()
        try:
            await asyncio.sleep(COLLECT)
        finally:
            protocol.resume_reading()
