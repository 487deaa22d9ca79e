"""Capsule Proxy's defects that show only in operation, each as it must not be here.

The others have their tests beside what they are about: D1 test_handler, test_plane; D2 test_identity,
test_plane; D3, D4 test_decide, test_matrix; D5, D7, D10, D11 test_decide; D6 test_plane; D8 test_reviews;
D9 test_plane, test_matrix; D13 httpproxy/test_fetch; D14 test_plane; D15 test_handler; D16 test_handler,
test_modes; D18 httpproxy/test_forwarding (drain), test_workers.
"""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest

from tenantry.api.capsule import constants

from . import harness
from .harness import USERS, Caller, World
from .test_modes import gateway

pytestmark = [pytest.mark.plane, pytest.mark.timeout(240)]

#: An APIService whose server does not exist.
BROKEN = {
    "apiVersion": "apiregistration.k8s.io/v1",
    "kind": "APIService",
    "metadata": {"name": "v1.broken.example.com"},
    "spec": {
        "group": "broken.example.com",
        "version": "v1",
        "insecureSkipTLSVerify": True,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "service": {"name": "nobody", "namespace": "default", "port": 443},
    },
}


def custom(plural: str) -> harness.Object:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.example.com",
            "labels": {"rbac.authorization.k8s.io/aggregate-to-admin": "true"},
        },
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural[:-1], "kind": plural[:-1].title()},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }


def test_discovery_bears_what_is_broken_and_sees_what_is_new(world: World, tmp_path: Path) -> None:
    """Defect D12: a broken APIService kept it from starting, a new kind needed a new start."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {
            "name": "test-gadgets",
            "labels": {"rbac.authorization.k8s.io/aggregate-to-admin": "true"},
        },
        "rules": [{"apiGroups": ["example.com"], "resources": ["gadgets"], "verbs": ["*"]}],
    }
    world.plane.run("create", "-f", "-", stdin=f"{json.dumps(BROKEN)}\n---\n{json.dumps(role)}")
    try:
        # One starts although the group does not answer, and one that runs goes on.
        with gateway(world, tmp_path, "--enable-ssl=false"):
            world.plane.run("create", "-f", "-", stdin=json.dumps(custom("gadgets")))
            alice = Caller(world.kubeconfig("alice", USERS))
            body = {
                "apiVersion": "example.com/v1",
                "kind": "Gadget",
                "metadata": {"name": "g", "namespace": "oil-1"},
            }
            there = "/apis/example.com/v1/namespaces/oil-1/gadgets"
            harness.eventually(lambda: alice.ask("POST", there, body)[0] == 201, 30)

            def shown() -> bool:
                code, found = alice.ask("GET", "/apis/example.com/v1/gadgets")
                return code == 200 and [one["metadata"]["name"] for one in found["items"]] == ["g"]

            harness.eventually(shown, 30)
            alice.close()
    finally:
        world.plane.run("delete", "apiservice", "v1.broken.example.com")
        world.plane.run("delete", "crd", "gadgets.example.com", check=False)
        world.plane.run("delete", "clusterrole", "test-gadgets")


def test_requests_are_counted(world: World) -> None:
    """Defect D17: the metrics of requests were never filled."""
    path = f"{constants.GROUP}/v1beta2/tenants/cluster"

    def counted() -> float:
        port = world.plane.plan.ports["gateway.health"]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as got:
            for line in got.read().decode().splitlines():
                if line.startswith(f'capsule_proxy_requests_total{{path="{path}",status="200"}}'):
                    return float(line.split()[-1])
        return 0.0

    before = counted()
    world.alice("get", "tenants")
    world.alice("get", "tenants")
    assert counted() == before + 2
