"""Which fields of a Tenant have an effect in this release.

A field that is accepted but does nothing is worse than one that is refused: somebody relies on
it. So the Tenant's condition `Enforced` names what it sets in vain. Ready is not affected,
because manifests written for other products must keep applying.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.api.capsule import fields

#: Paths (list items as ``[]``) whose whole subtree has its effect.
ENFORCED = (
    "additionalRoleBindings",
    "containerRegistries",
    "cordoned",
    "data",
    "deviceClasses",
    "forceTenantPrefix",
    "gatewayOptions.allowedClasses",
    "imagePullPolicies",
    "ingressOptions",
    "limitRanges",
    "namespaceOptions.additionalMetadata",
    "namespaceOptions.additionalMetadataList",
    "namespaceOptions.forbiddenAnnotations",
    "namespaceOptions.forbiddenLabels",
    "namespaceOptions.managedMetadataOnly",
    "namespaceOptions.nameTemplate",
    "namespaceOptions.quota",
    "namespaceOptions.requiredMetadata",
    "networkPolicies",
    "nodeSelector",
    "owners[].annotations",
    "owners[].clusterRoles",
    "owners[].kind",
    "owners[].labels",
    "owners[].name",
    "permissions.allowOwnerPromotion",
    "permissions.matchOwners",
    "podOptions.additionalMetadata",
    "preventDeletion",
    "priorityClasses",
    "rules[].audience",
    "rules[].enforce.action",
    "rules[].enforce.ingress",
    "rules[].enforce.metadata",
    "rules[].enforce.services",
    "rules[].enforce.workloads.nodeSelectors",
    "rules[].enforce.workloads.qosClasses",
    "rules[].enforce.workloads.registries",
    "rules[].enforce.workloads.resources",
    "rules[].enforce.workloads.schedulers",
    "rules[].enforce.workloads.targets",
    "rules[].enforce.workloads.tolerations",
    "rules[].namespaceSelector",
    "rules[].permissions.bindings",
    "rules[].permissions.promotions",
    "runtimeClasses",
    "serviceOptions.additionalMetadata",
    "serviceOptions.allowedServices",
    "serviceOptions.externalIPs",
    "serviceOptions.forbiddenAnnotations",
    "serviceOptions.forbiddenLabels",
    "storageClasses",
)


_ROOTS = frozenset(ENFORCED)


def unenforced(spec: Mapping[str, Any]) -> list[str]:
    """Return the paths that a Tenant's specification sets without effect, sorted."""
    return sorted(path for path in fields.set_paths(dict(spec)) if not has_effect(path))


def has_effect(path: str) -> bool:
    """Tell whether a field has its effect in this release; pure."""
    # Each beginning of the path that ends where a field does: a new leader asks for all tenants.
    return path in _ROOTS or any(
        path[:end] in _ROOTS for end, letter in enumerate(path) if letter in ".["
    )
