"""Keep the platform's own objects: the configuration, who may create namespaces, TenantOwners."""

from __future__ import annotations

from typing import Any

import msgspec

from tenantry.api import resources
from tenantry.api.capsule import constants, tenant_owner
from tenantry.api.capsule import resources as capsule
from tenantry.core import clock
from tenantry.directory import identity, owners
from tenantry.directory import state as directories
from tenantry.kube import errors
from tenantry.runtime import (
    apply,
    cluster,
    controller,
    informer,
    permissions,
    store,
    views,
)
from tenantry.tenancy import bindings, state, status, takeover, validation

Object = dict[str, Any]

#: There is one of each; events of all kinds lead to this key.
ONLY = "platform"


NEEDS = (
    permissions.Need(capsule.CONFIGURATIONS, ("create",)),
    permissions.Need(capsule.CONFIGURATIONS, ("patch",), subresource="status"),
    permissions.Need(capsule.TENANT_OWNERS, ("patch",), subresource="status"),
    permissions.Need(resources.CLUSTER_ROLES, (*permissions.READ, *permissions.APPLY, "delete")),
    permissions.Need(
        resources.CLUSTER_ROLE_BINDINGS, (*permissions.READ, *permissions.APPLY, "delete")
    ),
    # Held because it is given: what the provisioner and the deleter may do.
    permissions.Need(resources.NAMESPACES, ("create", "patch", "delete")),
)


class ConfigurationController:
    """Creates the configuration if there is none, and reports who is known."""

    def __init__(
        self, source: cluster.Cluster, known: state.State, *, now: clock.Clock = clock.wall
    ) -> None:
        self._known = known
        self._client = source.client
        self._now = now
        self._applier = apply.Applier(source.client, constants.FIELD_MANAGER, timing=source.timing)
        self._raw = source.informer(capsule.CONFIGURATIONS, views.as_bytes)
        debounce = source.timing.debounce
        self.controller: controller.Controller[str] = (
            controller.Controller(
                "capsuleconfiguration",
                self.reconcile,
                timing=source.timing,
                registry=source.metrics,
            )
            .watches(known.configurations, lambda _: [ONLY])
            # Two caches of one kind: what the one does not have yet, it tells of when it has.
            .watches(self._raw, lambda _: [ONLY])
            # The list of all tenants is only to be looked at, and grows with each of them.
            .watches(known.tenants, lambda event: [] if event.type == "modified" else [ONLY],
                     debounce=10 * debounce)
            .watches(known.tenant_owners, lambda _: [ONLY], debounce=debounce)
        )  # fmt: skip
        self.controller.enqueue(ONLY)

    async def reconcile(self, _: str) -> None:
        """Write the status of the configuration in use."""
        name = self._known.configuration_name
        found, raw = self._known.configurations.get(name), self._raw.get(name)
        if found is None or raw is None:
            await self._create(name)
            return
        directory = self._known.directory
        users = identity.effective_users(found.spec, directory.tenant_owners())
        tenants = sorted(found.metadata.name for found in directory.tenants())
        wanted = {
            "apiVersion": constants.API_VERSION,
            "kind": capsule.CONFIGURATIONS.kind,
            "metadata": {"name": name},
            "status": {
                "users": [{"kind": u.kind, "name": u.name} for u in sorted(set(users))],
                "tenants": tenants,
                "conditions": status.ready_only(
                    found.status.conditions,
                    "; ".join(validation.unreadable(found.spec)),
                    found.metadata.generation,
                    self._now(),
                ),
                "observedGeneration": found.metadata.generation,
            },
        }
        await self._applier.apply_status(capsule.CONFIGURATIONS, wanted, msgspec.json.decode(raw))

    async def _create(self, name: str) -> None:
        body = {
            "apiVersion": constants.API_VERSION,
            "kind": capsule.CONFIGURATIONS.kind,
            "metadata": {"name": name},
            "spec": {
                "users": [{"kind": "Group", "name": constants.USER_GROUP}],
                "enableTLSReconciler": True,
                # Not the name that is the default: a Capsule beside us has its own there.
                "overrides": {"TLSSecretName": "tenantry-webhook-tls"},
            },
        }
        try:
            await self._client.create(
                capsule.CONFIGURATIONS, body, field_manager=constants.FIELD_MANAGER
            )
        except errors.AlreadyExists:
            return


def _promoting(event: store.Event[state.TenantView]) -> list[str]:
    """Look again when a tenant comes or goes with promotions, or allows or forbids them."""
    before, after = (
        view is not None and view.tenant.spec.permissions.allow_owner_promotion
        for view in (event.old, event.new)
    )
    return [ONLY] if before != after else []


def _moving(event: store.Event[directories.NamespaceView]) -> list[str]:
    """Look again when a namespace comes to a tenant, leaves it or moves to another."""
    before, after = (view.tenant if view is not None else None for view in (event.old, event.new))
    return [ONLY] if before != after else []


class ProvisioningController:
    """Lets Capsule users create namespaces: two ClusterRoles and a ClusterRoleBinding."""

    def __init__(self, source: cluster.Cluster, known: state.State) -> None:
        self._known = known
        self._applier = apply.Applier(source.client, constants.FIELD_MANAGER, timing=source.timing)
        self._roles = source.informer(
            resources.CLUSTER_ROLES, views.as_bytes, label_selector=state.RBAC_SELECTOR
        )
        self._bindings = source.informer(
            resources.CLUSTER_ROLE_BINDINGS, views.as_bytes, label_selector=state.RBAC_SELECTOR
        )
        self.controller: controller.Controller[str] = (
            controller.Controller(
                "provisioning", self.reconcile, timing=source.timing, registry=source.metrics
            )
            .watches(known.configurations, lambda _: [ONLY])
            .watches(known.tenant_owners, lambda _: [ONLY])
            .watches(known.promotions, lambda _: [ONLY])
            # Whose service accounts are promoted depends on both.
            .watches(known.tenants, _promoting, debounce=source.timing.debounce)
            .watches(known.namespaces, _moving, debounce=source.timing.debounce)
            .watches(self._roles, lambda _: [ONLY])
            .watches(self._bindings, lambda _: [ONLY])
        )

    async def reconcile(self, _: str) -> None:
        """Write both roles, then the binding, then remove what went by earlier names."""
        directory = self._known.directory
        if self._known.configurations.get(self._known.configuration_name) is None:
            return
        roster = directory.roster
        promoted = [
            promotion.subject
            for found in directory.tenants()
            if owners.promotion_allowed(found, directory.config)
            for promotion in directory.promotions_of(found.metadata.name)
        ]
        subjects = {*roster.users, *roster.administrators, *promoted}
        roles, binding = bindings.provisioning(directory.config, subjects)
        for role in roles:
            await self._put(resources.CLUSTER_ROLES, self._roles, role)
        await self._put(resources.CLUSTER_ROLE_BINDINGS, self._bindings, binding)
        for resource, cache, kept in (
            (resources.CLUSTER_ROLE_BINDINGS, self._bindings, [binding]),
            (resources.CLUSTER_ROLES, self._roles, roles),
        ):
            names = {("", role["metadata"]["name"]) for role in kept}
            await self._applier.prune(
                resource, [msgspec.json.decode(raw) for raw in cache.list()], names
            )

    async def _put(
        self, resource: resources.Resource, cache: informer.Informer[bytes], wanted: Object
    ) -> None:
        raw = cache.get(wanted["metadata"]["name"])
        observed = msgspec.json.decode(raw) if raw else None
        await takeover.adopt(self._applier, resource, observed)
        await self._applier.apply(resource, wanted, observed)


class TenantOwnerController:
    """Reports on each TenantOwner which tenants it owns."""

    def __init__(
        self, source: cluster.Cluster, known: state.State, *, now: clock.Clock = clock.wall
    ) -> None:
        self._known = known
        self._now = now
        self._applier = apply.Applier(source.client, constants.FIELD_MANAGER, timing=source.timing)
        self._raw = source.informer(capsule.TENANT_OWNERS, views.as_bytes)
        self.controller: controller.Controller[str] = (
            controller.Controller(
                "tenantowner", self.reconcile, timing=source.timing, registry=source.metrics
            )
            .watches(known.tenant_owners, lambda event: [event.key[1]])
            # Two caches of one kind: what the one does not have yet, it tells of when it has.
            .watches(self._raw, lambda event: [event.key[1]])
            .watches(known.tenants, self._all, debounce=source.timing.debounce)
        )

    def _all(self, event: Any) -> list[str]:
        """A tenant that came, went or changed its selectors may concern every TenantOwner."""
        old, new = event.old, event.new
        if old is not None and new is not None:
            if old.tenant.spec.permissions == new.tenant.spec.permissions:
                return []
        return [found.metadata.name for found in self._known.tenant_owners.list()]

    async def reconcile(self, name: str) -> None:
        """Write one TenantOwner's status."""
        found: tenant_owner.TenantOwner | None = self._known.tenant_owners.get(name)
        raw = self._raw.get(name)
        if found is None or raw is None:
            return
        tenants = sorted(
            candidate.metadata.name
            for candidate in self._known.directory.tenants()
            if owners.selects(candidate, found)
        )
        wanted = {
            "apiVersion": constants.API_VERSION,
            "kind": capsule.TENANT_OWNERS.kind,
            "metadata": {"name": name},
            "status": {
                "tenants": tenants,
                "conditions": status.ready_only(
                    found.status.conditions, "", found.metadata.generation, self._now()
                ),
                "observedGeneration": found.metadata.generation,
            },
        }
        await self._applier.apply_status(capsule.TENANT_OWNERS, wanted, msgspec.json.decode(raw))
