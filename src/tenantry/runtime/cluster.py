"""One Kubernetes API and everything this process keeps of it: client and shared informers.

Closable and without globals: a process may have hundreds. An informer is shared by all who ask for
the same kind, scope, selectors and view (the same function object).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import msgspec

from tenantry.api import resources
from tenantry.kube import calls
from tenantry.kube import client as kube_client
from tenantry.kube import config as kube_config
from tenantry.kube import errors as kube_errors
from tenantry.runtime import backoff, budget, errors, informer, metrics, tracing, versions
from tenantry.runtime import timing as timings

T = TypeVar("T")

logger = logging.getLogger(__name__)


def request_observer(registry: metrics.Registry) -> Callable[[calls.Attempt], None]:
    """Return the function that counts a client's requests, under client-go's names."""
    total = registry.counter(
        "rest_client_requests_total", "Requests to the API server.", ("code", "method")
    )
    seconds = registry.histogram(
        "rest_client_request_duration_seconds", "Length of requests.", ("verb",)
    )

    def observe(attempt: calls.Attempt) -> None:
        total.inc(str(attempt.code) if attempt.code else "<error>", attempt.method)
        seconds.observe(attempt.seconds, attempt.method)

    return observe


class _Version(msgspec.Struct, rename="camel"):
    major: str = ""
    minor: str = ""
    git_version: str = ""


class Cluster:
    """The handle. A `Config` makes a client that is closed with it; a given `Client` is not.

    :param cache_bytes: what its caches may hold together; beyond it an informer ends with
        `CacheFullError`, which `wait_synced` and `run_until_crash` raise
    """

    def __init__(
        self,
        source: kube_config.Config | kube_client.Client,
        *,
        timing: timings.Timing | None = None,
        registry: metrics.Registry | None = None,
        tracer: tracing.Tracer | None = None,
        cache_bytes: int | None = None,
    ) -> None:
        #: Off until enabled; hand it to controllers and webhook servers, too.
        self.tracer = tracer or tracing.Tracer()
        self.timing = timing or timings.Timing()
        self.metrics = registry or metrics.Registry()
        self._budget = budget.Budget(cache_bytes) if cache_bytes is not None else None
        self._owned = isinstance(source, kube_config.Config)
        self.client = (
            kube_client.Client(source, observer=self._observer())
            if isinstance(source, kube_config.Config)
            else source
        )
        #: As the server names itself, "" until known.
        self.version = ""
        self._ordered = False
        self._informers: dict[Any, informer.Informer[Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._started = False
        self._closed = False
        self._crash: BaseException | None = None
        self._crashed = asyncio.Event()

    @property
    def ordered(self) -> bool:
        """Whether this server promises that resourceVersions can be compared."""
        return self._ordered

    def informer(
        self,
        resource: resources.Resource,
        view: Callable[[bytes], T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> informer.Informer[T]:
        """Return the shared informer, which begins at once when the cluster is started."""
        if self._closed:
            raise errors.ClosedError("cluster is closed")
        key = (resource, view, namespace, label_selector, field_selector)
        found = self._informers.get(key)
        if found is None:
            found = self._informers[key] = informer.Informer(
                self.client,
                resource,
                view,
                namespace=namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                timing=self.timing,
                registry=self.metrics,
                ordered=lambda: self._ordered,
                budget=self._budget,
            )
            if self._started:
                self._spawn(found.run(), f"informer {resource.group_resource}")
        return cast("informer.Informer[T]", found)

    def _observer(self) -> Callable[[calls.Attempt], None]:
        count, trace = request_observer(self.metrics), self.tracer.request

        def observe(attempt: calls.Attempt) -> None:
            count(attempt)
            trace(attempt)

        return observe

    async def start(self) -> None:
        """Begin to fill all caches; does not wait for them."""
        if self._started:
            return
        self._started = True
        self._spawn(self._ask_version(), "version")
        for found in self._informers.values():
            self._spawn(found.run(), f"informer {found.resource.group_resource}")

    async def wait_synced(self, timeout: float | None = None) -> None:
        """Wait until every informer made so far has its first list.

        :raises NotSyncedError: naming those that have not, at the deadline
        """
        seconds = self.timing.sync if timeout is None else timeout
        found = list(self._informers.values())
        crashed = asyncio.ensure_future(self._crashed.wait())
        try:
            async with asyncio.timeout(seconds):
                for one in found:
                    synced = asyncio.ensure_future(one.wait_synced())
                    try:
                        await asyncio.wait((synced, crashed), return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        synced.cancel()
                    if self._crash is not None:
                        raise self._crash
        except TimeoutError:
            waiting = [one.resource.group_resource for one in found if not one.synced]
            raise errors.NotSyncedError(waiting, seconds) from None
        finally:
            crashed.cancel()

    def not_synced(self) -> list[str]:
        """Return which caches have not had their first list."""
        return [one.resource.group_resource for one in self._informers.values() if not one.synced]

    async def run_until_crash(self) -> None:
        """Wait for ever, or raise what an informer ended with."""
        await self._crashed.wait()
        if self._crash is not None:
            raise self._crash

    async def hibernate(self) -> None:
        """Stop following the server but keep the caches, for a cluster nobody asks about now."""
        self._started = False
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def resume(self) -> None:
        """Follow the server again from where each cache stopped; `informer.following` tells."""
        if self._closed:
            raise errors.ClosedError("cluster is closed")
        await self.start()

    async def close(self) -> None:
        """End all informers and, when it is ours, the client."""
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._owned:
            await self.client.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _ask_version(self) -> None:
        wait = backoff.Backoff(
            first=self.timing.watch_retry_first,
            longest=self.timing.watch_retry_longest,
            healthy=self.timing.watch_healthy,
        )
        while True:
            try:
                answer = await self.client.request("GET", "/version")
                found = msgspec.json.decode(answer.body, type=_Version)
            except (kube_errors.KubeError, msgspec.MsgspecError) as error:
                logger.warning("server_version_unknown", extra={"why": str(error)})
                await asyncio.sleep(wait.next())
                continue
            self.version = found.git_version
            self._ordered = versions.comparable(found.major, found.minor)
            return

    def _spawn(self, work: Any, name: str) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._crash = self._crash or error
            self._crashed.set()
