"""RoleBindings that a tenant's namespaces carry (specs/capsule 2.4, 3.3).

Names are upstream's to the bit, so that a cluster that changes hands keeps its objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tenantry.api import meta
from tenantry.api.capsule import common, constants, tenant
from tenantry.core import names, selectors
from tenantry.directory import identity, owners
from tenantry.tenancy import managed

RBAC_GROUP = "rbac.authorization.k8s.io"

Object = dict[str, Any]


def is_ours(name: str, labels: Mapping[str, str]) -> bool:
    """Tell whether a RoleBinding was made by the platform, or by a Capsule before 0.12.

    Those were named `capsule-<tenant>-<index>-<role>` and did not say who manages them. An owner's
    own binding stays hers, whatever one of the labels says.
    """
    if constants.ROLE_BINDING_LABEL not in labels:
        return False
    if labels.get(constants.MANAGED_BY_LABEL) == constants.MANAGED_BY_CONTROLLER:
        return True
    owner = labels.get(constants.TENANT_LABEL)
    return bool(owner) and name.startswith(f"capsule-{owner}-")


def desired(
    owner: tenant.Tenant,
    namespace: str,
    labels: Mapping[str, str],
    entries: Iterable[owners.Owner],
    promoted: Iterable[tuple[identity.Subject, str]] = (),
) -> dict[str, Object]:
    """Return the RoleBindings of one namespace by name.

    :param labels: the namespace's, which `rules[].namespaceSelector` is matched against
    :param entries: the tenant's owners; each gets one binding per cluster role
    :param promoted: service accounts and the roles that rules promote them to
    """
    found: dict[str, Object] = {}

    def bind(
        role: str,
        subjects: list[Object],
        digest: str,
        extra_labels: Mapping[str, str] | None,
        extra_annotations: Mapping[str, str] | None,
    ) -> None:
        binding = _binding(owner, namespace, role, subjects, digest)
        metadata = binding["metadata"]
        metadata["labels"] = {**(extra_labels or {}), **metadata["labels"]}
        if extra_annotations:
            metadata["annotations"] = dict(extra_annotations)
        found.setdefault(metadata["name"], binding)

    for entry in entries:
        subject = subject_of(entry.subject)
        for role in entry.cluster_roles:
            digest = binding_hash(role, [subject])
            bind(role, [subject], digest, entry.labels, entry.annotations)

    def bind_extra(extra: common.RoleBinding) -> None:
        # Upstream hashes what the author wrote, before the API server fills in the group.
        role, written = (
            extra.cluster_role_name,
            [_as_written(subject) for subject in extra.subjects],
        )
        subjects = [_as_stored(subject) for subject in extra.subjects]
        bind(role, subjects, binding_hash(role, written), extra.labels, extra.annotations)

    for account, role in promoted:
        subject = subject_of(account)
        bind(role, [subject], binding_hash(role, [subject]), None, None)
    for extra in owner.spec.additional_role_bindings:
        bind_extra(extra)
    for rule in owner.spec.rules:
        selector, permissions = rule.namespace_selector, rule.permissions
        if permissions is None:
            continue
        if selector is not None and not selectors.matches(selector.plain(), labels):
            continue
        for extra in permissions.bindings:
            bind_extra(extra)
    return found


def subject_of(subject: identity.Subject) -> Object:
    """Return an RBAC subject; a service account's user name is split into name and namespace."""
    if subject.kind == "ServiceAccount":
        account = identity.split_service_account(subject.name)
        if account is not None:
            return {"kind": subject.kind, "name": account[1], "namespace": account[0]}
    return {"apiGroup": RBAC_GROUP, "kind": subject.kind, "name": subject.name}


def _as_written(subject: meta.Subject) -> dict[str, str]:
    return {
        "apiGroup": subject.api_group,
        "kind": subject.kind,
        "namespace": subject.namespace,
        "name": subject.name,
    }


def _as_stored(subject: meta.Subject) -> Object:
    """Return a subject as the API server stores it.

    A service account without a namespace is that of the namespace which the binding is in.
    """
    stored: Object = {"kind": subject.kind, "name": subject.name}
    if subject.kind != "ServiceAccount":
        stored["apiGroup"] = subject.api_group or RBAC_GROUP
    elif subject.namespace:
        stored["namespace"] = subject.namespace
    return stored


def binding_hash(role: str, subjects: Iterable[Mapping[str, str]]) -> str:
    """Hash what a binding grants and to whom: the tail of its name and its label."""
    fields = [role]
    for subject in subjects:
        fields += [subject.get(key, "") for key in ("apiGroup", "kind", "namespace", "name")]
    return names.fields_hash(tuple(fields))


def _binding(
    owner: tenant.Tenant, namespace: str, role: str, subjects: list[Object], digest: str
) -> Object:
    return {
        "apiVersion": f"{RBAC_GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": managed.metadata(
            owner,
            f"{constants.ROLE_BINDING_PREFIX}{digest}",
            namespace,
            {constants.ROLE_BINDING_LABEL: digest},
        ),
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
