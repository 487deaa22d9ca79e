"""LimitRanges and NetworkPolicies that every namespace of a tenant gets (specs/capsule 4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tenantry.api import resources
from tenantry.api.capsule import constants, tenant
from tenantry.core import errors, quantity
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
            "spec": as_stored(family, spec),
        }
    return found


def as_stored(family: Family, spec: Mapping[str, Any]) -> Object:
    """Return a specification with what the API server fills in, in the words that it keeps.

    Written otherwise it would differ from what is there for whoever has not written it himself,
    such as a new leader.
    """
    if family is LIMIT_RANGES:
        return {**spec, "limits": [_limit(one) for one in spec.get("limits") or ()]}
    types = spec.get("policyTypes") or ["Ingress", *(["Egress"] if spec.get("egress") else [])]
    found = {"podSelector": {}, **spec, "policyTypes": types}
    for direction in ("ingress", "egress"):
        rules = found.pop(direction, None)
        if rules:
            found[direction] = [_rule(one) for one in rules]
    return found


#: Fields of a limit that hold quantities.
_QUANTITIES = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def _limit(limit: Mapping[str, Any]) -> Object:
    amounts = {
        field: {name: _canonical(value) for name, value in (limit.get(field) or {}).items()}
        for field in _QUANTITIES
    }
    if limit.get("type") == "Container":
        amounts["default"] = {**amounts["max"], **amounts["default"]}
        amounts["defaultRequest"] = {
            **amounts["min"], **amounts["default"], **amounts["defaultRequest"],
        }  # fmt: skip
    rest = {key: value for key, value in limit.items() if key not in _QUANTITIES}
    return {**rest, **{field: values for field, values in amounts.items() if values}}


def _canonical(value: Any) -> Any:
    try:
        return str(quantity.parse(value))
    except errors.TenantryError:
        return value  # The API server will say what is wrong with it.


def _rule(rule: Mapping[str, Any]) -> Object:
    found = {key: value for key, value in rule.items() if value != []}
    if "ports" in found:
        found["ports"] = [{"protocol": "TCP", **one} for one in found["ports"]]
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
