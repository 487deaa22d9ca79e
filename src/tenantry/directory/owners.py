"""Who owns a tenant, and with which roles (specs/capsule 3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tenantry.api.capsule import configuration, constants, tenant, tenant_owner
from tenantry.core import selectors
from tenantry.directory import identity


@dataclass(frozen=True, slots=True)
class Owner:
    """One owner with everything that was said about it, from all sources together."""

    subject: identity.Subject
    cluster_roles: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Promotion:
    """A service account of a tenant's namespace that carries the label of promotion to owner."""

    namespace: str
    name: str

    @property
    def subject(self) -> identity.Subject:
        name = f"{identity.SERVICE_ACCOUNT_PREFIX}{self.namespace}:{self.name}"
        return identity.Subject("ServiceAccount", name)


def owners(
    owned: tenant.Tenant,
    spec: configuration.CapsuleConfigurationSpec,
    tenant_owners: Iterable[tenant_owner.TenantOwner] = (),
    promotions: Iterable[Promotion] = (),
) -> tuple[Owner, ...]:
    """Return the owners in the order of their sources, one entry per subject, roles merged.

    :param promotions: labelled service accounts found in this tenant's namespaces; they count
        only where configuration and tenant both allow it
    """
    found: dict[identity.Subject, Owner] = {}

    def add(
        subject: identity.Subject,
        roles: Iterable[str],
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        known = found.get(subject, Owner(subject, ()))
        found[subject] = Owner(
            subject,
            tuple(dict.fromkeys((*known.cluster_roles, *roles))),
            {**(labels or {}), **known.labels},
            {**(annotations or {}), **known.annotations},
        )

    for entry in owned.spec.owners:
        subject = identity.Subject(entry.kind, entry.name)
        add(subject, entry.cluster_roles, entry.labels, entry.annotations)
    if promotion_allowed(owned, spec):
        for promotion in promotions:
            add(promotion.subject, spec.rbac.promotion_cluster_roles)
    for administrator in spec.administrators:
        subject = identity.Subject(administrator.kind, administrator.name)
        add(subject, spec.rbac.administration_cluster_roles)
    for candidate in tenant_owners:
        if selects(owned, candidate):
            subject = identity.Subject(candidate.spec.kind, candidate.spec.name)
            add(subject, candidate.spec.cluster_roles)
    return tuple(found.values())


def selects(owned: tenant.Tenant, candidate: tenant_owner.TenantOwner) -> bool:
    """Tell whether a TenantOwner belongs to a tenant: by its label, or by `matchOwners`."""
    labels = candidate.metadata.labels or {}
    if not labels:
        return False
    if labels.get(constants.MANAGED_TENANT_LABEL) == owned.metadata.name:
        return True
    return any(
        selectors.matches(selector.plain(), labels)
        for selector in owned.spec.permissions.match_owners
    )


def promotion_allowed(owned: tenant.Tenant, spec: configuration.CapsuleConfigurationSpec) -> bool:
    """Tell whether service accounts of this tenant may be promoted to owners."""
    return spec.allow_service_account_promotion and owned.spec.permissions.allow_owner_promotion


def is_owner(entries: Iterable[Owner], requester: identity.Requester) -> bool:
    """Tell whether the requester is one of the owners, by name or by group."""
    return any(entry.subject.matches(requester) for entry in entries)
