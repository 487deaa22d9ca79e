"""Those who are told of every change of a cache, and what counts it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from tenantry.runtime import metrics, store

T = TypeVar("T")
Handler = Callable[[store.Event[T]], None]

logger = logging.getLogger(__name__)


class Handlers(Generic[T]):
    """The subscribers of one cache; a handler that raises does not disturb the others."""

    def __init__(self, resource: str, registry: metrics.Registry) -> None:
        self._resource = resource
        self._handlers: list[Handler[T]] = []
        self._failures = registry.counter(
            "informer_failures_total",
            "Lists and watches that failed, views and handlers that raised.",
            ("resource", "part"),
        )
        self._events = registry.counter(
            "informer_events_total", "Changes of the cache.", ("resource", "type")
        )

    def add(self, handler: Handler[T], replay: Iterable[store.Event[T]]) -> Callable[[], None]:
        """Tell a handler what is there, and from now on what changes; returns what ends it."""
        for event in replay:
            self._call(handler, event)
        self._handlers.append(handler)

        def remove() -> None:
            with contextlib.suppress(ValueError):
                self._handlers.remove(handler)

        return remove

    def tell(self, events: Iterable[store.Event[T]]) -> None:
        """Hand each event to all."""
        for event in events:
            self._events.inc(self._resource, event.type)
            for handler in tuple(self._handlers):
                self._call(handler, event)

    def failed(self, part: str) -> None:
        """Count a failure."""
        self._failures.inc(self._resource, part)

    def _call(self, handler: Handler[T], event: store.Event[T]) -> None:
        try:
            handler(event)
        except Exception:
            # The same event would raise again: the others go on, and the defect is visible.
            self.failed("handler")
            logger.exception(
                "informer_handler_failed",
                extra={
                    "resource": self._resource,
                    "namespace": event.key[0],
                    "object": event.key[1],
                },
            )
