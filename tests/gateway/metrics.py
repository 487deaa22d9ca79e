"""An aggregated API server with metrics of nodes and pods, since metrics-server is not at hand."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from . import harness

PATH = "/apis/metrics.k8s.io/v1beta1"


#: Lets everybody who may read pods read their metrics, as metrics-server's own manifest does.
READER: harness.Object = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {
        "name": "test-metrics-reader",
        "labels": {"rbac.authorization.k8s.io/aggregate-to-admin": "true"},
    },
    "rules": [
        {"apiGroups": ["metrics.k8s.io"], "resources": ["pods", "nodes"], "verbs": ["get", "list"]}
    ],
}


def pods(namespaces: tuple[str, ...]) -> harness.Object:
    usage = {"cpu": "1", "memory": "1Gi"}
    items = [
        {
            "metadata": {"name": f"p-{namespace}", "namespace": namespace},
            "containers": [{"name": "c", "usage": usage}],
        }
        for namespace in namespaces
    ]
    version = "metrics.k8s.io/v1beta1"
    return {"kind": "PodMetricsList", "apiVersion": version, "metadata": {}, "items": items}


def answer(target: str) -> tuple[int, harness.Object]:
    path, _, query = target.partition("?")
    for namespace in ("sea-1", "sky-1"):
        if path == f"{PATH}/namespaces/{namespace}/pods":
            return 200, pods((namespace,))
    if path == f"{PATH}/pods":
        return 200, pods(("sea-1", "sky-1"))
    items: list[harness.Object] = [
        {
            "kind": "NodeMetrics",
            "apiVersion": "metrics.k8s.io/v1beta1",
            "metadata": {"name": f"m-{name}", "labels": {"for": name}},
            "usage": {"cpu": "1", "memory": "1Gi"},
        }
        for name in ("sea", "sky")
    ]
    if path == PATH:
        resource = {
            "name": "nodes", "singularName": "", "namespaced": False, "kind": "NodeMetrics",
            "verbs": ["get", "list"],
        }  # fmt: skip
        both = [resource, {**resource, "name": "pods", "namespaced": True, "kind": "PodMetrics"}]
        version = "metrics.k8s.io/v1beta1"
        return 200, {"kind": "APIResourceList", "groupVersion": version, "resources": both}
    if path == f"{PATH}/nodes":
        shown = [
            item
            for item in items
            if ("sky" not in query and "sea" not in query) or _for(item) in query
        ]
        return 200, {"kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1",
                     "metadata": {}, "items": shown}  # fmt: skip
    for item in items:
        if path == f"{PATH}/nodes/{item['metadata']['name']}":
            return 200, item
    return 404, {"kind": "Status", "code": 404}


def _for(item: Any) -> str:
    found: str = item["metadata"]["labels"]["for"]
    return found


def address() -> str:
    """Return an address of this machine that is not loopback, which endpoints may not have."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 1))
        except OSError:
            pytest.skip("this machine has no network")
        found: str = asking.getsockname()[0]
    return found


def behind(port: int) -> list[harness.Object]:
    """Return what has the API server ask our own for metrics."""
    ports = [{"name": "https", "port": port}]
    return [
        READER,
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "metrics", "namespace": "default"},
            "spec": {"ports": ports},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": "metrics",
                "namespace": "default",
                "labels": {"kubernetes.io/service-name": "metrics"},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address()], "conditions": {"ready": True}}],
            "ports": ports,
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1beta1.metrics.k8s.io"},
            "spec": {
                "group": "metrics.k8s.io",
                "version": "v1beta1",
                "insecureSkipTLSVerify": True,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "service": {"name": "metrics", "namespace": "default", "port": port},
            },
        },
    ]
