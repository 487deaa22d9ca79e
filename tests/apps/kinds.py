"""Kinds that a cluster may have beside Kubernetes' own: gateways, and the routes to them."""

from __future__ import annotations

import json
from typing import Any

from tenantry.api import resources

GROUP = "gateway.networking.k8s.io"
GATEWAYS = resources.Resource(GROUP, "v1", "gateways", "Gateway")
ROUTES = resources.Resource(GROUP, "v1", "httproutes", "HTTPRoute")
OTHERS = (
    resources.Resource(GROUP, "v1", "listenersets", "ListenerSet"),
    resources.Resource(GROUP, "v1", "tlsroutes", "TLSRoute"),
    resources.Resource(GROUP, "v1", "grpcroutes", "GRPCRoute"),
    resources.Resource("route.openshift.io", "v1", "routes", "Route"),
)


def manifests() -> str:
    """Return their definitions, which say nothing of fields."""
    kinds = [
        _definition(resources.GATEWAY_CLASSES, "Cluster"),
        *(_definition(one, "Namespaced") for one in (GATEWAYS, ROUTES, *OTHERS)),
    ]
    return "\n---\n".join(json.dumps(kind) for kind in kinds)


def _definition(one: resources.Resource, scope: str) -> dict[str, Any]:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{one.plural}.{one.group}",
            "annotations": {"api-approved.kubernetes.io": "https://example.com/test"},
        },
        "spec": {
            "group": one.group,
            "scope": scope,
            "names": {"plural": one.plural, "singular": one.kind.lower(), "kind": one.kind},
            "versions": [
                {"name": "v1", "served": True, "storage": True,
                 "schema": {"openAPIV3Schema": anything}}
            ],
        },
    }  # fmt: skip
