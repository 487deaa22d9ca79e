"""Who asks, and what that answer rests on."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Iterable, Sequence

from tenantry.api.capsule import configuration, tenant, tenant_owner
from tenantry.apps import candidates
from tenantry.directory import identity, owners
from tenantry.runtime import admission


@dataclasses.dataclass(frozen=True, kw_only=True)
class People:
    """Who the requester is, and what that rests on.

    :param tenant_owners: None while they were not read
    """

    requester: identity.Requester
    controllers: Collection[str]
    config: configuration.CapsuleConfigurationSpec
    tenant_owners: Sequence[tenant_owner.TenantOwner] | None
    home: str | None
    promotions: Sequence[owners.Promotion]

    @functools.cached_property
    def roster(self) -> identity.Roster:
        return identity.roster(self.config, self.tenant_owners or (), self.controllers)

    @functools.cached_property
    def klass(self) -> identity.Class:
        return self.roster.classify(self.requester, lambda _: self.home)

    def owners_of(self, owner: tenant.Tenant) -> Sequence[owners.Owner]:
        mine = self.promotions if self.home == owner.metadata.name else ()
        return owners.owners(owner, self.config, self.tenant_owners or (), mine)

    def owned(self, found: Iterable[tenant.Tenant]) -> set[str]:
        return {
            one.metadata.name
            for one in found
            if owners.is_owner(self.owners_of(one), self.requester)
        }

    def given(self, found: Iterable[tenant.Tenant]) -> dict[str, tenant.Tenant]:
        """Return the tenants that the requester may choose, by name."""
        by_name = {one.metadata.name: one for one in found}
        if self.klass is identity.Class.ADMIN:
            return by_name
        return {name: by_name[name] for name in self.owned(by_name.values())}

    def is_open(self, review: admission.Review) -> bool:
        """Tell whether the choice of the tenant is left to us."""
        return candidates.is_open(review, self.klass)

    def suffice(
        self, review: admission.Review, found: Sequence[tenant.Tenant], *, complete: bool
    ) -> bool:
        """Tell whether nothing that is not known yet could change whose namespace it is; pure.

        More TenantOwners make users of strangers and owners of users, and take nothing away.

        :param complete: `found` has all that the requester owns
        """
        if self.klass is identity.Class.ADMIN:
            return True
        if self.klass is identity.Class.UNKNOWN:
            return self.tenant_owners is not None
        owned = self.owned(found)
        if candidates.is_open(review, self.klass):
            name = candidates.name_of(review)
            return candidates.decided(name, owned) or (bool(owned) and complete)
        return bool(owned) and candidates.mentioned(review) <= owned
