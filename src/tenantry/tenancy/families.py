"""LimitRanges and NetworkPolicies that every namespace of a tenant gets (specs/capsule 4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tenantry.api import resources
from tenantry.api.capsule import constants, tenant
from tenantry.tenancy import managed

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of object that is copied by index."""

    resource: resources.Resource
    #: Label whose value is the index.
    label: str


LIMIT_RANGES = Family(resources.LIMIT_RANGES, constants.LIMIT_RANGE_LABEL)
NETWORK_POLICIES = Family(resources.NETWORK_POLICIES, constants.NETWORK_POLICY_LABEL)
ALL = (LIMIT_RANGES, NETWORK_POLICIES)


def items(family: Family, spec: tenant.TenantSpec) -> list[Mapping[str, Any]]:
    """Return the specifications that a Tenant gives for a family."""
    if family is LIMIT_RANGES:
        return list(spec.limit_ranges.items) if spec.limit_ranges else []
    return list(spec.network_policies.items) if spec.network_policies else []


def desired(family: Family, owner: tenant.Tenant, namespace: str) -> dict[str, Object]:
    """Return the objects of a family in one namespace, by name."""
    name = owner.metadata.name
    found = {}
    for index, spec in enumerate(items(family, owner.spec)):
        called = f"{constants.MANAGED_PREFIX}{name}-{index}"
        found[called] = {
            "apiVersion": family.resource.api_version,
            "kind": family.resource.kind,
            "metadata": managed.metadata(owner, called, namespace, {family.label: str(index)}),
            "spec": dict(spec),
        }
    return found


def is_touched(observed: Mapping[str, Any], manager: str) -> bool:
    """Tell whether somebody else has written into the specification.

    What we apply leaves alone what others add to it, and a policy with an addition is another one.
    """
    return any(
        entry.get("manager") != manager and "f:spec" in (entry.get("fieldsV1") or {})
        for entry in observed["metadata"].get("managedFields") or ()
    )


def is_ours(family: Family, observed: Mapping[str, Any]) -> bool:
    """Tell whether an object was made for a Tenant's item."""
    return family.label in (observed["metadata"].get("labels") or {})
