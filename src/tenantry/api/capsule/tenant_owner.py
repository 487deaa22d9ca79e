"""TenantOwner: an owner kept as an object of its own, given to tenants by labels."""

from __future__ import annotations

from typing import Annotated

import msgspec

from tenantry.api import meta, schema
from tenantry.api.capsule import common, tenant


class TenantOwnerSpec(common.User, kw_only=True):
    """Who the owner is, and with which roles."""

    cluster_roles: list[str] = msgspec.field(default_factory=tenant.owner_roles)
    """ClusterRoles bound to the owner in every namespace of its tenants.
    Default: `[admin, capsule-namespace-deleter]`."""
    aggregate: bool = True
    """The owner is also a user of the platform, without being listed in the
    CapsuleConfiguration. Default: true."""


class TenantOwnerStatus(common.Wire, kw_only=True):
    """Where the owner is one."""

    tenants: list[str] = []
    """Names of the tenants it owns, sorted."""
    conditions: common.Conditions = []
    """State of the owner, by aspect."""
    observed_generation: Annotated[int, schema.INT64] = 0
    """Generation of the spec that this status is about."""


class TenantOwner(common.Wire, kw_only=True):
    """An owner of the tenants that select it.

    Those are the tenants whose `permissions.matchOwners` match its labels, and the one named by
    its label `projectcapsule.dev/tenant`.
    """

    metadata: meta.ObjectMeta
    spec: TenantOwnerSpec
    """Who the owner is, and with which roles."""
    status: TenantOwnerStatus = msgspec.field(default_factory=TenantOwnerStatus)
    """Where the owner is one; written by the controller."""
