"""The caches that the tenancy's controllers read, and what a reconcile found out last.

Namespaces are kept as views, the few kinds that are compared before writing as bytes, decoded
when they are needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from tenantry.api import resources
from tenantry.api.capsule import configuration, constants, tenant, tenant_owner
from tenantry.api.capsule import resources as capsule
from tenantry.directory import owners
from tenantry.directory import state as directory
from tenantry.runtime import cluster, informer, permissions, store
from tenantry.tenancy import promotions, status

Object = dict[str, Any]

_TENANT = msgspec.json.Decoder(tenant.Tenant, strict=False)
_TENANT_OWNER = msgspec.json.Decoder(tenant_owner.TenantOwner, strict=False)
_CONFIGURATION = msgspec.json.Decoder(configuration.CapsuleConfiguration, strict=False)

MANAGED_SELECTOR = f"{constants.MANAGED_BY_LABEL}={constants.MANAGED_BY_CONTROLLER}"
RBAC_SELECTOR = f"{constants.CREATED_BY_LABEL}={constants.CREATED_BY_RBAC}"
PROMOTED_SELECTOR = f"{constants.PROMOTE_OWNER_LABEL}={constants.TRUE}"
PROMOTED_TO_ROLES_SELECTOR = f"{constants.PROMOTE_LABEL}={constants.TRUE}"


#: What every process with these caches needs.
NEEDS = (
    permissions.Need(capsule.TENANTS, permissions.READ),
    permissions.Need(capsule.TENANT_OWNERS, permissions.READ),
    permissions.Need(capsule.CONFIGURATIONS, permissions.READ),
    permissions.Need(resources.NAMESPACES, permissions.READ),
    permissions.Need(resources.SERVICE_ACCOUNTS, permissions.READ),
)


class TenantView(msgspec.Struct, frozen=True, gc=False):
    """A tenant, and its bytes for what the types leave out (`managedFields`, the raw spec)."""

    tenant: tenant.Tenant
    raw: bytes


def tenant_view(raw: bytes) -> TenantView:
    """Project one tenant."""
    return TenantView(_TENANT.decode(raw), bytes(raw))


def tenant_owner_view(raw: bytes) -> tenant_owner.TenantOwner:
    """Project one TenantOwner."""
    return _TENANT_OWNER.decode(raw)


def configuration_view(raw: bytes) -> configuration.CapsuleConfiguration:
    """Project one CapsuleConfiguration."""
    return _CONFIGURATION.decode(raw)


def promotion_view(raw: bytes) -> owners.Promotion:
    """Project one service account that carries the label of promotion to owner."""
    metadata = msgspec.json.decode(raw)["metadata"]
    return owners.Promotion(metadata["namespace"], metadata["name"])


class State:
    """Informers of one cluster, and the directory they feed."""

    def __init__(
        self,
        source: cluster.Cluster,
        *,
        controllers: Collection[str],
        configuration_name: str = constants.CONFIGURATION_NAME,
        namespace: str = constants.CONTROLLER_NAMESPACE,
    ) -> None:
        """Ask `source` for its informers; they begin when it is started.

        :param controllers: user names under which the platform itself acts
        :param namespace: the platform's own namespace
        """
        self.configuration_name = configuration_name
        self.namespace = namespace
        self.directory = directory.Directory(controllers, configuration_name)
        self.tenants: informer.Informer[TenantView] = source.informer(capsule.TENANTS, tenant_view)
        self.tenant_owners = source.informer(capsule.TENANT_OWNERS, tenant_owner_view)
        self.configurations = source.informer(capsule.CONFIGURATIONS, configuration_view)
        self.namespaces = source.informer(resources.NAMESPACES, directory.namespace_view)
        self.promotions = source.informer(
            resources.SERVICE_ACCOUNTS, promotion_view, label_selector=PROMOTED_SELECTOR
        )
        self.promoted: informer.Informer[promotions.Account] = source.informer(
            resources.SERVICE_ACCOUNTS, promotions.view, label_selector=PROMOTED_TO_ROLES_SELECTOR
        )
        #: Outcome of the last reconcile of each tenant namespace.
        self.spaces: dict[str, status.Space] = {}
        # The directory subscribes before any controller does, so it knows what they ask it.
        self.tenants.subscribe(self._tenant)
        self.tenant_owners.subscribe(self._tenant_owner)
        self.configurations.subscribe(self._configuration)
        self.namespaces.subscribe(self._namespace)
        self.promotions.subscribe(self._promotion)

    def _tenant(self, event: store.Event[TenantView]) -> None:
        new = event.new.tenant if event.new is not None else None
        self.directory.tenant_changed(event.key[1], new)

    def _tenant_owner(self, event: store.Event[tenant_owner.TenantOwner]) -> None:
        self.directory.tenant_owner_changed(event.key[1], event.new)

    def _configuration(self, event: store.Event[configuration.CapsuleConfiguration]) -> None:
        self.directory.configuration_changed(event.key[1], event.new)

    def _namespace(self, event: store.Event[directory.NamespaceView]) -> None:
        self.directory.namespace_changed(event.key[1], event.new)
        if event.new is None or event.new.tenant is None:
            self.spaces.pop(event.key[1], None)

    def _promotion(self, event: store.Event[owners.Promotion]) -> None:
        self.directory.promotion_changed(event.key[0], event.key[1], event.new)

    # Which keys an event concerns; used by several controllers.

    def namespaces_of_tenant(self, event: store.Event[TenantView]) -> Iterable[str]:
        """Return a tenant's namespaces, unless only its status changed."""
        if not is_news(event):
            return ()
        return [view.name for view in self.directory.namespaces_of(event.key[1])]

    def tenants_of_owner(self, event: store.Event[tenant_owner.TenantOwner]) -> list[str]:
        """Return the tenants that a TenantOwner belongs to, or did."""
        candidates = [value for value in (event.old, event.new) if value is not None]
        return [
            found.metadata.name
            for found in self.directory.tenants()
            if any(owners.selects(found, candidate) for candidate in candidates)
        ]

    def tenants_of_configuration(
        self, event: store.Event[configuration.CapsuleConfiguration]
    ) -> list[str]:
        """Return all tenants when something changed that every owner list rests on."""
        if event.key[1] != self.configuration_name:
            return []
        if event.old is not None and event.new is not None:
            if _owner_settings(event.old) == _owner_settings(event.new):
                return []
        return [found.metadata.name for found in self.directory.tenants()]

    def tenants_of_namespace(self, event: store.Event[directory.NamespaceView]) -> list[str]:
        """Return the tenant a namespace belongs to, and the one it belonged to."""
        views = [view for view in (event.old, event.new) if view is not None]
        return list(dict.fromkeys(view.tenant for view in views if view.tenant is not None))

    def grants(self, owner: tenant.Tenant) -> list[tuple[promotions.Account, str, frozenset[str]]]:
        """Return the roles that a tenant's rules give to promoted service accounts."""
        if not self.directory.config.allow_service_account_promotion:
            return []
        members = self.directory.namespaces_of(owner.metadata.name)
        accounts = [one for space in members for one in self.promoted.list(space.name)]
        return list(promotions.granted(owner, members, accounts))

    def members(self, tenants: Iterable[str]) -> list[str]:
        """Return the namespaces of several tenants."""
        return [view.name for name in tenants for view in self.directory.namespaces_of(name)]


def is_news(event: store.Event[TenantView]) -> bool:
    """Tell whether more than a tenant's status or finalizers changed."""
    if event.old is None or event.new is None:
        return True
    before, after = event.old.tenant.metadata, event.new.tenant.metadata
    return (
        before.generation != after.generation
        or before.labels != after.labels
        or before.annotations != after.annotations
        or before.deletion_timestamp != after.deletion_timestamp
    )


def _owner_settings(found: configuration.CapsuleConfiguration) -> tuple[object, ...]:
    spec = found.spec
    return (spec.administrators, spec.rbac, spec.allow_service_account_promotion)
