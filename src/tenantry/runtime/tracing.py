"""Hooks for traces: spans of reconciles, reviews and requests, through the OpenTelemetry API.

Off by default, and without that API installed (extra package `opentelemetry-api`) there is nothing
to turn on: `enable` says so. Where spans go is decided by whoever configures the SDK in the process.
"""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from tenantry.core import errors
from tenantry.kube import calls

#: Opens a span for the time of a `with`; inside, an exception is noted on it.
Span = Callable[..., contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def off(_name: str, **_attributes: str | int | float | bool) -> Iterator[None]:
    """Open no span."""
    yield


class Tracer:
    """Makes spans once enabled; one per process part, given to whatever has something to trace."""

    def __init__(self) -> None:
        self._tracer: Any = None

    @property
    def enabled(self) -> bool:
        """Whether spans are made."""
        return self._tracer is not None

    def enable(self, provider: Any = None) -> None:
        """Make spans from now on, with the given TracerProvider or the process's own.

        :raises InvalidValueError: when the OpenTelemetry API is not installed
        """
        try:
            api = importlib.import_module("opentelemetry.trace")
        except ImportError:
            raise errors.InvalidValueError(
                "tracing", "on", "needs the package opentelemetry-api"
            ) from None
        self._tracer = api.get_tracer("tenantry", tracer_provider=provider)

    def span(
        self, name: str, **attributes: str | int | float | bool
    ) -> contextlib.AbstractContextManager[Any]:
        """Open a span around a piece of work."""
        if self._tracer is None:
            return off(name)
        opened: contextlib.AbstractContextManager[Any] = self._tracer.start_as_current_span(
            name, attributes=attributes
        )
        return opened

    def request(self, attempt: calls.Attempt) -> None:
        """Note a request to the API server, after the fact, below the span it was made in."""
        if self._tracer is None:
            return
        end = time.time_ns()
        span = self._tracer.start_span(
            f"{attempt.method} kube-apiserver",
            start_time=end - int(attempt.seconds * 1e9),
            attributes={
                "http.request.method": attempt.method,
                "url.path": attempt.path,
                "http.response.status_code": attempt.code,
            },
        )
        span.end(end_time=end)
