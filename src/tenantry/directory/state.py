"""The index behind every answer of this package, fed by watches in any order.

Namespaces may arrive before their tenant and tenants before the configuration; each question is
answered from what is known, and `revision` tells how fresh that is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from tenantry.api import meta
from tenantry.api.capsule import configuration, constants, tenant, tenant_owner
from tenantry.directory import assignment, identity, owners


class NamespaceView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What the tenancy keeps of a namespace."""

    name: str
    uid: str
    resource_version: str
    labels: dict[str, str]
    annotations: dict[str, str]
    tenant: str | None
    """the tenant that label and ownerReference agree on; None where they do not"""
    tenant_uid: str
    terminating: bool
    raw: bytes
    """the whole object for a tenant's namespace, empty for others"""


class _Namespace(msgspec.Struct, gc=False):
    metadata: meta.ObjectMeta


_NAMESPACE = msgspec.json.Decoder(_Namespace)


def namespace_view(raw: bytes) -> NamespaceView:
    """Project one namespace."""
    metadata = _NAMESPACE.decode(raw).metadata
    found = assignment.stored(metadata)
    return NamespaceView(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        labels=metadata.labels,
        annotations=metadata.annotations,
        tenant=found.tenant,
        tenant_uid=found.uid if found.complete else "",
        terminating=bool(metadata.deletion_timestamp),
        raw=bytes(raw) if found.complete else b"",
    )


class Directory:
    """Who is who, as far as the watches have told."""

    def __init__(self, controllers: Collection[str], configuration_name: str) -> None:
        self._controllers = frozenset(controllers)
        self._configuration_name = configuration_name
        self._config = configuration.CapsuleConfigurationSpec()
        self._tenants: dict[str, tenant.Tenant] = {}
        self._by_owner: dict[identity.Subject, set[str]] = {}
        #: Namespace -> owners that its service accounts are.
        self._by_home: dict[str, set[identity.Subject]] = {}
        #: Tenants that select TenantOwners by their labels.
        self._selecting: set[str] = set()
        self._tenant_owners: dict[str, tenant_owner.TenantOwner] = {}
        self._namespaces: dict[str, NamespaceView] = {}
        self._by_tenant: dict[str, set[str]] = {}
        self._promoted: dict[tuple[str, str], owners.Promotion] = {}
        self._roster: identity.Roster | None = None
        #: Tenant -> labels of its own nodes; see `effective`.
        self._node_selectors: dict[str, dict[str, str]] = {}

    # What the watches tell.

    def tenant_changed(self, name: str, new: tenant.Tenant | None) -> None:
        before, after = _listed(self._tenants.get(name)), _listed(new)
        for subject in before - after:
            _discard(self._by_owner, subject, name)
            if subject not in self._by_owner:
                _discard(self._by_home, identity.home(subject), subject)
        for subject in after - before:
            self._by_owner.setdefault(subject, set()).add(name)
            if home := identity.home(subject):
                self._by_home.setdefault(home, set()).add(subject)
        if new is not None and new.spec.permissions.match_owners:
            self._selecting.add(name)
        else:
            self._selecting.discard(name)
        _put(self._tenants, name, new)

    def tenant_owner_changed(self, name: str, new: tenant_owner.TenantOwner | None) -> None:
        _put(self._tenant_owners, name, new)
        self._roster = None

    def configuration_changed(
        self, name: str, new: configuration.CapsuleConfiguration | None
    ) -> None:
        if name == self._configuration_name:
            self._config = new.spec if new else configuration.CapsuleConfigurationSpec()
            self._roster = None

    def namespace_changed(self, name: str, new: NamespaceView | None) -> None:
        old = self._namespaces.get(name)
        if old is not None and old.tenant is not None:
            _discard(self._by_tenant, old.tenant, name)
        if new is not None and new.tenant is not None:
            self._by_tenant.setdefault(new.tenant, set()).add(name)
        _put(self._namespaces, name, new)

    def promotion_changed(self, namespace: str, name: str, new: owners.Promotion | None) -> None:
        _put(self._promoted, (namespace, name), new)

    # Questions.

    @property
    def config(self) -> configuration.CapsuleConfigurationSpec:
        return self._config

    @property
    def roster(self) -> identity.Roster:
        """Return who is known, resolved once per change of what it rests on."""
        if self._roster is None:
            self._roster = identity.roster(
                self._config, self._tenant_owners.values(), self._controllers
            )
        return self._roster

    def node_selector_changed(self, name: str, selector: dict[str, str]) -> None:
        """Take note of the labels that a tenant's own nodes carry; none for a tenant without."""
        _put(self._node_selectors, name, selector or None)

    def effective(self, found: tenant.Tenant) -> tenant.Tenant:
        """Return a tenant whose node selector leads to its own nodes; what it says itself wins."""
        more = self._node_selectors.get(found.metadata.name)
        if not more:
            return found
        selector = {**more, **found.spec.node_selector}
        spec = msgspec.structs.replace(found.spec, node_selector=selector)
        return msgspec.structs.replace(found, spec=spec)

    def tenant_named(self, name: str) -> tenant.Tenant | None:
        return self._tenants.get(name)

    def tenants(self) -> Iterable[tenant.Tenant]:
        return self._tenants.values()

    def tenant_names(self) -> Collection[str]:
        return self._tenants.keys()

    def owned_by(self, requester: identity.Requester) -> frozenset[str]:
        """Return the tenants that a requester may own, without looking at all of them.

        None that she owns is missing; administrators, who own every tenant, are not looked at.
        """
        subjects = [
            identity.Subject("User", requester.name),
            identity.Subject("ServiceAccount", requester.name),
            *(identity.Subject("Group", group) for group in requester.groups),
        ]
        found = {name for subject in subjects for name in self._by_owner.get(subject, ())}
        for candidate in self._tenant_owners.values():
            subject = identity.Subject(candidate.spec.kind, candidate.spec.name)
            if subject.matches(requester):
                found |= self._selected(candidate)
        account = requester.service_account
        home = self.tenant_of(account[0]) if account is not None else None
        return frozenset(found | ({home} if home is not None else set()))

    def is_named(self, requester: identity.Requester) -> bool:
        """Tell whether a TenantOwner is about the requester."""
        return any(
            identity.Subject(one.spec.kind, one.spec.name).matches(requester)
            for one in self._tenant_owners.values()
        )

    def _selected(self, candidate: tenant_owner.TenantOwner) -> set[str]:
        label = candidate.metadata.labels.get(constants.MANAGED_TENANT_LABEL)
        chosen = {*self._selecting, *([label] if label else ())} & self._tenants.keys()
        return {name for name in chosen if owners.selects(self._tenants[name], candidate)}

    def owner_at_home(self, namespace: str, *, besides: str) -> str:
        """Return an owner that the service accounts of a namespace are, "" if there is none.

        :param besides: the tenant whose owners do not count
        """
        for subject in sorted(self._by_home.get(namespace, ())):
            if self._by_owner[subject] - {besides}:
                return subject.name
        for candidate in self._tenant_owners.values():
            subject = identity.Subject(candidate.spec.kind, candidate.spec.name)
            if identity.home(subject) == namespace and self._selected(candidate) - {besides}:
                return subject.name
        return ""

    def tenant_owners(self) -> Iterable[tenant_owner.TenantOwner]:
        return self._tenant_owners.values()

    def namespace(self, name: str) -> NamespaceView | None:
        return self._namespaces.get(name)

    def namespaces_of(self, name: str) -> list[NamespaceView]:
        """Return a tenant's namespaces by name."""
        return [self._namespaces[member] for member in sorted(self._by_tenant.get(name, ()))]

    def tenant_of(self, namespace: str) -> str | None:
        """Return the name of the tenant that a namespace belongs to, if it exists."""
        view = self._namespaces.get(namespace)
        return view.tenant if view is not None else None

    def promotions_of(self, name: str) -> list[owners.Promotion]:
        """Return the labelled service accounts in a tenant's namespaces."""
        members = self._by_tenant.get(name, set())
        return [p for key, p in sorted(self._promoted.items()) if key[0] in members]

    def owners_of(self, found: tenant.Tenant) -> tuple[owners.Owner, ...]:
        return owners.owners(
            found,
            self._config,
            self._tenant_owners.values(),
            self.promotions_of(found.metadata.name),
        )

    def classify(self, requester: identity.Requester) -> identity.Class:
        return self.roster.classify(requester, self.tenant_of)


def _listed(found: tenant.Tenant | None) -> set[identity.Subject]:
    entries = found.spec.owners if found is not None else ()
    return {identity.Subject(entry.kind, entry.name) for entry in entries}


def _discard(table: dict[Any, set[Any]], key: Any, member: object) -> None:
    members = table.get(key, set())
    members.discard(member)
    if not members:
        table.pop(key, None)


def _put(table: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
