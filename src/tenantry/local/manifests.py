"""The objects that every platform has before anybody uses it, and how objects come from files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from tenantry.core import yamls
from tenantry.local import errors, plan

_KWOK = "tenantry:kwok"


def own(described: plan.Plan) -> list[dict[str, Any]]:
    """Return the platform's own objects: a default storage class, kwok's permissions, identities."""
    objects: list[dict[str, Any]] = [_storage_class()]
    if plan.KWOK in described.components:
        objects += _kwok_permissions()
    for namespace in sorted({role.namespace for role in described.roles}):
        objects.append(_object("v1", "Namespace", {"name": namespace}))
    accounts = sorted({(role.namespace, role.service_account) for role in described.roles})
    objects += [
        _object("v1", "ServiceAccount", {"name": name, "namespace": namespace})
        for namespace, name in accounts
    ]
    return objects


def read(path: Path) -> list[dict[str, Any]]:
    """Read the objects in a YAML or JSON file."""
    try:
        documents = yamls.read(path.read_text())
    except OSError as err:
        raise errors.LocalError(f"cannot read manifests from {path}: {err.strerror}") from err
    except (yaml.YAMLError, UnicodeDecodeError) as err:
        raise errors.LocalError(f"cannot read manifests from {path}: {yamls.problem(err)}") from err
    return list(_items(documents, path))


def _items(documents: Sequence[Any], path: Path) -> Iterator[dict[str, Any]]:
    for document in documents:
        if document is None:
            continue
        if not isinstance(document, dict) or not document.get("kind"):
            raise errors.LocalError(f"{path} holds something that is not an object of Kubernetes")
        if document["kind"] == "List":
            yield from _items(document.get("items") or [], path)
        else:
            yield document


def _storage_class() -> dict[str, Any]:
    return {
        **_object(
            "storage.k8s.io/v1",
            "StorageClass",
            {
                "name": "standard",
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
        ),
        # Simulated nodes have no disks; claims wait for a volume that somebody makes by hand.
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def _kwok_permissions() -> list[dict[str, Any]]:
    read, change = ["get", "list", "watch"], ["patch", "update"]
    rules = [
        _rule("", ["nodes"], [*read, *change]),
        _rule("", ["pods"], [*read, *change, "delete"]),
        _rule("", ["nodes/status", "pods/status"], change),
        _rule("coordination.k8s.io", ["leases"], [*read, *change, "create"]),
        _rule("", ["events"], ["create", "patch"]),
        _rule("events.k8s.io", ["events"], ["create", "patch"]),
    ]
    rbac = "rbac.authorization.k8s.io"
    return [
        {**_object(f"{rbac}/v1", "ClusterRole", {"name": _KWOK}), "rules": rules},
        {
            **_object(f"{rbac}/v1", "ClusterRoleBinding", {"name": _KWOK}),
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": _KWOK},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": "system:kwok"}],
        },
    ]


def _rule(group: str, resources: list[str], verbs: list[str]) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _object(api_version: str, kind: str, metadata: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}
