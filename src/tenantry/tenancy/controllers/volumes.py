"""Label each PersistentVolume with the tenant of the namespace that its claim is in."""

from __future__ import annotations

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.directory import state as directory
from tenantry.kube import errors
from tenantry.runtime import cluster, controller, informer, permissions, store
from tenantry.tenancy import state
from tenantry.tenancy.policy import volumes

NEEDS = (
    permissions.Need(resources.PERSISTENT_VOLUMES, (*permissions.READ, "patch")),
    permissions.Need(resources.PERSISTENT_VOLUME_CLAIMS, ("get",)),
    permissions.Need(resources.NAMESPACES, ("get",)),
)

_BY_NAMESPACE = "namespace of the claim"


class VolumeController:
    """Reconciles one volume by name."""

    def __init__(self, source: cluster.Cluster, known: state.State) -> None:
        self._client = source.client
        self._deadline = source.timing.write
        self._known = known
        self._volumes: informer.Informer[volumes.Volume] = source.informer(
            resources.PERSISTENT_VOLUMES, volumes.view
        )
        self._volumes.add_index(
            _BY_NAMESPACE, lambda one: [one.claim.namespace] if one.claim else []
        )
        self.controller: controller.Controller[str] = (
            controller.Controller(
                "persistentvolume",
                self.reconcile,
                timing=source.timing,
                registry=source.metrics,
            )
            .watches(self._volumes, lambda event: [event.key[1]])
            .watches(known.namespaces, self._in_namespace)
        )

    def _in_namespace(self, event: store.Event[directory.NamespaceView]) -> list[str]:
        """Return the volumes of a namespace that changed hands."""
        was = event.old.tenant if event.old is not None else None
        if event.new is None or event.new.tenant == was:
            return []
        return [one.name for one in self._volumes.by_index(_BY_NAMESPACE, event.new.name)]

    async def reconcile(self, name: str) -> None:
        """Set or repair the label; a volume whose claim is in no tenant's namespace is let be."""
        found = self._volumes.get(name)
        if found is None or found.claim is None:
            return
        namespace = found.claim.namespace
        view = self._known.directory.namespace(namespace)
        if view is None:
            view = await self._read(namespace)
        if view is None or view.tenant is None:
            return
        if volumes.disputed(found, view.tenant) and not await self._bound(found.claim, name):
            return
        body = volumes.repair(found, view.tenant)
        if body is None:
            return
        try:
            await self._client.patch(
                resources.PERSISTENT_VOLUMES, name, kind="merge", body=body,
                field_manager=constants.FIELD_MANAGER, timeout=self._deadline,
            )  # fmt: skip
        except (errors.NotFound, errors.Conflict):
            return  # Its next event comes, or it is gone.

    async def _bound(self, claim: volumes.Claim, name: str) -> bool:
        """Ask whether a claim has agreed to a volume, which admission judges."""
        try:
            found = await self._client.get(
                resources.PERSISTENT_VOLUME_CLAIMS, claim.name, claim.namespace
            )
        except errors.NotFound:
            return False
        bound: bool = (found.get("spec") or {}).get("volumeName") == name
        return bound and found["metadata"]["uid"] == claim.uid

    async def _read(self, name: str) -> directory.NamespaceView | None:
        try:
            return await self._client.get(
                resources.NAMESPACES, name, decode=directory.namespace_view
            )
        except errors.NotFound:
            return None
