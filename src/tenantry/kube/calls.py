"""Carry out one call within its deadline: identity, tries, and what its failure means.

Between `transport` (one try, no opinion) and `client` (verbs). What is decided: by `retry` whether
to try again, here which of the three outcomes a failed write has.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar
from urllib import parse

import aiohttp

from tenantry.core import clock
from tenantry.kube import config as configs
from tenantry.kube import credentials, errors, retry, transport, warning

T = TypeVar("T")
#: Seconds below which another try is not begun.
SHORTEST = 0.01
#: Seconds the API server gives a request at most (`--request-timeout`), so no need to ask for it.
LONGEST_ASKED = 60.0


@dataclasses.dataclass(frozen=True)
class Attempt:
    """One try, for metrics and traces."""

    method: str
    #: Without query.
    path: str
    #: HTTP status, 0 when no answer came.
    code: int
    seconds: float


Observer = Callable[[Attempt], None]
Warn = Callable[[str], None]


def impersonation_headers(impersonate: configs.Impersonate | None) -> list[tuple[str, str]]:
    """Write `Impersonate-*`: extra keys lower-case and percent-encoded, values as they are."""
    if impersonate is None:
        return []
    headers = [("Impersonate-User", impersonate.user)]
    headers += [("Impersonate-Group", group) for group in impersonate.groups]
    if impersonate.uid:
        headers.append(("Impersonate-Uid", impersonate.uid))
    for key, values in impersonate.extra.items():
        name = f"Impersonate-Extra-{parse.quote(key.lower(), safe='')}"
        headers += [(name, value) for value in values]
    for name, value in headers:
        # The HTTP library would refuse it too, but with no word about which.
        if not value.isprintable() or not value:
            raise errors.ConfigError(f"{name}: {value!r}: must be printable and not empty")
    return headers


class Caller:
    """Make calls as one identity; `views` of several identities share one transport."""

    def __init__(
        self,
        pools: transport.Transport,
        *,
        impersonate: configs.Impersonate | None,
        user_agent: str,
        timeout: float,
        policy: retry.Policy,
        observer: Observer | None,
        warn: Warn | None = None,
    ) -> None:
        self.pools = pools
        self.user_agent = user_agent
        self.timeout = timeout
        self.policy = policy
        self.observer = observer
        self.warn = warn or warning.Log()
        self._headers = [("User-Agent", user_agent), *impersonation_headers(impersonate)]

    def view(self, impersonate: configs.Impersonate) -> Caller:
        """Give a caller of another identity over the same pools."""
        return Caller(
            self.pools,
            impersonate=impersonate,
            user_agent=self.user_agent,
            timeout=self.timeout,
            policy=self.policy,
            observer=self.observer,
            warn=self.warn,
        )

    async def call(
        self, request: transport.Request, *, effect: retry.Effect, timeout: float | None
    ) -> transport.Response:
        """Send until there is an answer that counts, or the deadline is near.

        :param timeout: seconds for all tries together
        :raises ApiError, Unreachable, OutcomeUnknown: see `errors`
        """
        seconds = self.timeout if timeout is None else timeout
        deadline = clock.monotonic() + seconds
        request = self._ours(request, [("Accept-Encoding", "gzip")])
        # A read that nobody waits for does no harm, and its query may not be ours to add to.
        limited = _limited if effect != "none" else _as_it_is
        return await self._until(
            deadline,
            request,
            effect,
            lambda credential, left: self._send(limited(request, left), credential, left),
        )

    async def open(
        self, request: transport.Request, *, timeout: float | None, inactivity: float | None
    ) -> aiohttp.ClientResponse:
        """Open a stream whose answer is 2xx; `timeout` in seconds bounds the wait for its head."""
        seconds = self.timeout if timeout is None else timeout
        deadline = clock.monotonic() + seconds
        request = self._ours(request, [])
        return await self._until(
            deadline,
            request,
            "none",
            lambda credential, left: self._open(request, credential, left, inactivity),
        )

    def _ours(self, request: transport.Request, extra: list[tuple[str, str]]) -> transport.Request:
        return dataclasses.replace(request, headers=[*self._headers, *extra, *request.headers])

    async def _until(
        self,
        deadline: float,
        request: transport.Request,
        effect: retry.Effect,
        attempt_once: Callable[[credentials.Credential, float], Awaitable[T]],
    ) -> T:
        operation = f"{request.method} {request.target.partition('?')[0]}"
        attempt = 0
        # Once a try may have taken effect, no later refusal says that nothing happened.
        maybe_done = refreshed = False
        error: errors.KubeError
        while True:
            attempt += 1
            try:
                credential = await self.pools.source.get()
                return await attempt_once(credential, deadline - clock.monotonic())
            except errors.Unreachable as lacking:
                error = lacking
            except transport.Lost as lost:
                error = _meaning(lost, operation, effect)
                if lost.untrusted and not refreshed and self.pools.source.renewable:
                    # The server's CA may just have been replaced, in the file, too.
                    refreshed = True
                    self.pools.source.invalidate(credential)
                    continue
            except errors.ApiError as answer:
                error = answer
                if effect != "none" and errors.unknown_outcome(answer):
                    maybe_done = True
                if answer.code == 401 and not refreshed and self.pools.source.renewable:
                    # Refused before anything was done; the credential may just have been replaced.
                    refreshed = True
                    self.pools.source.invalidate(credential)
                    continue
            maybe_done = maybe_done or error.outcome == "unknown"
            wait = retry.delay(
                error,
                effect=effect,
                attempt=attempt,
                policy=self.policy,
                jitter=random.random(),  # noqa: S311 - spreads load, guards nothing
            )
            if wait is not None and clock.monotonic() + wait < deadline:
                await asyncio.sleep(wait)
                # A try without time for an answer would only hide why the last one failed.
                if clock.monotonic() + SHORTEST < deadline:
                    continue
            if maybe_done and not isinstance(error, errors.OutcomeUnknown):
                raise _unknown(operation, error) from error
            raise error

    async def _send(
        self, request: transport.Request, credential: credentials.Credential, left: float
    ) -> transport.Response:
        begun = clock.monotonic()
        code = 0
        left = max(left, 0.001)
        try:
            response = await self.pools.send(request, credential, timeout=left)
            code = response.status
        finally:
            self._observe(request, code, begun)
        for text in warning.parse(response.warnings):
            self.warn(text)
        if 200 <= code < 300:
            return response
        raise errors.from_response(code, response.body, response.headers)

    async def _open(
        self,
        request: transport.Request,
        credential: credentials.Credential,
        left: float,
        inactivity: float | None,
    ) -> aiohttp.ClientResponse:
        begun = clock.monotonic()
        code = 0
        body = b""
        try:
            response = await self.pools.open(
                request, credential, timeout=max(left, 0.001), inactivity=inactivity
            )
            code = response.status
            if 200 <= code < 300:
                return response
            with contextlib.closing(response):
                body = await self.pools.rest(response, timeout=max(left, 0.001))
        finally:
            self._observe(request, code, begun)
        raise errors.from_response(code, body, response.headers)

    def _observe(self, request: transport.Request, code: int, begun: float) -> None:
        if self.observer is not None:
            path = request.target.partition("?")[0]
            self.observer(Attempt(request.method, path, code, clock.monotonic() - begun))


def _limited(request: transport.Request, left: float) -> transport.Request:
    """Tell the API server how long we wait: a write must not happen after its deadline."""
    if left >= LONGEST_ASKED:
        return request
    joint = "&" if "?" in request.target else "?"
    milliseconds = max(1, int(left * 1000))
    return dataclasses.replace(request, target=f"{request.target}{joint}timeout={milliseconds}ms")


def _as_it_is(request: transport.Request, _left: float) -> transport.Request:
    return request


def _meaning(lost: transport.Lost, operation: str, effect: retry.Effect) -> errors.KubeError:
    """Turn a missing answer into the outcome it leaves."""
    error: errors.KubeError
    if lost.sent and effect != "none":
        error = errors.OutcomeUnknown(operation, lost.why)
    elif lost.too_large:
        error = errors.AnswerTooLarge(f"{operation}: {lost.why}")
    else:
        error = errors.Unreachable(f"{operation}: {lost.why}")
    # It is raised later, outside the handler that would chain them.
    error.__cause__ = lost
    return error


def _unknown(operation: str, error: errors.KubeError) -> errors.OutcomeUnknown:
    answer = error if isinstance(error, errors.ApiError) else None
    return errors.OutcomeUnknown(operation, str(error), answer)
