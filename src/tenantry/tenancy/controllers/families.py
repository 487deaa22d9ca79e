"""Copy a tenant's LimitRanges and NetworkPolicies to its namespaces, repair and prune them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

from tenantry.api.capsule import constants
from tenantry.kube import errors
from tenantry.runtime import apply, cluster, controller, informer, permissions, store, views
from tenantry.tenancy import families, state, takeover
from tenantry.tenancy.controllers import namespaces

Object = dict[str, Any]

_MOST_MENDED = 1000

NEEDS = tuple(
    permissions.Need(family.resource, (*permissions.READ, *permissions.APPLY, "delete"))
    for family in families.ALL
)


class FamilyController:
    """Reconciles one family of objects in one namespace."""

    def __init__(
        self, source: cluster.Cluster, known: state.State, family: families.Family
    ) -> None:
        self._known = known
        self._family = family
        self._applier = apply.Applier(source.client, constants.FIELD_MANAGER, timing=source.timing)
        #: What somebody had touched: what it was to be, and how the API server stores that.
        self._mended: dict[store.Key, tuple[Object, Object]] = {}
        self._observed: informer.Informer[bytes] = source.informer(
            family.resource, views.as_bytes, label_selector=state.MANAGED_SELECTOR
        )
        self.controller: controller.Controller[str] = (
            controller.Controller(
                family.resource.plural,
                self.reconcile,
                concurrency=4,
                timing=source.timing,
                registry=source.metrics,
            )
            .watches(known.namespaces, lambda event: self._concerned([event.key[1]]))
            .watches(
                known.tenants, lambda event: self._concerned(known.namespaces_of_tenant(event))
            )
            .watches(self._observed, lambda event: [event.key[0]], debounce=source.timing.debounce)
        )

    def _concerned(self, names: Iterable[str]) -> list[str]:
        """Leave out the namespaces that have none of these and shall have none; most have not.

        What is there but not in the cache yet is an event when it comes.
        """
        return [name for name in names if self._wants(name) or self._observed.list(name)]

    def _wants(self, namespace: str) -> bool:
        owner = self._known.directory.tenant_named(self._known.directory.tenant_of(namespace) or "")
        return owner is not None and bool(families.items(self._family, owner.spec))

    async def reconcile(self, namespace: str) -> None:
        """Make the objects of one namespace as its tenant wants them."""
        view = self._known.directory.namespace(namespace)
        if view is None or view.terminating:
            return
        owner = self._known.directory.tenant_named(view.tenant or "")
        if owner is None and view.tenant is not None:
            return  # The tenant is not known yet, or anymore; its own objects go with it.
        wanted: dict[str, Object] = {}
        if owner is not None:
            if view.tenant_uid != owner.metadata.uid:
                return
            wanted = families.desired(self._family, owner, namespace)
        observed = {
            found["metadata"]["name"]: found
            for found in map(msgspec.json.decode, self._observed.list(namespace))
        }
        resource = self._family.resource
        done = await asyncio.gather(
            *(self._write(obj, observed.get(name)) for name, obj in wanted.items()),
            return_exceptions=True,
        )
        ours = [found for found in observed.values() if families.is_ours(self._family, found)]
        await self._applier.prune(resource, ours, {(namespace, name) for name in wanted})
        for outcome in done:
            if isinstance(outcome, errors.KubeError) and namespaces.is_going(outcome):
                continue
            if isinstance(outcome, BaseException):
                raise outcome

    async def _write(self, wanted: Object, observed: Object | None) -> None:
        await takeover.adopt(self._applier, self._family.resource, observed)
        done = await self._applier.apply(self._family.resource, wanted, observed)
        current = done.object if done.sent else observed
        if current is None or not families.is_touched(current, constants.FIELD_MANAGER):
            return
        key = (wanted["metadata"]["namespace"], wanted["metadata"]["name"])
        if self._mended.get(key) == (wanted["spec"], current["spec"]):
            return  # They only say what we say.
        mended = await self._applier.patch_json(
            self._family.resource,
            key,
            [
                {"op": "test", "path": "/metadata/uid", "value": current["metadata"]["uid"]},
                {"op": "replace", "path": "/spec", "value": wanted["spec"]},
            ],
        )
        if len(self._mended) >= _MOST_MENDED:
            self._mended.clear()
        self._mended[key] = (wanted["spec"], mended["spec"])
