"""RoleBindings that a tenant's namespaces carry (specs/capsule 2.4, 3.3).

Names are upstream's to the bit, so that a cluster that changes hands keeps its objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tenantry.api.capsule import constants, tenant
from tenantry.api.capsule import resources as capsule
from tenantry.core import names, selectors
from tenantry.directory import identity, owners

RBAC_GROUP = "rbac.authorization.k8s.io"

Object = dict[str, Any]


def desired(
    owner: tenant.Tenant,
    namespace: str,
    labels: Mapping[str, str],
    entries: Iterable[owners.Owner],
) -> dict[str, Object]:
    """Return the RoleBindings of one namespace by name.

    :param labels: the namespace's, which `rules[].namespaceSelector` is matched against
    :param entries: the tenant's owners; each gets one binding per cluster role
    """
    found: dict[str, Object] = {}

    def bind(
        role: str,
        subjects: list[Object],
        extra_labels: Mapping[str, str] | None,
        extra_annotations: Mapping[str, str] | None,
    ) -> None:
        binding = _binding(owner, namespace, role, subjects)
        metadata = binding["metadata"]
        metadata["labels"] = {**(extra_labels or {}), **metadata["labels"]}
        if extra_annotations:
            metadata["annotations"] = dict(extra_annotations)
        found.setdefault(metadata["name"], binding)

    for entry in entries:
        for role in entry.cluster_roles:
            bind(role, [subject_of(entry.subject)], entry.labels, entry.annotations)
    for extra in owner.spec.additional_role_bindings:
        bind(
            extra.cluster_role_name,
            [_subject_as_written(subject) for subject in extra.subjects],
            extra.labels,
            extra.annotations,
        )
    for rule in owner.spec.rules:
        selector, permissions = rule.namespace_selector, rule.permissions
        if permissions is None:
            continue
        if selector is not None and not selectors.matches(selector.plain(), labels):
            continue
        for extra in permissions.bindings:
            bind(
                extra.cluster_role_name,
                [_subject_as_written(subject) for subject in extra.subjects],
                extra.labels,
                extra.annotations,
            )
    return found


def subject_of(subject: identity.Subject) -> Object:
    """Return an RBAC subject; a service account's user name is split into name and namespace."""
    if subject.kind == "ServiceAccount":
        account = identity.split_service_account(subject.name)
        if account is not None:
            return {"kind": subject.kind, "name": account[1], "namespace": account[0]}
    return {"apiGroup": RBAC_GROUP, "kind": subject.kind, "name": subject.name}


def _subject_as_written(subject: Any) -> Object:
    written: Object = {"kind": subject.kind, "name": subject.name}
    if subject.kind == "ServiceAccount":
        written["namespace"] = subject.namespace or ""
    else:
        written["apiGroup"] = subject.api_group or RBAC_GROUP
    return written


def binding_hash(role: str, subjects: Iterable[Mapping[str, str]]) -> str:
    """Hash what a binding grants and to whom: the tail of its name and its label."""
    fields = [role]
    for subject in subjects:
        fields += [subject.get(key, "") for key in ("apiGroup", "kind", "namespace", "name")]
    return names.fields_hash(fields)


def _binding(owner: tenant.Tenant, namespace: str, role: str, subjects: list[Object]) -> Object:
    digest = binding_hash(role, subjects)
    return {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": {
            "name": f"{constants.ROLE_BINDING_PREFIX}{digest}",
            "namespace": namespace,
            "labels": {
                constants.ROLE_BINDING_LABEL: digest,
                constants.MANAGED_BY_LABEL: constants.MANAGED_BY_CONTROLLER,
                constants.MANAGED_TENANT_LABEL: owner.metadata.name,
            },
            "ownerReferences": [
                {
                    "apiVersion": constants.API_VERSION,
                    "kind": capsule.TENANTS.kind,
                    "name": owner.metadata.name,
                    "uid": owner.metadata.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role},
        "subjects": subjects,
    }


def provisioning(spec: Any, subjects: Iterable[identity.Subject]) -> tuple[list[Object], Object]:
    """Return the two ClusterRoles and the ClusterRoleBinding by which users create namespaces.

    :param spec: the CapsuleConfiguration's specification, which names the roles
    """
    created_by = {constants.CREATED_BY_LABEL: constants.CREATED_BY_RBAC}
    provisioner, deleter = spec.rbac.provisioner, spec.rbac.deleter
    roles = [
        _cluster_role(provisioner, ["create", "patch"], created_by),
        _cluster_role(deleter, ["delete"], created_by),
    ]
    binding = {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": provisioner, "labels": created_by},
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": provisioner},
        "subjects": [subject_of(subject) for subject in sorted(set(subjects))],
    }
    return roles, binding


def _cluster_role(name: str, verbs: list[str], labels: dict[str, str]) -> Object:
    return {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels},
        "rules": [{"apiGroups": [""], "resources": ["namespaces"], "verbs": verbs}],
    }
