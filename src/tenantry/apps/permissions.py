"""The manifests that let the roles do their work, made from what their code declares; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.apps import certificates, evidence, gateway, pools, settings, webhook
from tenantry.runtime import permissions
from tenantry.tenancy import catalog, reservations, state
from tenantry.tenancy.controllers import (
    families,
    ledgers,
    namespaces,
    platform,
    rules,
    tenants,
    volumes,
)

Object = dict[str, Any]

RBAC = "rbac.authorization.k8s.io"

LEASES = (permissions.Need(resources.LEASES, ("get", "create", "update"), own=True),)

#: Service account -> needs.
ROLES: dict[str, tuple[permissions.Need, ...]] = {
    constants.CONTROLLER_SERVICE_ACCOUNT: (
        *state.NEEDS,
        *namespaces.NEEDS,
        *tenants.NEEDS,
        *platform.NEEDS,
        *reservations.NEEDS,
        *ledgers.NEEDS,
        *volumes.NEEDS,
        *families.NEEDS,
        *rules.NEEDS,
        *catalog.NEEDS,
        *pools.NEEDS,
        *LEASES,
    ),
    settings.WEBHOOK_SERVICE_ACCOUNT: (
        *state.NEEDS,
        *evidence.NEEDS,
        *reservations.NEEDS,
        *certificates.NEEDS,
        *webhook.NEEDS,
    ),
    settings.GATEWAY_SERVICE_ACCOUNT: gateway.NEEDS,
}


def manifests(namespace: str = constants.CONTROLLER_NAMESPACE) -> list[Object]:
    """Return namespace, service accounts, roles and bindings, in the order to create them."""
    objects: list[Object] = [_object("v1", "Namespace", namespace)]
    for account, needs in ROLES.items():
        everywhere, own = permissions.split(needs)
        name = f"tenantry:{_role_of(account)}"
        subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
        objects += [
            _object("v1", "ServiceAccount", account, namespace),
            _object(f"{RBAC}/v1", "ClusterRole", name) | {"rules": permissions.rules(everywhere)},
            _binding("ClusterRole", name, [subject]),
            _object(f"{RBAC}/v1", "Role", name, namespace) | {"rules": permissions.rules(own)},
            _binding("Role", name, [subject], namespace),
        ]
    return [
        *objects,
        *_aggregated("tenantry:aggregate", constants.CONTROLLER_SERVICE_ACCOUNT, namespace),
        *_aggregated("tenantry:gateway:aggregate", settings.GATEWAY_SERVICE_ACCOUNT, namespace),
    ]


#: Role -> label of the ClusterRoles whose rules administrators add to it.
_AGGREGATED = {
    "tenantry:aggregate": constants.AGGREGATE_LABEL,
    "tenantry:gateway:aggregate": gateway.AGGREGATE_LABEL,
}


def _role_of(account: str) -> str:
    if account == constants.CONTROLLER_SERVICE_ACCOUNT:
        return "controller"
    return account.removeprefix("tenantry-")


def _aggregated(name: str, account: str, namespace: str) -> list[Object]:
    """Return the role that collects what administrators add to a role of ours."""
    role = _object(f"{RBAC}/v1", "ClusterRole", name)
    role["aggregationRule"] = {
        "clusterRoleSelectors": [{"matchLabels": {_AGGREGATED[name]: constants.TRUE}}]
    }
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    return [role, _binding("ClusterRole", name, [subject])]


def _object(version: str, kind: str, name: str, namespace: str = "") -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


def _binding(kind: str, role: str, subjects: Sequence[Object], namespace: str = "") -> Object:
    bound = "ClusterRoleBinding" if kind == "ClusterRole" and not namespace else "RoleBinding"
    return _object(f"{RBAC}/v1", bound, role, namespace) | {
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
        "subjects": list(subjects),
    }
