"""Notice that this gateway is cut off, by an object that some gateway touches every few seconds.

Nothing else tells a quiet watch from a dead one in time: bookmarks come once a minute. What the
gateway knows is stale when it has not seen a touch for long; then it narrows nothing.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec

from tenantry.api import resources
from tenantry.core import clock
from tenantry.kube import client as kube
from tenantry.kube import errors
from tenantry.runtime import cluster, permissions, store

logger = logging.getLogger(__name__)

NAME = "tenantry-gateway-heartbeat"
#: Seconds after which some gateway touches the object, and after which it is missed.
_EVERY, _MISSED = 3.0, 15.0
_POLL = 0.5
_DEADLINE = 4.0

NEEDS = (
    permissions.Need(resources.LEASES, ("create",), own=True),
    permissions.Need(resources.LEASES, ("list", "watch", "patch"), own=True, names=(NAME,)),
)


class Freshness:
    """Knows when a touch was last seen. Pure: time is an argument."""

    def __init__(self, missed: float = _MISSED) -> None:
        self._missed = missed
        self._seen = float("-inf")

    def beat(self, now: float) -> None:
        self._seen = now

    def age(self, now: float) -> float:
        return now - self._seen

    def fresh(self, now: float) -> bool:
        return self.age(now) < self._missed


class View(msgspec.Struct, frozen=True, gc=False):
    """What is kept of the object: that it is not the one from before."""

    version: str


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata


_OBJECT = msgspec.json.Decoder(_Object)


def view(raw: bytes) -> View:
    """Project the object."""
    return View(_OBJECT.decode(raw).metadata.resource_version)


class Heartbeat:
    """Touches the object when nobody else did, and watches it."""

    def __init__(
        self,
        source: cluster.Cluster,
        namespace: str,
        *,
        every: float = _EVERY,
        missed: float = _MISSED,
    ) -> None:
        self.freshness = Freshness(missed)
        self._client: kube.Client = source.client
        self._namespace = namespace
        self._every = every
        informer = source.informer(
            resources.LEASES, view, namespace=namespace, field_selector=f"metadata.name={NAME}"
        )
        informer.subscribe(self._seen)

    def fresh(self) -> bool:
        """Tell whether what the watches told can be relied on."""
        return self.freshness.fresh(clock.monotonic())

    def _seen(self, event: store.Event[View]) -> None:
        if event.new is not None:
            self.freshness.beat(clock.monotonic())

    async def run(self) -> None:
        """Touch the object whenever it was not for a while, until cancelled."""
        while True:
            # All replicas see the same touches, so one is enough for all.
            if self.freshness.age(clock.monotonic()) >= self._every:
                await self._touch()
                await asyncio.sleep(self._every / 2)
            await asyncio.sleep(_POLL)

    async def _touch(self) -> None:
        now = clock.rfc3339_micro(clock.wall())
        body: dict[str, Any] = {"spec": {"holderIdentity": "gateways", "renewTime": now}}
        try:
            try:
                await self._client.patch(
                    resources.LEASES, NAME, self._namespace,
                    kind="merge", body=body, timeout=_DEADLINE,
                )  # fmt: skip
            except errors.NotFound:
                body["metadata"] = {"name": NAME, "namespace": self._namespace}
                await self._client.create(resources.LEASES, body, timeout=_DEADLINE)
        except errors.KubeError as error:
            logger.warning("heartbeat_not_written", extra={"why": str(error)})
