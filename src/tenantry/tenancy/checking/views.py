"""What is kept of each object that the check reads: names, and what is compared."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tenantry.api import meta
from tenantry.api.capsule import configuration, constants, tenant, tenant_owner
from tenantry.directory import assignment, owners
from tenantry.tenancy import bindings, promotions, takeover

Object = dict[str, Any]
#: What an object's own text can make the decoders raise.
UNREADABLE = (msgspec.MsgspecError, KeyError, TypeError, ValueError)


class _Meta(msgspec.Struct, gc=False):
    metadata: meta.ObjectMeta


_META = msgspec.json.Decoder(_Meta, strict=False)


class _Managed(msgspec.Struct, gc=False):
    metadata: _Fields


class _Fields(msgspec.Struct, rename="camel", gc=False):
    managed_fields: list[_Entry] = []


class _Entry(msgspec.Struct, rename="camel", gc=False):
    manager: str = ""
    operation: str = ""
    subresource: str = ""
    fields_v1: msgspec.Raw = msgspec.Raw(b"{}")


_MANAGED = msgspec.json.Decoder(_Managed, strict=False)


def taken_from(raw: bytes) -> frozenset[str]:
    """Return the managers of Capsule that own fields of an object by `Update`."""
    return frozenset(
        entry.manager
        for entry in _MANAGED.decode(raw).metadata.managed_fields
        if entry.operation == "Update" and entry.manager in (*takeover.CAPSULE, *takeover.ALIKE)
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A tenant as it is stored.

    :param spec: its specification, for fields that the types do not know
    :param broken: why it cannot be read at all
    """

    name: str
    tenant: tenant.Tenant | None
    spec: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    managers: frozenset[str] = frozenset()
    broken: str = ""


def tenant_view(raw: bytes) -> Tenant:
    """Keep of one tenant what is judged."""
    name = _META.decode(raw).metadata.name
    try:
        found = _TENANT.decode(raw)
        spec = msgspec.json.decode(raw).get("spec") or {}
    except UNREADABLE as problem:
        return Tenant(name=name, tenant=None, broken=str(problem))
    return Tenant(name=name, tenant=found, spec=spec, managers=taken_from(raw))


_TENANT = msgspec.json.Decoder(tenant.Tenant, strict=False)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """A namespace that says something about a tenant."""

    name: str
    uid: str = ""
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    assignment: assignment.Assignment
    terminating: bool = False
    managers: frozenset[str] = frozenset()
    #: What Capsule's managers own, as managedFields.
    owned: Sequence[Object] = ()


def space_view(raw: bytes) -> Space | None:
    """Keep one namespace; None when it has nothing to do with tenants."""
    found = _META.decode(raw).metadata
    assigned = assignment.stored(found)
    if assigned.absent:
        return None
    managers = taken_from(raw)
    owned: list[Object] = []
    if managers:
        entries = msgspec.json.decode(raw)["metadata"]["managedFields"]
        owned = [entry for entry in entries if entry.get("manager") in managers]
    return Space(
        name=found.name,
        uid=found.uid,
        labels=found.labels,
        annotations=found.annotations,
        assignment=assigned,
        terminating=bool(found.deletion_timestamp),
        managers=managers,
        owned=owned,
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """A RoleBinding with Capsule's label."""

    namespace: str
    name: str
    #: Whether it is labelled as Tenantry's controller looks for it.
    followed: bool
    grants: tuple[str, tuple[tuple[str, str, str], ...]]
    """the role, and (kind, namespace, name) of each subject"""
    managers: frozenset[str] = frozenset()


class _Binding(msgspec.Struct, rename="camel", gc=False):
    metadata: meta.ObjectMeta
    role_ref: _Role
    subjects: list[meta.Subject] = []


class _Role(msgspec.Struct, gc=False):
    name: str = ""


_BINDING = msgspec.json.Decoder(_Binding, strict=False)


def binding_view(raw: bytes) -> Binding:
    """Keep one RoleBinding."""
    found = _BINDING.decode(raw)
    return Binding(
        namespace=found.metadata.namespace,
        name=found.metadata.name,
        followed=bindings.is_ours(found.metadata.name, found.metadata.labels),
        grants=(
            found.role_ref.name,
            tuple(sorted((one.kind, one.namespace, one.name) for one in found.subjects)),
        ),
        managers=taken_from(raw),
    )


def is_followed(labels: Mapping[str, str]) -> bool:
    """Tell whether Tenantry's controllers see an object among those they keep."""
    return labels.get(constants.MANAGED_BY_LABEL) == constants.MANAGED_BY_CONTROLLER


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A LimitRange or NetworkPolicy that was made for a tenant's item."""

    namespace: str
    name: str
    followed: bool
    spec: Mapping[str, Any]
    managers: frozenset[str] = frozenset()


def copy_view(raw: bytes) -> Copy:
    """Keep one copied object."""
    found = _META.decode(raw).metadata
    return Copy(
        namespace=found.namespace,
        name=found.name,
        followed=is_followed(found.labels),
        spec=msgspec.json.decode(raw).get("spec") or {},
        managers=taken_from(raw),
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A ClusterRole, as far as handing it out is concerned."""

    name: str
    aggregated: bool


def role_view(raw: bytes) -> Role:
    """Keep one ClusterRole."""
    found = _META.decode(raw).metadata
    return Role(
        name=found.name, aggregated=found.labels.get(constants.AGGREGATE_LABEL) == constants.TRUE
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tenancy:
    """All that is known of tenants; None = could not be read, and is not judged."""

    #: The platform's own namespace.
    namespace: str = constants.CONTROLLER_NAMESPACE
    config: configuration.CapsuleConfigurationSpec = dataclasses.field(
        default_factory=configuration.CapsuleConfigurationSpec
    )
    tenants: Sequence[Tenant] | None = None
    spaces: Sequence[Space] | None = None
    tenant_owners: Sequence[tenant_owner.TenantOwner] | None = ()
    promoted: Sequence[owners.Promotion] | None = ()
    accounts: Sequence[promotions.Account] | None = ()
    bindings: Sequence[Binding] | None = None
    #: Plural of a family -> its objects.
    copies: Mapping[str, Sequence[Copy] | None] = dataclasses.field(default_factory=dict)
    roles: Sequence[Role] | None = None
    #: Whether the controller's ServiceAccount is bound to cluster-admin.
    almighty: bool = False

    def readable(self) -> list[tenant.Tenant]:
        """Return the tenants that could be read."""
        return [one.tenant for one in self.tenants or () if one.tenant is not None]

    def members(self, owner: tenant.Tenant) -> list[Space]:
        """Return the namespaces that Tenantry takes for a tenant's own."""
        return self._members.get((owner.metadata.name, owner.metadata.uid), [])

    @functools.cached_property
    def _members(self) -> Mapping[tuple[str, str], list[Space]]:
        known: dict[tuple[str, str], list[Space]] = {}
        for space in self.spaces or ():
            if space.assignment.tenant is not None and not space.terminating:
                known.setdefault((space.assignment.tenant, space.assignment.uid), []).append(space)
        return known

    def entries(self, owner: tenant.Tenant) -> tuple[owners.Owner, ...]:
        """Return a tenant's owners from all sources."""
        homes = {space.name for space in self.members(owner)}
        return owners.owners(
            owner,
            self.config,
            self.tenant_owners or (),
            [one for one in self.promoted or () if one.namespace in homes],
        )
