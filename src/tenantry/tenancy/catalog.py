"""The classes of a cluster, and which of them each tenant may use (specs/capsule 1.3, 4.1).

Device and Gateway classes are kinds that a cluster may lack, or get later.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Any

from tenantry.api import resources
from tenantry.api.capsule import tenant
from tenantry.directory import identity
from tenantry.kube import discovery, errors
from tenantry.runtime import cluster, informer, permissions, store
from tenantry.tenancy.policy import classes, engine

Object = dict[str, Any]

ALWAYS = {
    classes.STORAGE: resources.STORAGE_CLASSES,
    classes.PRIORITY: resources.PRIORITY_CLASSES,
    classes.RUNTIME: resources.RUNTIME_CLASSES,
}
PERHAPS = {classes.DEVICE: resources.DEVICE_CLASSES, classes.GATEWAY: resources.GATEWAY_CLASSES}

NEEDS = tuple(
    permissions.Need(resource, permissions.READ) for resource in (ALWAYS | PERHAPS).values()
)

#: Seconds between two looks for kinds that the cluster did not have.
LOOK = 60.0

#: Deprecated fields hold for everybody, so it does not matter who asks.
_ANYBODY = engine.Who(requester=identity.Requester(""), klass=identity.Class.UNKNOWN)


class Catalog:
    """Classes by kind, as the watches tell."""

    def __init__(
        self,
        source: cluster.Cluster,
        tenants: Callable[[], Iterable[tenant.Tenant]],
        on_change: Callable[[str], None],
    ) -> None:
        """Ask for the informers; they begin when `source` is started.

        :param on_change: called with the name of each tenant that may use something else now
        """
        self._source = source
        self._tenants = tenants
        self._on_change = on_change
        self._informers: dict[str, informer.Informer[classes.View]] = {}
        for kind, resource in ALWAYS.items():
            self._follow(kind, resource)

    def _follow(self, kind: str, resource: resources.Resource) -> None:
        found = self._informers[kind] = self._source.informer(resource, classes.view)
        found.subscribe(self._changed(kind))

    def _changed(self, kind: str) -> Callable[[store.Event[classes.View]], None]:
        def changed(event: store.Event[classes.View]) -> None:
            before = {event.old.name: event.old} if event.old is not None else {}
            after = {event.new.name: event.new} if event.new is not None else {}
            for owner in self._tenants():
                rule = classes.compiled(kind, classes.fields(owner.spec)[kind])
                was = classes.usable(rule, before, _ANYBODY)
                if was != classes.usable(rule, after, _ANYBODY):
                    self._on_change(owner.metadata.name)

        return changed

    async def look(self) -> None:
        """Find kinds that the cluster has by now."""
        missing = {kind: one for kind, one in PERHAPS.items() if kind not in self._informers}
        if not missing:
            return
        served = {
            (one.group, one.version, one.plural)
            for one in await discovery.resources(self._source.client)
        }
        for kind, resource in missing.items():
            if (resource.group, resource.version, resource.plural) in served:
                self._follow(kind, resource)

    async def first_look(self) -> None:
        """Look before anybody asks, or a new leader would write short lists and then long ones."""
        with contextlib.suppress(errors.KubeError):
            await self.look()
            for found in self._informers.values():
                await found.wait_synced()

    async def run(self) -> None:
        """Look from time to time."""
        while True:
            await asyncio.sleep(LOOK)
            with contextlib.suppress(errors.KubeError):
                await self.look()

    def usable(self, owner: tenant.Tenant) -> Object:
        """Return `status.classes` of a tenant; kinds without any are left out."""
        rules = classes.fields(owner.spec)
        found = {
            kind: classes.usable(
                classes.compiled(kind, rules[kind]),
                {one.name: one for one in known.list()},
                _ANYBODY,
            )
            for kind, known in sorted(self._informers.items())
        }
        return {kind: names for kind, names in found.items() if names}
