"""Answers that the gateway makes from those of the API server: sieved, fanned out, corrected."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Sequence

from tenantry.gateway import (
    decide,
    errors,
    events,
    merge,
    paths,
    seen,
    sieve,
    status,
    websocket,
)
from tenantry.httpproxy import errors as engine_errors
from tenantry.httpproxy import exchange, fetch, heads, pipelining, upstream
from tenantry.kube import errors as kube_errors

#: Longest list that is held to be sieved or merged, and the longest object.
LIST_LIMIT, OBJECT_LIMIT = 256 << 20, 16 << 20
_REVIEW_LIMIT = 1 << 20
#: Seconds for which a watch stays open in which there is nothing to see.
_QUIET = 60.0
#: What a client may ask of a list that only makes sense for the whole, or names another format.
PAGING = ("limit", "continue", "includeObject")


def passed_on(head: heads.ResponseHead | pipelining.Answer, body: bytes) -> exchange.Answer:
    """Return an answer as it came."""
    kept = [h for h in heads.end_to_end(head.headers) if h[0] != b"content-length"]
    return exchange.Answer(head.status, body, kept)


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """What to ask the API server, in whose name, and for which form of answer."""

    server: upstream.Upstream
    path: str
    headers: heads.Headers
    query: paths.Query

    def line(self, *drop: str, path: str = "", add: Sequence[tuple[str, str]] = ()) -> bytes:
        """Write the request's target without some of the parameters, and with others."""
        return (path or self.path).encode() + self.parameters(*drop, add=add)

    def narrowed(self, selector: str) -> bytes:
        """Write the request's target with a selector besides the caller's own."""
        return f"{self.path}?{self.query.narrowed(selector)}".encode()

    def parameters(self, *drop: str, add: Sequence[tuple[str, str]] = ()) -> bytes:
        """Write what follows the path."""
        written = self.query.written(drop=drop, add=add)
        return f"?{written}".encode() if written else b""


class Stopper:
    """Ends the fetches of one watch from outside."""

    def __init__(self) -> None:
        self.stopped = asyncio.Event()
        #: In which the API server lets the caller watch.
        self.namespaces: list[str] = []
        self._fetches: set[fetch.Fetch] = set()

    def add(self, found: fetch.Fetch) -> None:
        self._fetches.add(found)
        if self.stopped.is_set():
            found.stop()

    def __call__(self) -> None:
        self.stopped.set()
        for found in tuple(self._fetches):
            found.stop()


async def one(order: Order, target: paths.Target, wanted: decide.Sieve) -> exchange.Answer:
    """Answer a GET of one object, if it may be shown."""
    line = order.line("includeObject", "labelSelector", "watch")
    async with fetch.Fetch() as found:
        head = await found.send(order.server, b"GET", line, order.headers)
        body = await found.body(OBJECT_LIMIT)
    if head.status == 404:
        return status.not_found(target)
    if head.status != 200:
        return passed_on(head, body)
    if not sieve.single(body, sieve.predicate(wanted)):
        return status.not_found(target)
    return passed_on(head, body)


async def many(order: Order, wanted: decide.Sieve) -> exchange.Answer:
    """Answer a LIST with what may be shown."""
    async with fetch.Fetch() as found:
        line = order.line("includeObject")
        head = await found.send(order.server, b"GET", line, order.headers)
        body = await found.body(LIST_LIMIT)
    if head.status != 200:
        return passed_on(head, body)
    try:
        return passed_on(head, sieve.listed(body, sieve.predicate(wanted)))
    except ValueError:
        return status.answer(502, "the API server's answer is no list")


class _Client:
    """Gives a client its events: as a response without end, or as messages of a WebSocket."""

    def __init__(self, found: exchange.Exchange, stop: Stopper) -> None:
        self._found = found
        self._stop = stop
        self._switched = websocket.opening(found.head) if found.head.upgrade else None
        self._ear = websocket.Ear()
        self.form: events.Form = events.JSON

    def start(self, headers: heads.Headers) -> None:
        """Begin, in the form in which the API server's events come."""
        self.form = events.of(headers)
        if self._switched is None:
            self._found.start(200, headers)
        else:
            self._found.switch(self._switched, self._heard)

    def framed(self, event: bytes) -> bytes:
        """Return an event as this client gets it."""
        if self._switched is None:
            return self.form.framed(event)
        if self.form.text:
            return websocket.message(event + b"\n", text=True)
        return websocket.message(event, text=False)

    async def write(self, data: bytes) -> None:
        await self._found.write(data)

    async def end(self) -> None:
        """Say why it ends, if it was made to, and end."""
        if not self._found.gone:
            if self._stop.stopped.is_set() and not self._ear.ended:
                await self._found.write(self.framed(self.form.gone()))
            if self._switched is not None:
                await self._found.write(websocket.CLOSE)
        self._found.end()

    def _heard(self, data: bytes) -> None:
        if data:
            answer = self._ear.feed(data)
            if answer and not self._ear.ended:
                self._found.offer(answer)
        else:
            self._ear.ended = True
        if self._ear.ended:
            self._stop()


async def watched(
    found: exchange.Exchange,
    order: Order,
    wanted: decide.Sieve | decide.Filter,
    stop: Stopper,
) -> exchange.Action:
    """Answer a WATCH with what may be shown."""
    try:
        client = _Client(found, stop)
    except errors.Refused as error:
        return status.refusal(error)
    if isinstance(wanted, decide.Filter):
        line = order.narrowed(wanted.selector)
        shown: sieve.Predicate = _everything
    else:
        line, shown = order.line("includeObject"), sieve.predicate(wanted)
    async with fetch.Fetch() as stream:
        head = await stream.send(order.server, b"GET", line, order.headers)
        if head.status != 200:
            return passed_on(head, await stream.body(OBJECT_LIMIT))
        stop.add(stream)
        client.start(heads.end_to_end(head.headers))
        machine = sieve.WatchSieve(shown, client.form, client.framed)
        with contextlib.suppress(engine_errors.UpstreamBrokenError, kube_errors.KubeError):
            while data := await stream.read():
                await client.write(machine.feed(data))
    await client.end()
    return None


def _everything(_: seen.Seen) -> bool:
    return True


async def interleaved(
    found: exchange.Exchange,
    order: Order,
    target: paths.Target,
    wanted: decide.Fanout,
    stop: Stopper,
) -> exchange.Action:
    """Watch in each namespace as the caller, and interleave the events."""
    try:
        client = _Client(found, stop)
    except errors.Refused as error:
        return status.refusal(error)
    async with contextlib.AsyncExitStack() as stack:
        streams: list[fetch.Fetch] = []
        headers: heads.Headers = [status.JSON]
        for namespace in wanted.namespaces:
            stream = await stack.enter_async_context(fetch.Fetch())
            line = order.line(*PAGING, path=target.inside(namespace).path)
            head = await stream.send(order.server, b"GET", line, order.headers)
            if head.status == 200:
                headers = heads.end_to_end(head.headers)
                stop.add(stream)
                stop.namespaces.append(namespace)
                streams.append(stream)
            elif head.status != 403:
                return passed_on(head, await stream.body(OBJECT_LIMIT))
        client.start(headers)
        await _pump(client, streams, stop)
    await client.end()
    return None


async def _pump(client: _Client, streams: list[fetch.Fetch], stop: Stopper) -> None:
    if not streams:
        # Nothing to see now: a client that came back at once would come back for ever.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_QUIET):
                await stop.stopped.wait()
        return
    machine = merge.WatchMerge(len(streams), client.form, client.framed)
    writing = asyncio.Lock()

    async def pump(index: int, stream: fetch.Fetch) -> None:
        with contextlib.suppress(engine_errors.UpstreamBrokenError, kube_errors.KubeError):
            while data := await stream.read():
                async with writing:
                    await client.write(machine.feed(index, data))
        # One that ends, ends all: the client continues from its last version everywhere.
        for other in streams:
            other.stop()

    try:
        async with asyncio.TaskGroup() as group:
            for index, stream in enumerate(streams):
                group.create_task(pump(index, stream))
    except ExceptionGroup as several:
        raise several.exceptions[0] from None


async def reviewed(
    found: exchange.Exchange, order: Order, correct: Callable[[bytes], bytes]
) -> exchange.Answer:
    """Let the API server answer a self review, then correct it."""
    body = await found.body(_REVIEW_LIMIT)
    headers = [h for h in order.headers if h[0] != b"expect"]
    async with fetch.Fetch() as asking:
        head = await asking.send(order.server, b"POST", order.line(), headers, body)
        answer = await asking.body(OBJECT_LIMIT)
    if head.status not in {200, 201}:
        return passed_on(head, answer)
    return passed_on(head, correct(answer))
