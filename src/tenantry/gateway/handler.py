"""From a request to what is done with it: who, what, and in whose name. The only shell of these.

The rule that all else serves: what is sent as the gateway is written anew from what was decided,
and read-only; everything else carries the caller's own credentials or impersonates the caller.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeAlias

from tenantry.api import resources
from tenantry.gateway import (
    authenticate,
    decide,
    errors,
    events,
    formats,
    gather,
    identity,
    reviews,
    snapshot,
    status,
    streams,
    tokens,
    upstreams,
    watches,
)
from tenantry.httpproxy import exchange, heads, limits, upstream
from tenantry.kube import client as kube
from tenantry.kube import errors as kube_errors

Work: TypeAlias = Coroutine[Any, Any, exchange.Action]

HEALTH = b"/_healthz"
#: Requests that may be silent for long before they answer.
_PATIENT = ("/proxy", "/exec", "/attach", "/portforward", "/log")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Settings of the handler."""

    sources: authenticate.Networks = ()
    """networks from which requests are taken at all; none = every"""
    concurrency: int = 400
    """requests that one identity may have under way; 0 = no limit"""
    fanout: int = 250
    """namespaces that one watch may be spread over, each a connection to the API server"""
    streams: int = 1000
    """such connections of all watches of one identity"""
    xfcc_header: str = "X-Forwarded-Client-Cert"


@dataclasses.dataclass(slots=True)
class Entry:
    """One exchange and what was found out about it."""

    found: exchange.Exchange
    request: decide.Request | None = None
    caller: authenticate.Caller | None = None
    who: identity.Identity | None = None
    tenants: tuple[str, ...] = ()
    decision: str = "refuse"
    streams: int = 0
    """connections that a watch over several namespaces was given"""
    watch: watches.Watch | None = None


#: Called with every exchange that is over.
Observer = Callable[[Entry], None]


@dataclasses.dataclass(slots=True, kw_only=True)
class Parts:
    """What the handler works with."""

    client: kube.Client
    servers: upstreams.Upstreams
    authenticator: authenticate.Authenticator
    known: snapshot.Snapshot
    watches: watches.Watches
    observe: Observer = lambda _: None
    fresh: Callable[[], bool] = lambda: True
    """whether what is known can be relied on; otherwise nothing is narrowed"""


class Handler:
    """Answers the engine's exchanges."""

    def __init__(self, parts: Parts, options: Options) -> None:
        self._parts = parts
        self._options = options
        self._limit = limits.Concurrency(options.concurrency)
        self._streams = limits.Concurrency(options.streams)
        self._never = _NEVER | {options.xfcc_header.lower().encode()}

    def __call__(self, found: exchange.Exchange) -> exchange.Action | Work:
        head = found.head
        if head.target == HEALTH:
            return exchange.Answer(200, b"ok", [(b"content-type", b"text/plain")])
        entry = Entry(found)
        found.done = functools.partial(self._done, entry)
        sources = self._options.sources
        if sources and not authenticate.trusted(found.peer.host, sources):
            return status.answer(403, "request source is not allowed")
        try:
            method, target = head.method.decode(), head.target.decode()
            if head.upgrade and head.upgrade.lower() not in _TUNNELS:
                raise errors.Malformed("that protocol cannot be switched to")
            request = entry.request = decide.parse(method, target, upgrade=bool(head.upgrade))
            caller = self._parts.authenticator.caller(found)
            if not self._limit.acquire(caller.key.hex()):
                return status.answer(429, "too many requests of this caller are under way")
            entry.caller = caller
            concerned = decide.concerns(request)
            if caller.token and not concerned:
                return self._pass(entry)
            entry.who = self._parts.authenticator.known(caller)
            if entry.who is None:
                return self._later(entry, caller)
            return self._decided(entry)
        except errors.Refused as error:
            return status.refusal(error)

    async def _later(self, entry: Entry, caller: authenticate.Caller) -> exchange.Action:
        try:
            entry.who = await self._parts.authenticator.identify(caller)
            action = self._decided(entry)
        except errors.Refused as error:
            return status.refusal(error)
        return await action if asyncio.iscoroutine(action) else action

    def _decided(self, entry: Entry) -> exchange.Action | Work:
        request, who = entry.request, entry.who
        assert request is not None
        assert who is not None
        decision = decide.decide(request, who, self._parts.known)
        entry.tenants = self._parts.known.given(who).tenants
        if isinstance(decision, decide.Pass) or not self._parts.fresh():
            return self._pass(entry)
        entry.decision = type(decision).__name__.lower()
        target, query = request.target, request.query
        if isinstance(decision, decide.Review):
            correct = functools.partial(reviews.corrected, who=who, known=self._parts.known)
            headers = formats.narrowed(self._as_caller(entry), binary=False)
            order = streams.Order(self._server(entry), request.path, headers, query)
            return streams.reviewed(entry.found, order, correct)
        assert target is not None
        if isinstance(decision, decide.Fanout):
            headers = formats.narrowed(_unswitched(self._as_caller(entry)))
            order = streams.Order(self._server(entry), target.path, headers, query)
            if query.watch:
                self._spread(entry, len(decision.namespaces))
                stop = self._watch(entry, decision)
                return streams.interleaved(entry.found, order, target, decision, stop)
            return gather.gathered(order, target, decision, self._parts.known.kind(target))
        headers = self._as_gateway(entry)
        if isinstance(decision, decide.Sieve) or request.upgrade:
            headers = formats.narrowed(_unswitched(headers))
        order = streams.Order(self._parts.servers.own, target.path, headers, query)
        if isinstance(decision, decide.Filter):
            if request.upgrade:
                stop = self._watch(entry, decision)
                return streams.watched(entry.found, order, decision, stop)
            if query.watch:
                self._watch_forwarded(entry, decision)
            line = order.narrowed(decision.selector)
            return exchange.Forward(server=order.server, target=line, headers=order.headers)
        if decision.single:
            return streams.one(order, target, decision)
        if query.watch:
            return streams.watched(entry.found, order, decision, self._watch(entry, decision))
        return streams.many(order, decision)

    # In whose name.

    def _pass(self, entry: Entry) -> exchange.Action:
        entry.decision = "pass"
        request = entry.request
        assert request is not None
        replace: dict[int, exchange.Replacement] | None = None
        if decide.passed(request).gate:
            replace = {403: functools.partial(self._gate, request)}
        if request.query.watch and request.method == "GET" and request.target is not None:
            self._watch_forwarded(entry, decide.Pass(), namespaces=(request.target.namespace,))
        patient = request.query.watch or any(part in request.path for part in _PATIENT)
        return exchange.Forward(
            server=self._server(entry),
            target=entry.found.head.target,
            headers=self._as_caller(entry),
            timeout=None if patient else 120.0,
            replace=replace,
        )

    def _server(self, entry: Entry) -> upstream.Upstream:
        assert entry.caller is not None
        return self._parts.servers.plain if entry.caller.token else self._parts.servers.own

    def _as_caller(self, entry: Entry) -> heads.Headers:
        """Return headers under which the API server takes the request for the caller's own."""
        assert entry.caller is not None
        if entry.caller.token:
            # Authorization and Impersonate-* are the caller's; the API server judges both.
            kept = [
                header
                for header in heads.end_to_end(entry.found.head.headers)
                if header[0] not in self._never and not header[0].startswith(b"x-remote-")
            ]
            if entry.caller.impersonation is not None:
                kept = entry.caller.impersonation.heard(kept)
            return [*kept, (b"x-forwarded-for", entry.found.peer.host.encode())]
        assert entry.who is not None
        return [*self._as_gateway(entry), *entry.who.headers()]

    def _as_gateway(self, entry: Entry) -> heads.Headers:
        """Return headers that say nothing about anybody but us."""
        kept = [
            (name, tokens.without_token(value))
            if name == b"sec-websocket-protocol"
            else (name, value)
            for name, value in identity.unclaimed(heads.end_to_end(entry.found.head.headers))
            if name not in self._never
        ]
        kept.append((b"x-forwarded-for", entry.found.peer.host.encode()))
        if self._parts.servers.authorization:
            kept.append((b"authorization", self._parts.servers.authorization))
        return kept

    # Watches.

    def _spread(self, entry: Entry, count: int) -> None:
        """Take the places of a watch over several namespaces.

        :raises Refused: when there are too many of them
        """
        most = self._options.fanout
        if count > most:
            raise errors.Forbidden(
                f"a watch of all your {count} namespaces is more than the {most} that are watched"
                " at a time; watch a namespace, or list"
            )
        assert entry.caller is not None
        if not self._streams.acquire(entry.caller.key.hex(), count):
            raise errors.Refused(
                429, "TooManyRequests", "too many namespaces are watched by this caller already"
            )
        entry.streams = count

    def _watch(self, entry: Entry, decision: decide.Decision) -> streams.Stopper:
        stop = streams.Stopper()
        self._register(entry, decision, stop, namespaces=stop.namespaces)
        return stop

    def _watch_forwarded(
        self, entry: Entry, decision: decide.Decision, *, namespaces: Sequence[str] = ()
    ) -> None:
        found = entry.found

        def end() -> None:
            form = events.of_media(found.outcome.media)
            found.interrupt(form.framed(form.gone()))

        self._register(entry, decision, end, namespaces=namespaces)

    def _register(
        self,
        entry: Entry,
        decision: decide.Decision,
        end: Callable[[], None],
        *,
        namespaces: Sequence[str],
    ) -> None:
        assert entry.request is not None
        assert entry.caller is not None
        watch = watches.Watch(entry.request, entry.caller, entry.who, decision, end, namespaces)
        self._parts.watches.add(watch)
        entry.watch = watch

    # After the answer.

    async def _gate(self, request: decide.Request, _body: bytes) -> exchange.Answer | None:
        """Turn "you may not" into "it does not exist" where the whole namespace does not."""
        assert request.target is not None
        client = self._parts.client
        try:
            await client.get(resources.NAMESPACES, request.target.namespace, timeout=5.0)
        except kube_errors.NotFound:
            return status.not_found(request.target)
        except kube_errors.KubeError:
            return None
        return None

    def _done(self, entry: Entry, _: exchange.Exchange) -> None:
        if entry.caller is not None:
            key = entry.caller.key.hex()
            self._limit.release(key)
            if entry.streams:
                self._streams.release(key, entry.streams)
        if entry.watch is not None:
            self._parts.watches.remove(entry.watch)
        self._parts.observe(entry)


def _unswitched(headers: heads.Headers) -> heads.Headers:
    """Return headers without those that ask for a WebSocket: it ends here."""
    return [header for header in headers if not header[0].startswith(b"sec-websocket-")]


#: Protocols in which the other end knows what it may be told. In HTTP/2 it would take requests,
#: and for requests of the owner of the connection.
_TUNNELS = frozenset((b"spdy/3.1", b"websocket"))
_NEVER = frozenset(
    (
        b"host",
        b"content-length",
        b"http2-settings",
        b"x-forwarded-client-cert",
        b"x-forwarded-for",
        b"forwarded",
    )
)
