"""What the admission decisions of this package rest on: pools from memory, and who asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tenantry.api.tenantry import node_pool
from tenantry.nodes import fence


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Gathered for one request.

    :param around: the fence of the tenant that the request's namespace belongs to; None outside
        of tenants
    :param system: whether the requester may place pods: part of the cluster, or its master
    :param pools: all pools that are known
    """

    around: fence.Fence | None = None
    system: bool = False
    pools: Sequence[node_pool.TenantNodePool] = ()
