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
        self._registry = registry
        self._handlers: tuple[Handler[T], ...] = ()
        self._failures = registry.counter(
            "informer_failures_total",
            "Lists and watches that failed, views and handlers that raised.",
            ("resource", "part"),
        )
        self._events = registry.counter(
            "informer_events_total", "Changes of the cache.", ("resource", "type")
        )

    def follow(self, name: str, help: str, function: Callable[[], float]) -> None:
        """Have a gauge of this cache read from a function."""
        self._registry.gauge(name, help, ("resource",)).follow(function, self._resource)

    def add(self, handler: Handler[T], replay: Iterable[store.Event[T]]) -> Callable[[], None]:
        """Tell a handler what is there, and from now on what changes; returns what ends it."""
        for event in replay:
            self._call(handler, event)
        self._handlers += (handler,)

        def remove() -> None:
            left = list(self._handlers)
            with contextlib.suppress(ValueError):
                left.remove(handler)
            self._handlers = tuple(left)

        return remove

    def tell(self, events: Iterable[store.Event[T]]) -> None:
        """Hand each event to all."""
        for event in events:
            self._events.inc(self._resource, event.type)
            for handler in self._handlers:
                self._call(handler, event)

    def interrupted(self, part: str, why: str) -> None:
        """Count and log a list, probe or watch that failed."""
        self._count(part)
        logger.warning(
            "informer_interrupted", extra={"resource": self._resource, "part": part, "why": why}
        )

    def undecodable(self, key: store.Key, error: Exception) -> None:
        """Count and log an object that the view cannot read."""
        self._count("view")
        logger.error("informer_view_failed", extra={**self._about(key), "error": repr(error)})

    def _call(self, handler: Handler[T], event: store.Event[T]) -> None:
        try:
            handler(event)
        except Exception:
            # The same event would raise again: the others go on, and the defect is visible.
            self._count("handler")
            logger.exception("informer_handler_failed", extra=self._about(event.key))

    def _count(self, part: str) -> None:
        self._failures.inc(self._resource, part)

    def _about(self, key: store.Key) -> dict[str, str]:
        return {"resource": self._resource, "namespace": key[0], "object": key[1]}
