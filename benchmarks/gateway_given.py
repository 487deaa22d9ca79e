"""What the owner of these benchmarks is given besides namespaces: a rule, and nodes."""

from __future__ import annotations

import json
from typing import Any

from benchmarks import gateway

from tenantry.kube import client as kube

OWNER = {"kind": "ServiceAccount", "name": "system:serviceaccount:default:owner"}
NODES, POOL = 200, "t0"
RBAC = "rbac.authorization.k8s.io"


def rule() -> dict[str, Any]:
    """Return what shows some ClusterRoles to the owner."""
    selector = {"matchLabels": {"kubernetes.io/bootstrapping": "rbac-defaults"}}
    resource = {"apiGroups": [RBAC], "resources": ["clusterroles"], "selector": selector}
    return {
        "apiVersion": "capsule.clastix.io/v1beta1",
        "kind": "GlobalProxySettings",
        "metadata": {"name": "bench"},
        "spec": {"rules": [{"subjects": [OWNER], "clusterResources": [resource]}]},
    }


def reading() -> dict[str, Any]:
    """Return what lets the gateway read them, too."""
    verbs = ["get", "list", "watch"]
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "bench-read", "labels": {"gateway.tenantry.io/aggregate": "true"}},
        "rules": [{"apiGroups": [RBAC], "resources": ["clusterroles"], "verbs": verbs}],
    }


async def prepare(world: gateway.World) -> None:
    """Give a rule, and a fifth of all nodes by way of a tenant."""
    async with kube.Client(world.plane.config()) as admin:

        async def post(path: str, body: dict[str, Any]) -> None:
            await admin.request("POST", path, body=json.dumps(body).encode())

        await post("/apis/capsule.clastix.io/v1beta1/globalproxysettings", rule())
        await post(f"/apis/{RBAC}/v1/clusterroles", reading())
        for number in range(NODES):
            labels = {"pool": POOL if number % 5 == 0 else "others"}
            await post("/api/v1/nodes", {"metadata": {"name": f"n{number}", "labels": labels}})
        settings = [{"kind": "Nodes", "operations": ["List"]}]
        spec = {"owners": [{**OWNER, "proxySettings": settings}], "nodeSelector": {"pool": POOL}}
        await admin.request(
            "PATCH", "/apis/capsule.clastix.io/v1beta2/tenants/t0",
            body=json.dumps({"spec": spec}).encode(), content_type="application/merge-patch+json",
        )  # fmt: skip
