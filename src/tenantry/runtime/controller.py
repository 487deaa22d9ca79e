"""A controller: keys in, `reconcile(key)` until the world is as wanted.

A key is never with two workers. Success forgets its failures; an exception brings it back after a
growing delay; `TerminalError` does not bring it back. A reconcile that takes longer than its
timeout is cancelled and counts as failed.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Any, Generic, Self, TypeVar

from tenantry.kube import errors as kube_errors
from tenantry.runtime import errors, informer, metrics, store, tracing
from tenantry.runtime import queue as queues
from tenantry.runtime import timing as timings

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

TerminalError = errors.TerminalError

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """What a reconcile asks for: to be called again after so many seconds."""

    requeue_after: float | None = None


Reconcile = Callable[[K], Awaitable[Result | None]]


class Controller(Generic[K]):
    """One kind of work. Events reach the queue only between `start` and `stop`.

    :param group: whom a key belongs to, such as its cluster: groups take turns, so that one which
        is noisy does not keep the others waiting
    :param share: how many workers one group may have at a time; a group that hangs has no more
    """

    def __init__(
        self,
        name: str,
        reconcile: Reconcile[K],
        *,
        concurrency: int = 1,
        group: Callable[[K], Hashable] | None = None,
        share: int | None = None,
        timeout: float | None = None,
        timing: timings.Timing | None = None,
        registry: metrics.Registry | None = None,
        tracer: tracing.Tracer | None = None,
    ) -> None:
        self.name = name
        self._reconcile = reconcile
        self._concurrency = concurrency
        self._timing = timing or timings.Timing()
        self._timeout = self._timing.reconcile if timeout is None else timeout
        self._queue: queues.WorkQueue[K] = queues.WorkQueue(
            first=self._timing.retry_first,
            longest=self._timing.retry_longest,
            group=group,
            share=share,
        )
        self._subscriptions: list[Callable[[], Callable[[], None]]] = []
        self._cancels: list[Callable[[], None]] = []
        self._tracer = tracer or tracing.Tracer()
        self._metrics = Metrics(registry or metrics.Registry(), self)

    @property
    def queue(self) -> queues.WorkQueue[K]:
        """The work queue."""
        return self._queue

    @property
    def concurrency(self) -> int:
        """How many keys are worked on at a time."""
        return self._concurrency

    def watches(
        self,
        source: informer.Informer[T],
        keys: Callable[[store.Event[T]], Iterable[K]],
        *,
        priority: int = queues.NORMAL,
        debounce: float = 0.0,
    ) -> Self:
        """Queue the keys computed from each event of an informer.

        What a first list brings comes after everything else. With `debounce` the keys wait so
        long for more of the same.
        """

        def handler(event: store.Event[T]) -> None:
            lane = min(priority, queues.LOW) if event.initial else priority
            for key in keys(event):
                if debounce:
                    self._queue.add_after(key, debounce, lane)
                else:
                    self._queue.add(key, lane)

        self._subscriptions.append(lambda: source.subscribe(handler))
        return self

    def enqueue(self, key: K, *, after: float = 0.0, priority: int = queues.NORMAL) -> None:
        """Queue a key from elsewhere."""
        self._queue.add_after(key, after, priority)

    async def run(self) -> None:
        """Subscribe and work until `stop`."""
        # A standby subscribes only now: the replay brings what it missed.
        self._cancels = [subscribe() for subscribe in self._subscriptions]
        logger.info("controller_started", extra={"controller": self.name})
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._concurrency):
                    group.create_task(self._work(), name=f"{self.name}-{number}")
        finally:
            self.stop()
        logger.info("controller_stopped", extra={"controller": self.name})

    def stop(self) -> None:
        """Take no further key; `run` ends when those at work are done."""
        for cancel in self._cancels:
            cancel()
        self._cancels = []
        self._queue.close()

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                key = await self._queue.get()
            except errors.ClosedError:
                return
            began = loop.time()
            self._metrics.began(key, began, self._queue.waited)
            try:
                await self._one(key)
            finally:
                self._queue.done(key)
                self._metrics.ended(key, loop.time() - began)

    async def _one(self, key: K) -> None:
        scope = asyncio.timeout(self._timeout)
        try:
            with self._tracer.span("reconcile", controller=self.name, key=str(key)):
                async with scope:
                    result = await self._reconcile(key)
        except TerminalError as error:
            self._queue.forget(key)
            self._metrics.terminal()
            logger.error("reconcile_terminal", extra=self._about(key, error=str(error)))
        except Exception as error:
            expired = scope.expired()
            delay = self._queue.add_rate_limited(key)
            self._metrics.failed(timeout=expired)
            about = self._about(key, retry_after=f"{delay:.3f}")
            if expired:
                logger.warning("reconcile_timeout", extra={**about, "timeout": self._timeout})
            elif isinstance(error, kube_errors.Conflict):
                # Somebody was faster; the event about it is on its way.
                logger.info("reconcile_conflict", extra={**about, "error": str(error)})
            elif isinstance(error, kube_errors.KubeError):
                logger.warning("reconcile_failed", extra={**about, "error": str(error)})
            else:
                logger.exception("reconcile_failed", extra=about)
        else:
            self._queue.forget(key)
            after = result.requeue_after if result is not None else None
            if after is not None:
                self._queue.add_after(key, after)
            self._metrics.succeeded(after)

    def _about(self, key: K, **more: Any) -> dict[str, Any]:
        return {"controller": self.name, "key": key, **more}


class Metrics:
    """The numbers of one controller, under controller-runtime's names."""

    def __init__(self, registry: metrics.Registry, controller: Controller[Any]) -> None:
        self._name = name = controller.name
        self._controller = controller
        self._began: dict[Any, float] = {}
        by_controller = ("controller",)
        self._total = registry.counter(
            "controller_runtime_reconcile_total", "Reconciles.", ("controller", "result")
        )
        self._errors = registry.counter(
            "controller_runtime_reconcile_errors_total", "Failed reconciles.", by_controller
        )
        self._terminal = registry.counter(
            "controller_runtime_terminal_reconcile_errors_total",
            "Reconciles that will not be repeated.",
            by_controller,
        )
        self._timeouts = registry.counter(
            "controller_runtime_reconcile_timeouts_total",
            "Reconciles cancelled at their deadline.",
            by_controller,
        )
        self._time = registry.histogram(
            "controller_runtime_reconcile_time_seconds",
            "Length of reconciles.",
            by_controller,
            buckets=metrics.RECONCILE_BUCKETS,
        )
        self._wait = registry.histogram(
            "workqueue_queue_duration_seconds",
            "How long keys wait.",
            ("name",),
            buckets=metrics.QUEUE_BUCKETS,
        )
        self._work = registry.histogram(
            "workqueue_work_duration_seconds",
            "How long keys are worked on.",
            ("name",),
            buckets=metrics.QUEUE_BUCKETS,
        )
        registry.gauge(
            "controller_runtime_max_concurrent_reconciles", "Workers.", by_controller
        ).set(controller.concurrency, name)
        follow = (
            (
                "controller_runtime_active_workers",
                "Keys being worked on.",
                "controller",
                lambda: len(self._began),
            ),
            ("workqueue_depth", "Keys waiting.", "name", lambda: len(controller.queue)),
            ("workqueue_adds_total", "Keys added.", "name", lambda: controller.queue.adds),
            ("workqueue_retries_total", "Keys retried.", "name", lambda: controller.queue.retries),
            (
                "workqueue_unfinished_work_seconds",
                "Seconds of work under way.",
                "name",
                lambda: sum(self._ages()),
            ),
            (
                "workqueue_longest_running_processor_seconds",
                "Age of the oldest work under way.",
                "name",
                lambda: max(self._ages(), default=0.0),
            ),
        )
        for metric, text, label, function in follow:
            registry.gauge(metric, text, (label,)).follow(function, name)
        for result in ("success", "error", "requeue_after"):
            self._total.inc(name, result, by=0)
        for counter in (self._errors, self._terminal, self._timeouts):
            counter.inc(name, by=0)

    def began(self, key: Any, now: float, waited: float) -> None:
        """Note that a worker has a key."""
        self._began[key] = now
        self._wait.observe(waited, self._name)

    def ended(self, key: Any, seconds: float) -> None:
        """Note that it is done."""
        self._began.pop(key, None)
        self._work.observe(seconds, self._name)
        self._time.observe(seconds, self._name)

    def succeeded(self, after: float | None) -> None:
        """Note a success."""
        self._total.inc(self._name, "success" if after is None else "requeue_after")

    def failed(self, *, timeout: bool) -> None:
        """Note a failure that is tried again."""
        self._total.inc(self._name, "error")
        self._errors.inc(self._name)
        if timeout:
            self._timeouts.inc(self._name)

    def terminal(self) -> None:
        """Note a failure that is not tried again."""
        self._total.inc(self._name, "error")
        self._errors.inc(self._name)
        self._terminal.inc(self._name)

    def _ages(self) -> list[float]:
        if not self._began:
            return []
        now = asyncio.get_running_loop().time()
        return [now - began for began in self._began.values()]
