"""A directory, a snapshot over it, and the people of these tests, without any cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tenantry.api.capsule import configuration, constants, proxy_settings, tenant
from tenantry.directory import state as directory
from tenantry.gateway import decide, identity, snapshot
from tenantry.local import testing

from . import harness

asyncio.set_event_loop(None)

USERS = "projectcapsule.dev"
SCOPES: dict[tuple[str, str, str], tuple[bool, str]] = {
    ("", "v1", "namespaces"): (False, "Namespace"),
    ("", "v1", "nodes"): (False, "Node"),
    ("", "v1", "persistentvolumes"): (False, "PersistentVolume"),
    ("", "v1", "pods"): (True, "Pod"),
    ("", "v1", "events"): (True, "Event"),
    ("", "v1", "secrets"): (True, "Secret"),
    ("apps", "v1", "deployments"): (True, "Deployment"),
    ("metrics.k8s.io", "v1beta1", "nodes"): (False, "NodeMetrics"),
    ("storage.k8s.io", "v1", "storageclasses"): (False, "StorageClass"),
    ("networking.k8s.io", "v1", "ingressclasses"): (False, "IngressClass"),
    ("scheduling.k8s.io", "v1", "priorityclasses"): (False, "PriorityClass"),
    ("node.k8s.io", "v1", "runtimeclasses"): (False, "RuntimeClass"),
    ("rbac.authorization.k8s.io", "v1", "clusterroles"): (False, "ClusterRole"),
    (constants.GROUP, "v1beta2", "tenants"): (False, "Tenant"),
    ("example.com", "v1", "widgets"): (False, "Widget"),
}


class Known:
    """A snapshot, and short ways to fill it."""

    def __init__(self, **options: Any) -> None:
        self.directory = directory.Directory((), "default")
        self.snapshot = snapshot.Snapshot(self.directory, **options)
        self.snapshot.scopes_are(dict(SCOPES))
        self.configure({"users": [{"kind": "Group", "name": USERS}]})

    def configure(self, spec: dict[str, Any]) -> None:
        found = {"metadata": {"name": "default"}, "spec": spec}
        new = msgspec.convert(found, configuration.CapsuleConfiguration)
        self.directory.configuration_changed("default", new)
        self.snapshot.changed()

    def tenant(self, name: str, *owners: dict[str, Any] | str, **spec: Any) -> None:
        listed = [
            {"kind": "User", "name": owner} if isinstance(owner, str) else owner for owner in owners
        ]
        found = {
            "metadata": {"name": name, "uid": f"uid-{name}"},
            "spec": {"owners": listed, **spec},
        }
        self.directory.tenant_changed(name, msgspec.convert(found, tenant.Tenant))
        self.snapshot.changed()

    def namespace(
        self, name: str, owner: str = "", *, label: str = "", labels: dict[str, str] | None = None
    ) -> None:
        metadata: dict[str, Any] = {"name": name, "labels": dict(labels or {})}
        metadata["labels"][constants.NAME_LABEL] = name
        if owner or label:
            metadata["labels"][constants.TENANT_LABEL] = label or owner
        if owner:
            metadata["ownerReferences"] = [reference(owner)]
        view = directory.namespace_view(msgspec.json.encode({"metadata": metadata}))
        old = self.directory.namespace(name)
        self.directory.namespace_changed(name, view)
        self.snapshot.namespace_changed(name, old, view)

    def setting(self, namespace: str, *subjects: dict[str, Any]) -> None:
        found = {
            "metadata": {"name": "s", "namespace": namespace},
            "spec": {"subjects": list(subjects)},
        }
        new = msgspec.convert(found, proxy_settings.ProxySetting)
        self.snapshot.setting_changed(namespace, "s", new)

    def rules(self, *rules: dict[str, Any], name: str = "g") -> None:
        found = {"metadata": {"name": name}, "spec": {"rules": list(rules)}}
        new = msgspec.convert(found, proxy_settings.GlobalProxySettings)
        self.snapshot.global_changed(name, new)

    def bound(self, namespace: str, *subjects: tuple[str, str]) -> None:
        view = snapshot.BindingView(namespace, "b", subjects)
        self.snapshot.binding_changed(None, view)

    def decide(self, who: identity.Identity, target: str, method: str = "GET") -> decide.Decision:
        request = decide.parse(method, target)
        if not decide.concerns(request):
            return decide.passed(request)
        return decide.decide(request, who, self.snapshot)


def reference(owner: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{constants.GROUP}/v1beta2",
        "kind": "Tenant",
        "name": owner,
        "uid": f"uid-{owner}",
    }


def person(name: str, *groups: str) -> identity.Identity:
    """Return a Capsule user."""
    return identity.Identity(name, (USERS, *groups, "system:authenticated"))


def rule(
    user: str, group: str, plural: str, selector: dict[str, Any], **more: Any
) -> dict[str, Any]:
    resource = {"apiGroups": [group], "resources": [plural], "selector": selector, **more}
    return {"subjects": [{"kind": "User", "name": user}], "clusterResources": [resource]}


@pytest.fixture(scope="session")
def world(
    planes: testing.Planes, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[harness.World]:
    """Start Tenantry with its gateway, once for all tests here."""
    yield from harness.started(planes, tmp_path_factory.mktemp("gateway"))


@pytest.fixture(scope="module")
def callers(people: dict[str, Path]) -> Iterator[dict[str, harness.Caller]]:
    """Open a connection for each of a module's people, of whom it has a fixture of its own."""
    found = {name: harness.Caller(path) for name, path in people.items()}
    yield found
    for caller in found.values():
        caller.close()


@pytest.fixture
def known() -> Known:
    """Make a world in which alice owns oil and gas, bob owns wind."""
    found = Known()
    found.tenant("oil", "alice")
    found.tenant("gas", "alice", {"kind": "Group", "name": "gas-owners"})
    found.tenant("wind", "bob")
    found.namespace("oil-1", "oil")
    found.namespace("oil-2", "oil")
    found.namespace("gas-1", "gas")
    found.namespace("wind-1", "wind")
    found.namespace("kube-system")
    return found
