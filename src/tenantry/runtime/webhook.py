"""The server for admission webhooks: TLS in, one `Review` per call, one verdict out.

The server knows HTTP, the wire form and time; what is decided is its handlers'. A handler that
raises or takes too long is a refusal: what could not be judged is not let through. Bodies, requests
under way and time are bounded.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterator

import msgspec
from aiohttp import web

from tenantry.api import admission as wire
from tenantry.core import durations
from tenantry.runtime import admission, certificates, conversion, metrics, tracing
from tenantry.runtime import timing as timings

Handler = Callable[[admission.Review], Awaitable[admission.Verdict]]
#: Body and deadline (of the loop's clock) in, body out; ValueError when the body makes no sense.
_Serve = Callable[[bytes, float], Awaitable[bytes]]

logger = logging.getLogger(__name__)

#: etcd takes objects of 1.5 MiB; a review has two of them, as JSON.
MAX_BODY = 8 << 20
MAX_IN_FLIGHT = 1024
#: What the API server waits when the configuration does not say.
_DEFAULT_TIMEOUT = 10.0
#: Our part of the caller's patience.
_SHARE = 0.8
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|us|µs|ns|h|m|s))+")

_REVIEW = msgspec.json.Decoder(wire.AdmissionReview)
_ENCODER = msgspec.json.Encoder()


class _MalformedError(ValueError):
    """Raised when a body is no review."""


def parse_duration(text: str) -> float | None:
    """Read a Go duration such as "10s" or "1m0.5s"; None when it is not one."""
    return durations.seconds(text) if _DURATION.fullmatch(text) else None


def decode(body: bytes) -> admission.Review:
    """Read the wire form."""
    try:
        message = _REVIEW.decode(body)
        request = message.request
        if message.api_version != wire.GROUP_VERSION or request is None:
            raise _MalformedError(f"expected a request of {wire.GROUP_VERSION} AdmissionReview")
        new, old = (
            msgspec.json.decode(raw) if wire.present(raw) else None
            for raw in (request.object, request.old_object)
        )
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _MalformedError(str(error)) from error
    return admission.Review(
        uid=request.uid,
        operation=request.operation,
        group=request.resource.group,
        version=request.resource.version,
        resource=request.resource.resource,
        kind=request.kind.kind,
        subresource=request.sub_resource,
        namespace=request.namespace,
        name=request.name,
        user=request.user_info,
        object=new,
        old=old,
        dry_run=bool(request.dry_run),
    )


def encode(uid: str, verdict: admission.Verdict) -> bytes:
    """Write the wire form."""
    response = wire.AdmissionResponse(
        uid=uid,
        allowed=verdict.allowed,
        warnings=list(verdict.warnings),
        audit_annotations=verdict.audit_annotations,
    )
    if not verdict.allowed:
        response.status = wire.Status(
            message=verdict.message, reason=verdict.reason, code=verdict.code
        )
    elif verdict.patch:
        response.patch = _ENCODER.encode(verdict.patch)
        response.patch_type = "JSONPatch"
    return _ENCODER.encode(
        wire.AdmissionReview(
            api_version=wire.GROUP_VERSION, kind="AdmissionReview", response=response
        )
    )


class Server:
    """Serve reviews. `start`, `run` beside it, `stop` at the end."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        certificate: certificates.Source,
        clients: bytes = b"",
        timing: timings.Timing | None = None,
        registry: metrics.Registry | None = None,
        max_body: int = MAX_BODY,
        max_in_flight: int = MAX_IN_FLIGHT,
        tracer: tracing.Tracer | None = None,
    ) -> None:
        """Build a server.

        :param clients: authorities (PEM) of which callers must present a certificate, so that
            nobody but the API server is listened to; empty = anybody is. Conversions tell and
            change nothing, and API servers ask for them without a certificate.
        """
        self._known_only = bool(clients)
        self._host = host
        self._port = port
        self._timing = timing or timings.Timing()
        self._max_body = max_body
        self._max_in_flight = max_in_flight
        self._handlers: dict[str, Handler] = {}
        self._converters: dict[str, conversion.Convert] = {}
        self._tracer = tracer or tracing.Tracer()
        self._last = 0.0  # when the last review came
        self._runner: web.AppRunner | None = None
        self._draining = False
        self._in_flight = 0
        #: Tallies of the steps, for handlers to pass to `admission.run`.
        self.counters = admission.Counters()
        registry = registry or metrics.Registry()
        self._watcher = certificates.Watcher(
            certificate,
            interval=self._timing.certificate_poll,
            clients=clients,
            registry=registry,
        )
        self._latency = registry.histogram(
            "controller_runtime_webhook_latency_seconds", "Length of reviews.", ("webhook",)
        )
        self._total = registry.counter(
            "controller_runtime_webhook_requests_total", "Reviews.", ("webhook", "code")
        )
        self._panics = registry.counter(
            "controller_runtime_webhook_panics_total", "Handlers that raised."
        )
        registry.gauge(
            "controller_runtime_webhook_requests_in_flight", "Reviews under way."
        ).follow(lambda: self._in_flight)
        registry.register(_StepMetric(self.counters))
        registry.register(_StepSeconds(self.counters))

    def route(self, path: str, handler: Handler) -> None:
        """Send reviews that come to `path` to a handler; before `start`."""
        self._free(path)
        self._handlers[path] = handler

    def route_conversion(self, path: str, convert: conversion.Convert) -> None:
        """Let a pure function answer the conversion reviews that come to `path`."""
        self._free(path)
        self._converters[path] = convert

    def _free(self, path: str) -> None:
        if path in self._handlers or path in self._converters:
            raise ValueError(f"{path} is routed already")

    @property
    def port(self) -> int:
        """The port listened on, also when 0 was asked for."""
        if self._runner is None or not self._runner.addresses:
            return self._port
        port: int = self._runner.addresses[0][1]
        return port

    def check(self) -> str:
        """Tell what keeps this server from being sent reviews, "" when nothing does."""
        if self._draining:
            return "draining"
        return "" if self._runner is not None else "not listening"

    async def start(self) -> None:
        """Load the certificate and listen.

        :raises CertificateError: when there is no certificate to serve with
        """
        self._watcher.load()
        app = web.Application(client_max_size=self._max_body)
        for path, handler in self._handlers.items():
            serve = self._admission(path, handler)
            app.router.add_post(path, self._endpoint(path, serve, known_only=self._known_only))
        for path, convert in self._converters.items():
            app.router.add_post(path, self._endpoint(path, self._conversion(path, convert)))
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(
                runner, self._host, self._port, ssl_context=self._watcher.context
            ).start()
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner
        logger.info("webhook_listening", extra={"host": self._host, "port": self.port})

    async def run(self) -> None:
        """Keep the certificate current until cancelled."""
        await self._watcher.run()

    def reload(self) -> None:
        """Look at the certificate now, for callers that know of a new one.

        :raises CertificateError: when it cannot be used; what was in use stays
        """
        self._watcher.load()

    async def stop(self) -> None:
        """Stop in a way that callers do not notice.

        API servers keep using open connections to a server that is going away, so it serves on for
        a while, and longer as long as reviews come, and closes each connection with its answer.
        """
        if self._runner is None:
            return
        self._draining = True
        loop = asyncio.get_running_loop()
        drain = self._timing.drain
        latest = loop.time() + max(drain, self._timing.grace - drain)
        # Quiet is counted in looks and not in seconds: after a stall of this process, what came
        # meanwhile still waits to be read.
        looks = quiet = 0
        while looks < 40 or quiet < 10:
            if looks >= 40 and loop.time() >= latest:
                logger.warning("webhook_still_asked", extra={"in_flight": self._in_flight})
                break
            last = self._last
            await asyncio.sleep(drain / 40)
            looks += 1
            quiet = 0 if self._in_flight or self._last != last else quiet + 1
        runner, self._runner = self._runner, None
        open_still = [handler.transport for handler in getattr(runner.server, "connections", ())]
        await runner.cleanup()
        # Each now waits for its peer to end TLS as well; nobody has to, and no loop waits for it.
        for transport in open_still:
            if transport is not None:
                transport.abort()
        await asyncio.sleep(0)
        logger.info("webhook_stopped")

    def _endpoint(
        self, path: str, serve: _Serve, *, known_only: bool = False
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        for code in ("200", "500"):
            self._total.inc(path, code, by=0)

        async def endpoint(request: web.Request) -> web.Response:
            loop = asyncio.get_running_loop()
            began = self._last = loop.time()
            self._in_flight += 1
            try:
                if known_only and not request.get_extra_info("peercert"):
                    response = web.Response(status=403, text="only API servers are listened to")
                else:
                    response = await self._serve(request, serve)
            except web.HTTPException as error:
                response = web.Response(status=error.status, text=error.reason)
            finally:
                self._in_flight -= 1
            self._total.inc(path, str(response.status))
            self._latency.observe(loop.time() - began, path)
            if self._draining:
                response.force_close()
            return response

        return endpoint

    async def _serve(self, request: web.Request, serve: _Serve) -> web.Response:
        if self._in_flight > self._max_in_flight:
            return web.Response(status=429, headers={"Retry-After": "1"}, text="too many reviews")
        patience = parse_duration(request.query.get("timeout", "")) or _DEFAULT_TIMEOUT
        deadline = asyncio.get_running_loop().time() + patience * _SHARE
        try:
            async with asyncio.timeout_at(deadline):
                body = await request.read()
            answer = await serve(body, deadline)
        except TimeoutError:
            return web.Response(status=408, text="the body did not come in time")
        except ValueError as error:
            logger.warning("review_malformed", extra={"path": request.path, "why": str(error)})
            return web.Response(status=400, text=str(error))
        return web.Response(body=answer, headers={"Content-Type": "application/json"})

    def _admission(self, path: str, handler: Handler) -> _Serve:
        async def serve(body: bytes, deadline: float) -> bytes:
            try:
                review = decode(body)
            except _MalformedError as error:
                raise _MalformedError(f"not an admission review: {error}") from error
            with self._tracer.span("review", path=path, uid=review.uid):
                return encode(review.uid, await self._judge(review, path, handler, deadline))

        return serve

    def _conversion(self, path: str, convert: conversion.Convert) -> _Serve:
        async def serve(body: bytes, _deadline: float) -> bytes:
            with self._tracer.span("conversion", path=path):
                return conversion.answer(body, convert)

        return serve

    async def _judge(
        self, review: admission.Review, path: str, handler: Handler, deadline: float
    ) -> admission.Verdict:
        about = {
            "path": path,
            "uid": review.uid,
            "operation": review.operation,
            "resource": review.resource,
            "namespace": review.namespace,
            "object": review.name,
        }
        scope = asyncio.timeout_at(deadline)
        try:
            async with scope:
                return await handler(review)
        except Exception as error:
            if scope.expired():
                logger.error("review_timeout", extra=about)
                return admission.denied(
                    f"tenantry could not judge this request in time (review {review.uid})",
                    code=504,
                    reason="Timeout",
                )
            self._panics.inc()
            logger.exception("review_failed", extra=about)
            return admission.denied(
                f"tenantry failed to judge this request: {type(error).__name__}"
                f" (review {review.uid})",
                code=500,
                reason="InternalError",
            )


class _StepMetric(metrics.Metric):
    """The tallies of all steps, read when asked for."""

    kind = "counter"

    def __init__(self, counters: admission.Counters) -> None:
        super().__init__("admission_step_total", "Admission steps by outcome.", ("step", "result"))
        self._counters = counters

    def samples(self) -> Iterator[tuple[str, str, float]]:
        for step, tally in sorted(self._counters.steps.items()):
            for result, number in (
                ("run", tally.runs),
                ("denied", tally.denials),
                ("patched", tally.patches),
                ("slow", tally.slow),
            ):
                yield "", self.text((step, result)), number


class _StepSeconds(metrics.Metric):
    """The time that each step has taken, read when asked for."""

    kind = "counter"

    def __init__(self, counters: admission.Counters) -> None:
        super().__init__("admission_step_seconds_total", "Seconds of admission steps.", ("step",))
        self._counters = counters

    def samples(self) -> Iterator[tuple[str, str, float]]:
        for step, tally in sorted(self._counters.steps.items()):
            yield "", self.text((step,)), tally.seconds
