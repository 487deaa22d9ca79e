"""QuantityLedger: the serialised count behind a limit that many requests draw on at once.

Admission in every replica reserves here by compare-and-set before it lets a request through, so
that the sum never exceeds the limit; controllers settle reservations against what exists.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from tenantry.api import meta, schema
from tenantry.api.capsule import common


class TargetRef(common.Wire, kw_only=True):
    """The object whose limit is counted."""

    api_group: str = ""
    """API group of the object, e.g. `capsule.clastix.io`."""
    kind: Annotated[str, schema.NOT_EMPTY]
    """Kind of the object, e.g. `GlobalResourceQuota`."""
    namespace: str = ""
    """Namespace of the object; empty for cluster-scoped kinds."""
    name: Annotated[str, schema.NOT_EMPTY]
    """Name of the object."""
    uid: str = ""
    """UID of the object; a ledger of another UID is void."""


class ObjectRef(common.Wire, kw_only=True):
    """An object that uses some of the limit."""

    api_group: str = ""
    """API group of the object; empty for core."""
    api_version: Annotated[str, schema.NOT_EMPTY]
    """API version of the object, e.g. `v1`."""
    kind: Annotated[str, schema.NOT_EMPTY]
    """Kind of the object, e.g. `Pod`."""
    namespace: str = ""
    """Namespace of the object."""
    name: str = ""
    """Name of the object; empty while the API server has yet to generate it."""
    uid: str = ""
    """UID of the object; may be empty while it is being created."""


class Reservation(common.Wire, kw_only=True):
    """An amount held for a request that was let through and is not yet seen stored."""

    id: Annotated[str, schema.NOT_EMPTY]
    """Identity of the reservation, the same for a repeated request."""
    usage: schema.Quantity
    """Amount that the object uses in all."""
    delta: schema.Quantity | None = None
    """Amount held until the object is seen; for an update what comes on top. Default: usage."""
    object_ref: ObjectRef
    """Object that the amount is held for."""
    created_at: schema.Time
    """When the reservation was made."""
    updated_at: schema.Time
    """When the reservation was last confirmed."""
    expires_at: schema.Time | None = None
    """When the reservation may be probed and given up."""


class PendingDelete(common.Wire, kw_only=True):
    """An object about to disappear."""

    id: str = ""
    """Identity of the request that announced it."""
    object_ref: ObjectRef
    """Object that is being deleted."""
    created_at: schema.Time
    """When the deletion was admitted."""


class ResourceReservation(common.Wire, kw_only=True):
    """Amounts of several resources held for one request."""

    id: Annotated[str, schema.NOT_EMPTY]
    """Identity of the reservation, the same for a repeated request."""
    usage: dict[str, schema.Quantity] = {}
    """Amounts that the object uses in all, by resource."""
    delta: dict[str, schema.Quantity] | None = None
    """Amounts held until the object is seen, by resource. Default: usage."""
    object_ref: ObjectRef
    """Object that the amounts are held for."""
    created_at: schema.Time
    """When the reservation was made."""
    updated_at: schema.Time
    """When the reservation was last confirmed."""
    expires_at: schema.Time | None = None
    """When the reservation may be probed and given up."""


class ResourceQuotaLedger(common.Wire, kw_only=True):
    """The count behind a GlobalResourceQuota."""

    observed_generation: Annotated[int, schema.INT64] = 0
    """Generation of the quota that the count is about."""
    initialized: bool = False
    """What exists has been counted once. Default: false; until then nothing is let through."""
    namespaces: list[str] = []
    """Namespaces that are counted, sorted."""
    used: dict[str, schema.Quantity] = {}
    """Amounts seen in use, by resource."""
    reserved: dict[str, schema.Quantity] = {}
    """Amounts held by reservations, by resource."""
    allocated: dict[str, schema.Quantity] = {}
    """Amounts in use or held, by resource."""
    reservations: list[ResourceReservation] = []
    """Requests let through and not yet seen stored."""


class QuantityLedgerSpec(common.Wire, kw_only=True):
    """Which limit is counted."""

    target_ref: TargetRef
    """Object whose limit is counted."""


class QuantityLedgerStatus(common.Wire, kw_only=True):
    """The count; written by compare-and-set only."""

    reserved: schema.Quantity | None = None
    """Amount held by reservations."""
    allocated: schema.Quantity | None = None
    """Amount let through in all."""
    reservations: list[Reservation] = []
    """Requests let through and not yet seen stored."""
    pending_deletes: list[PendingDelete] = []
    """Objects about to disappear."""
    resource_quota: ResourceQuotaLedger | None = None
    """The count by resource, for a GlobalResourceQuota."""
    conditions: common.Conditions = []
    """State of the ledger, by aspect."""


class QuantityLedger(common.Wire, kw_only=True):
    """The count behind a limit; made and written by the platform."""

    metadata: meta.ObjectMeta
    spec: QuantityLedgerSpec
    """Which limit is counted."""
    status: QuantityLedgerStatus = msgspec.field(default_factory=QuantityLedgerStatus)
    """The count; written by compare-and-set only."""
