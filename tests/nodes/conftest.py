"""Pools on a platform with a real scheduler and simulated nodes, which these tests share.

Every test takes nodes and names of its own.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tenantry.cli import local
from tenantry.local import nodes, plan, testing

Object = dict[str, Any]

#: How many nodes there are; one stays everybody's.
COUNT = 64
_GROUP = "projectcapsule.dev"
_COUNTER = itertools.count(1)


class Stage:
    """The platform, and a share of its nodes for one test."""

    def __init__(self, plane: testing.Plane, prefix: str, mine: list[str]) -> None:
        self.plane = plane
        self.prefix = prefix
        self.nodes = mine

    def name(self, rest: str) -> str:
        return f"{self.prefix}-{rest}"

    def kubectl(self, *args: str, stdin: Any = None, user: str = "", check: bool = True) -> str:
        text = stdin if stdin is None or isinstance(stdin, str) else json.dumps(stdin)
        groups = [_GROUP] if user else []
        done = self.plane.run(*args, user=user, groups=groups, stdin=text, check=check)
        return done.stdout

    def refused(self, *args: str, stdin: Any = None, user: str = "") -> str:
        """Return the error of what must fail."""
        text = None if stdin is None else json.dumps(stdin)
        groups = [_GROUP] if user else []
        done = self.plane.run(*args, user=user, groups=groups, stdin=text, check=False)
        assert done.returncode != 0, done.stdout
        return done.stderr

    def get(self, *args: str) -> Object:
        found: Object = json.loads(self.kubectl("get", *args, "-o", "json"))
        return found

    def node(self, name: str) -> Object:
        return self.get("node", name)

    def taints(self, name: str) -> list[str]:
        return [
            f"{one['key']}={one.get('value', '')}:{one['effect']}"
            for one in self.node(name)["spec"].get("taints") or ()
        ]

    def pool(self, rest: str = "pool", *, tenant: str = "team", **spec: Any) -> str:
        """Create or change a pool; by default of two nodes of this test."""
        name = self.name(rest)
        if "nodes" not in spec and "selector" not in spec:
            spec["nodes"] = self.nodes[:2]
        body = {
            "apiVersion": "tenantry.io/v1alpha1",
            "kind": "TenantNodePool",
            "metadata": {"name": name},
            "spec": {"tenant": self.name(tenant), **spec},
        }
        self.kubectl("apply", "-f", "-", stdin=body)
        return name

    def status(self, name: str) -> Object:
        found: Object = self.get("tnp", name).get("status") or {}
        return found

    def entries(self, name: str) -> dict[str, Object]:
        return {one["name"]: one for one in self.status(name).get("nodes") or ()}

    def states(self, name: str) -> set[str]:
        return {one["state"] for one in self.entries(name).values()}

    def condition(self, name: str, kind: str) -> Object:
        found = {one["type"]: one for one in self.status(name).get("conditions") or ()}
        one: Object = found[kind]
        return one

    def tenant(self, rest: str = "team", **spec: Any) -> str:
        """Create a tenant with a namespace of the same name; its owner is called like it."""
        name = self.name(rest)
        body = {
            "apiVersion": "capsule.clastix.io/v1beta2",
            "kind": "Tenant",
            "metadata": {"name": name},
            "spec": {"owners": [{"kind": "User", "name": name}], **spec},
        }
        self.kubectl("apply", "-f", "-", stdin=body)
        self.namespace(name, tenant=name)
        return name

    def namespace(self, name: str, *, tenant: str = "") -> str:
        labels = {"capsule.clastix.io/tenant": tenant} if tenant else {}
        if tenant:
            self.eventually(
                lambda: not self.plane.run(
                    "auth", "can-i", "create", "namespaces", f"--as={tenant}",
                    f"--as-group={_GROUP}", check=False,
                ).returncode,
                "Capsule users may create namespaces",
            )  # fmt: skip
        body = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": labels},
        }
        self.kubectl("create", "-f", "-", stdin=body, user=tenant)
        self.eventually(
            lambda: self.kubectl("get", "sa", "default", "-n", name, check=False) != "",
            "its service account",
        )
        if tenant:
            ask = ("auth", "can-i", "create", "pods", "-n", name, f"--as={tenant}")
            self.eventually(
                lambda: not self.plane.run(*ask, check=False).returncode, "the owner's roles"
            )
        return name

    def eventually(self, condition: Callable[[], Any], what: str, *, seconds: float = 30.0) -> Any:
        deadline = time.monotonic() + seconds
        seen: object = None
        while time.monotonic() < deadline:
            try:
                seen = condition()
                if seen:
                    return seen
            except (KeyError, AssertionError) as problem:
                seen = problem
            time.sleep(0.1)
        raise AssertionError(f"not within {seconds} s: {what}; last: {seen!r}")


def pod(name: str, namespace: str, **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "main", "image": "registry.invalid/none"}], **spec},
    }


@pytest.fixture(scope="session")
def nodes_plane(planes: testing.Planes) -> testing.Plane:
    manifests, roles = local.tenantry_roles()
    return planes.start(
        components=plan.OPTIONAL,
        nodes=nodes.generated(COUNT, 1),
        manifests=manifests,
        roles=[role for role in roles if role.name != local.GATEWAY],
    )


_FREE: list[str] = [f"node-{number}" for number in range(2, COUNT + 1)]


@pytest.fixture
def stage(nodes_plane: testing.Plane) -> Iterator[Stage]:
    mine = [_FREE.pop(0) for _ in range(3)]
    made = Stage(nodes_plane, f"p{next(_COUNTER)}", mine)
    yield made
    pools = made.get("tnp")["items"]
    for one in pools:
        if one["metadata"]["name"].startswith(f"{made.prefix}-"):
            made.kubectl("delete", "tnp", one["metadata"]["name"], "--wait=false")
