"""An aggregated API server with metrics of nodes, since metrics-server is not at hand."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from http import server
from pathlib import Path
from typing import Any

import pytest

from tenantry.pki import authority

from . import harness


class Metrics:
    """An aggregated API server that serves metrics of nodes and nothing else."""

    def __init__(self, folder: Path) -> None:
        made = authority.Authority.create("metrics", time.time()).issue_server(
            ["127.0.0.1"], time.time()
        )
        (folder / "m.crt").write_bytes(made.cert)
        (folder / "m.key").write_bytes(made.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "m.crt", folder / "m.key")

        class Handler(server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                code, found = answer(self.path)
                body = json.dumps(found).encode()
                self.send_response(code)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = server.ThreadingHTTPServer(("0.0.0.0", 0), Handler)
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


PATH = "/apis/metrics.k8s.io/v1beta1"


def answer(target: str) -> tuple[int, harness.Object]:
    path, _, query = target.partition("?")
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
        version = "metrics.k8s.io/v1beta1"
        return 200, {"kind": "APIResourceList", "groupVersion": version, "resources": [resource]}
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
