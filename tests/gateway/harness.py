"""Tenantry with its gateway on a real control plane, and people with kubeconfigs of their own."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tenantry.cli import local
from tenantry.kube import config
from tenantry.local import kubeconfig, testing

USERS = "projectcapsule.dev"
ACCOUNT = "system:serviceaccount:oil-1:robot"
Object = dict[str, Any]


def tenant(name: str, *owners: Object, **spec: Any) -> Object:
    return {
        "apiVersion": "capsule.clastix.io/v1beta2",
        "kind": "Tenant",
        "metadata": {"name": name},
        "spec": {"owners": list(owners), **spec},
    }


def user(name: str, *words: str, kind: str = "User") -> Object:
    settings = [{"kind": word, "operations": ["List"]} for word in words]
    return {"kind": kind, "name": name, "proxySettings": settings}


def node(name: str, pool: str) -> Object:
    labels = {"kubernetes.io/hostname": name, "pool": pool}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def storage_class(name: str) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "example.com/none",
    }


OBJECTS = [
    tenant(
        "oil",
        user("alice", "Nodes", "StorageClasses"),
        user(ACCOUNT, kind="ServiceAccount"),
        nodeSelector={"pool": "oil"},
        storageClasses={"allowed": ["oil-fast"], "allowedRegex": "^shared-"},
    ),
    tenant("gas", user("alice")),
    tenant("wind", user("wind-owners", kind="Group")),
    node("n-oil", "oil"),
    node("n-wind", "wind"),
    storage_class("oil-fast"),
    storage_class("shared-1"),
    storage_class("wind-fast"),
]


@dataclasses.dataclass
class World:
    """The plane, the gateway's address and who may speak to it."""

    plane: testing.Plane
    server: str
    folder: Path

    def kubeconfig(self, name: str, *groups: str) -> Path:
        """Return a kubeconfig with a certificate that points at the gateway."""
        path = self.folder / f"{name}-{'-'.join(groups)}.yaml"
        if not path.exists():
            path.write_bytes(self.plane.platform.kubeconfig(name, groups, server=self.server))
        return path

    def with_token(self, token: str, name: str = "token") -> Path:
        """Return a kubeconfig with a bearer token that points at the gateway."""
        file = self.folder / f"{name}.token"
        file.write_text(token)
        path = self.folder / f"{name}.yaml"
        ca = (self.plane.platform.paths.pki / "ca.crt").read_bytes()
        path.write_bytes(
            kubeconfig.with_token_file(
                platform="test", server=self.server, ca=ca, user=name, token=file
            )
        )
        return path

    def config(self, name: str, *groups: str) -> config.Config:
        return config.load(self.kubeconfig(name, *groups))

    def alice(self, *args: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return self.run(self.kubeconfig("alice", USERS), *args, **more)

    def run(
        self, path: Path, *args: str, stdin: str = "", check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl at the gateway."""
        done = subprocess.run(
            [str(self.plane.kubectl), f"--kubeconfig={path}", "--cache-dir", str(self.folder / "c"),
             *args],
            input=stdin, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        if check and done.returncode:
            raise AssertionError(f"kubectl {' '.join(args)}:\n{done.stdout}{done.stderr}")
        return done

    def names(self, path: Path, *args: str) -> list[str]:
        """List with kubectl; return the names."""
        out = self.run(path, "get", *args, "-o", "name").stdout
        return [line.partition("/")[2] for line in out.splitlines()]


def eventually(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    """Return what the condition gives once that is true."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found or time.monotonic() > deadline:
            assert found, f"not within {seconds} s"
            return found
        time.sleep(0.1)


def started(planes: testing.Planes, folder: Path) -> Iterator[World]:
    """Start everything, and the world that the tests read."""
    manifests, roles = local.tenantry_roles()
    plane = planes.start(manifests=manifests, roles=roles)
    server = local.gateway_server(plane.platform)
    world = World(plane, server, folder)
    text = "\n---\n".join(map(json.dumps, OBJECTS))
    plane.run("apply", "--server-side", "-f", "-", stdin=text)
    for name, owner in (("oil-1", "oil"), ("oil-2", "oil"), ("gas-1", "gas")):
        body = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {"capsule.clastix.io/tenant": owner}},
        }
        world.alice("create", "-f", "-", stdin=json.dumps(body))
    bob = world.kubeconfig("bob", USERS, "wind-owners")
    world.run(bob, "create", "namespace", "wind-1")
    for name in ("oil-1", "oil-2", "gas-1"):
        plane.run("wait", "--for=create", "-n", name, "rolebinding", "--all", check=False)
        eventually(
            lambda name=name: (
                world.alice(  # type: ignore[misc]
                    "create", "configmap", f"{name}-notes", "-n", name, check=False
                ).returncode
                == 0
            )
        )
    eventually(
        lambda: (
            world.run(
                bob, "create", "configmap", "wind-notes", "-n", "wind-1", check=False
            ).returncode
            == 0
        )
    )
    plane.run("create", "serviceaccount", "robot", "-n", "oil-1")
    yield world
