"""Where the kinds of Tenantry's own group live in the API."""

from __future__ import annotations

from tenantry.api import resources
from tenantry.api.tenantry import constants

NODE_POOLS = resources.Resource(
    constants.GROUP, constants.VERSION, "tenantnodepools", "TenantNodePool", namespaced=False
)

ALL = (NODE_POOLS,)
