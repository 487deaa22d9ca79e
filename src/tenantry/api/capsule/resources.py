"""Where Capsule's kinds live in the API."""

from __future__ import annotations

from tenantry.api import resources
from tenantry.api.capsule import constants

TENANTS = resources.Resource(
    constants.GROUP, constants.VERSION, "tenants", "Tenant", namespaced=False
)
TENANT_OWNERS = resources.Resource(
    constants.GROUP, constants.VERSION, "tenantowners", "TenantOwner", namespaced=False
)
CONFIGURATIONS = resources.Resource(
    constants.GROUP,
    constants.VERSION,
    "capsuleconfigurations",
    "CapsuleConfiguration",
    namespaced=False,
)
QUANTITY_LEDGERS = resources.Resource(
    constants.GROUP, constants.VERSION, "quantityledgers", "QuantityLedger"
)
RULE_STATUSES = resources.Resource(constants.GROUP, constants.VERSION, "rulestatuses", "RuleStatus")
PROXY_SETTINGS = resources.Resource(constants.GROUP, "v1beta1", "proxysettings", "ProxySetting")
GLOBAL_PROXY_SETTINGS = resources.Resource(
    constants.GROUP,
    "v1beta1",
    "globalproxysettings",
    "GlobalProxySettings",
    namespaced=False,
)

ALL = (
    TENANTS,
    TENANT_OWNERS,
    CONFIGURATIONS,
    QUANTITY_LEDGERS,
    RULE_STATUSES,
    PROXY_SETTINGS,
    GLOBAL_PROXY_SETTINGS,
)
