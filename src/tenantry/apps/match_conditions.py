"""Conditions under which the API server asks us at all; pure.

What they leave out goes on while webhooks are down, and costs nothing while they are up.
"""

from __future__ import annotations

from typing import Any

from tenantry.api.capsule import constants

Object = dict[str, Any]

NOT_KUBE_SYSTEM: Object = {
    "name": "not-a-controller-of-the-cluster",
    "expression": "!('system:serviceaccounts:kube-system' in request.userInfo.groups)",
}
NOT_KUBE_SYSTEM_UNLESS_CREATING: Object = {
    "name": "not-a-controller-of-the-cluster-unless-it-creates",
    "expression": f"request.operation == 'CREATE' || {NOT_KUBE_SYSTEM['expression']}",
}
#: The volume controller finds volumes for claims that have none in mind, also those of others.
NOT_KUBE_SYSTEM_UNLESS_BINDING: Object = {
    "name": "not-a-controller-of-the-cluster-unless-it-creates-or-binds",
    "expression": (
        f"{NOT_KUBE_SYSTEM_UNLESS_CREATING['expression']} || "
        "(request.resource.resource == 'persistentvolumeclaims' && "
        "has(object.spec.volumeName) && !has(oldObject.spec.volumeName))"
    ),
}
#: Namespaces without which there is no cluster.
_VITAL = ("default", "kube-node-lease", "kube-public", "kube-system")
NOT_NODES: Object = {
    "name": "not-a-node",
    "expression": "!('system:nodes' in request.userInfo.groups)",
}
NOT_NOISE: Object = {
    "name": "not-what-is-written-all-the-time",
    "expression": (
        "!(request.resource.group in "
        "['authorization.k8s.io', 'coordination.k8s.io', 'events.k8s.io']) && "
        "!(request.resource.group == '' && request.resource.resource in ['bindings', 'events'])"
    ),
}
NOT_A_MASTER: Object = {
    "name": "not-a-master",
    "expression": "!('system:masters' in request.userInfo.groups)",
}
METADATA_CHANGES: Object = {
    "name": "metadata-changes",
    "expression": " || ".join(
        f"(has(object.metadata.{part}) ? object.metadata.{part} : {{}}) != "
        f"(has(oldObject.metadata.{part}) ? oldObject.metadata.{part} : {{}})"
        for part in ("labels", "annotations")
    ),
}


def not_vital(namespace: str) -> Object:
    """Let the masters of the cluster, and its API servers, make and mend what it rests on.

    Not by name alone: a Capsule user may patch every namespace as far as RBAC goes.
    """
    names = sorted({*_VITAL, namespace})
    return {
        "name": "not-a-master-at-a-vital-namespace",
        "expression": (
            "!('system:masters' in request.userInfo.groups && "
            f"has(request.name) && request.name in {names})"
        ),
    }


def elsewhere(namespace: str) -> Object:
    """Select namespaces that neither the cluster nor the platform lives in."""
    return {
        "matchExpressions": [
            {
                "key": constants.NAME_LABEL,
                "operator": "NotIn",
                "values": sorted({"kube-system", namespace}),
            }
        ]
    }


def of_tenants(namespace: str) -> Object:
    """Select the namespaces of tenants."""
    return {
        "matchExpressions": [
            {"key": constants.TENANT_LABEL, "operator": "Exists"},
            *elsewhere(namespace)["matchExpressions"],
        ]
    }
