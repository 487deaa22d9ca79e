"""The policies of all tenant namespaces and the classes they speak of, from memory.

A review of what memory knows costs no call of the API server. What memory does not know, a
namespace, a tenant or a class, is read once: it may have been made a moment ago.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import msgspec

from tenantry.api import resources
from tenantry.api.capsule import tenant
from tenantry.apps import hostnames
from tenantry.core import errors as core_errors
from tenantry.directory import state as directory
from tenantry.kube import discovery, errors
from tenantry.runtime import admission, cluster, informer, permissions, store
from tenantry.tenancy import state
from tenantry.tenancy.admission import references
from tenantry.tenancy.policy import classes, compiling, surroundings, volumes

#: Kind of class -> where it lives. Of these every cluster has some.
CLASSES = {
    classes.PRIORITY: resources.PRIORITY_CLASSES,
    classes.RUNTIME: resources.RUNTIME_CLASSES,
    classes.STORAGE: resources.STORAGE_CLASSES,
    classes.INGRESS: resources.INGRESS_CLASSES,
}
#: Kind of class -> where it lives, where the cluster has it; the version is that of the review.
OPTIONAL = {
    classes.DEVICE: resources.DEVICE_CLASSES,
    classes.GATEWAY: resources.GATEWAY_CLASSES,
}

NEEDS = (
    *(permissions.Need(resource, (*permissions.READ, "get")) for resource in CLASSES.values()),
    *(permissions.Need(resource, (*permissions.READ, "get")) for resource in OPTIONAL.values()),
    permissions.Need(resources.PERSISTENT_VOLUMES, ("get",)),
    *hostnames.NEEDS,
)


#: Seconds between two looks for kinds of classes that the cluster did not have.
LOOK = 60.0


class Policies:
    """What is needed to judge the content of namespaces."""

    def __init__(self, source: cluster.Cluster, known: state.State) -> None:
        """Ask for the informers; they begin when `source` is started."""
        self._source = source
        self._client = source.client
        self._book = compiling.Book()
        self._hostnames = hostnames.Hostnames(source, known.directory)
        self._classes: dict[str, informer.Informer[classes.View]] = {
            kind: source.informer(resource, classes.view) for kind, resource in CLASSES.items()
        }
        #: Kind -> the cluster's defaults of it.
        self._defaults: dict[str, dict[str, classes.View]] = {kind: {} for kind in CLASSES}
        for kind, found in self._classes.items():
            found.subscribe(self._default_of(kind))
        known.namespaces.subscribe(self._namespace)
        known.tenants.subscribe(self._tenant)

    def _default_of(self, kind: str) -> Callable[[store.Event[classes.View]], None]:
        defaults = self._defaults[kind]

        def changed(event: store.Event[classes.View]) -> None:
            if event.new is not None and event.new.default:
                defaults[event.new.name] = event.new
            else:
                defaults.pop(event.key[1], None)

        return changed

    def _namespace(self, event: store.Event[directory.NamespaceView]) -> None:
        if event.new is None or event.new.tenant is None:
            self._book.namespace_gone(event.key[1])

    def _tenant(self, event: store.Event[state.TenantView]) -> None:
        if event.new is None:
            self._book.tenant_gone(event.key[1])

    async def look(self) -> None:
        """Follow the kinds of classes that the cluster has by now; others are read when named."""
        missing = {kind: one for kind, one in OPTIONAL.items() if kind not in self._classes}
        if not missing:
            return
        with contextlib.suppress(errors.KubeError):
            served = (await discovery.discover(self._client)).served
            for kind, wanted in missing.items():
                for one in served:
                    found = one.resource
                    if one.preferred and (found.group, found.plural) == (
                        wanted.group,
                        wanted.plural,
                    ):
                        self._classes[kind] = self._source.informer(found, classes.view)

    async def run(self) -> None:
        """Look from time to time."""
        while True:
            await asyncio.sleep(LOOK)
            await self.look()

    def of(self, owner: tenant.Tenant, view: directory.NamespaceView) -> compiling.Policy:
        """Return the policy of a tenant's namespace."""
        return self._book.of(owner, view)

    async def around(
        self, review: admission.Review, policy: compiling.Policy, *, proposing: bool
    ) -> surroundings.Surroundings:
        """Return what the policy asks about for a review.

        :param proposing: the answer will be judged by another review
        """
        missing = [
            (kind, name)
            for kind, name in references.wanted(review, policy)
            if self._known(kind, name) is None
        ]
        read = await asyncio.gather(
            *(self._read(kind, name, review.version) for kind, name in missing)
        )
        overlay = {key: found for key, found in zip(missing, read, strict=True) if found}

        def find(kind: str, name: str) -> classes.View | None:
            return self._known(kind, name) or overlay.get((kind, name))

        bound = references.volume(review)
        volume = await self._volume(bound) if bound else None
        return surroundings.Surroundings(
            find=find,
            default=self._default,
            volume=lambda _: volume,
            taken=self._hostnames.taken(review, policy.ingresses, claim=not proposing),
        )

    def _known(self, kind: str, name: str) -> classes.View | None:
        found = self._classes.get(kind)
        return found.get(name) if found is not None else None

    def _default(self, kind: str) -> classes.View | None:
        found = self._defaults.get(kind) or {}
        return found[min(found)] if found else None

    async def _read(self, kind: str, name: str, version: str) -> classes.View | None:
        resource = CLASSES.get(kind)
        if resource is None:
            resource = msgspec.structs.replace(OPTIONAL[kind], version=version)
        try:
            return await self._client.get(resource, name, decode=classes.view)
        except (errors.NotFound, core_errors.InvalidValueError):
            return None  # also where no class can have such a name

    async def _volume(self, name: str) -> volumes.Volume | None:
        """Read a volume: whose it is was perhaps said a moment ago, and claims are rare."""
        try:
            return await self._client.get(resources.PERSISTENT_VOLUMES, name, decode=volumes.view)
        except (errors.NotFound, core_errors.InvalidValueError):
            return None
