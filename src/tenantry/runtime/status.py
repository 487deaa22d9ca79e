"""Write statuses that change often: the last one of each object, and not more than needed.

A parent whose children change one after the other would write its status each time. The writer
waits a little for more of the same; what is written is what was said last. Equal ones are not sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from tenantry.api import resources
from tenantry.kube import errors as kube_errors
from tenantry.runtime import apply, queue, store
from tenantry.runtime import timing as timings

logger = logging.getLogger(__name__)

#: Finds the object as it is cached now, None when it is gone.
Look = Callable[[store.Key], Mapping[str, Any] | None]


class Writer:
    """Statuses of one kind, written by one field manager; `run` beside the controllers."""

    def __init__(
        self,
        applier: apply.Applier,
        resource: resources.Resource,
        look: Look,
        *,
        timing: timings.Timing | None = None,
    ) -> None:
        timing = timing or timings.Timing()
        self._applier = applier
        self._resource = resource
        self._look = look
        self._delay = timing.debounce
        self._wanted: dict[store.Key, dict[str, Any]] = {}
        self._queue: queue.WorkQueue[store.Key] = queue.WorkQueue(
            first=timing.retry_first, longest=timing.retry_longest
        )

    def __len__(self) -> int:
        return len(self._wanted)

    def set(self, key: store.Key, status: dict[str, Any]) -> None:
        """Say what a status shall be; replaces what was said before and is not written yet."""
        self._wanted[key] = status
        self._queue.add_after(key, self._delay)

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            key = await self._queue.get()
            try:
                await self._one(key)
            finally:
                self._queue.done(key)

    async def flush(self) -> None:
        """Write all that waits, without waiting for more; failures are left to the next reconcile."""
        for key in list(self._wanted):
            await self._one(key)

    async def _one(self, key: store.Key) -> None:
        status = self._wanted.pop(key, None)
        observed = self._look(key)
        if status is None or observed is None:
            self._queue.forget(key)
            return
        namespace, name = key
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        desired = {
            "apiVersion": self._resource.api_version,
            "kind": self._resource.kind,
            "metadata": metadata,
            "status": status,
        }
        try:
            await self._applier.apply_status(self._resource, desired, observed)
        except kube_errors.NotFound:
            self._queue.forget(key)
        except kube_errors.KubeError as error:
            # Unless something newer was said meanwhile, it is still wanted.
            self._wanted.setdefault(key, status)
            delay = self._queue.add_rate_limited(key)
            logger.warning(
                "status_not_written",
                extra={"object": f"{namespace}/{name}", "why": str(error), "retry_after": delay},
            )
        else:
            self._queue.forget(key)
