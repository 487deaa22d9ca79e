"""Whether a Tenant, TenantOwner or CapsuleConfiguration makes sense (specs/capsule 5.7).

Only what the schema cannot say. Problems are collected, so that one attempt shows all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tenantry.api import meta
from tenantry.api.capsule import configuration, constants, rule_status, tenant, tenant_owner
from tenantry.core import errors, names, regex, selectors
from tenantry.directory import identity
from tenantry.tenancy import bindings, enforcement, expressions, metadata, naming
from tenantry.tenancy.policy import validating

MOST_PROBLEMS = 10

_DURATION = re.compile(r"0|([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+")

#: How annotations begin that limit the number of a tenant's custom resources.
COUNTS = f"{constants.RESOURCE_QUOTA_ANNOTATION}/"


def message(kind: str, name: str, problems: list[str]) -> str:
    """Join problems as the API server words invalid objects."""
    shown = problems[:MOST_PROBLEMS]
    if len(problems) > MOST_PROBLEMS:
        shown.append(f"and {len(problems) - MOST_PROBLEMS} more")
    body = shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"
    return f'{kind} "{name}" is invalid: {body}'


def tenant_problems(found: tenant.Tenant) -> list[str]:
    """Return what is wrong with a Tenant."""
    spec = found.spec
    problems: list[str] = []
    if not names.is_dns_label(found.metadata.name):
        problems.append(
            f"metadata.name: Invalid value: {errors.shown(found.metadata.name)}: "
            "must be at most 63 lower case letters, digits or '-', since it becomes the value "
            "of a label and the prefix of names"
        )
    for index, owner in enumerate(spec.owners):
        problems += _subject(owner.kind, owner.name, f"spec.owners[{index}]")
        for role, field in _roles(owner.cluster_roles, f"spec.owners[{index}].clusterRoles"):
            problems += _role(role, field)
        problems += _metadata(owner.labels, owner.annotations, f"spec.owners[{index}]")
    for index, binding in enumerate(spec.additional_role_bindings):
        problems += _binding(binding, f"spec.additionalRoleBindings[{index}]")
    for number, rule in enumerate(spec.rules):
        field = f"spec.rules[{number}]"
        problems += _selector(rule.namespace_selector, f"{field}.namespaceSelector")
        bindings = rule.permissions.bindings if rule.permissions else None
        for index, binding in enumerate(bindings or ()):
            problems += _binding(binding, f"{field}.permissions.bindings[{index}]")
    problems += validating.problems(spec.rules, "spec.rules")
    for index, selector in enumerate(spec.permissions.match_owners):
        problems += _selector(selector, f"spec.permissions.matchOwners[{index}]")
    for key, value in sorted((spec.node_selector or {}).items()):
        problems += _label(key, value, "spec.nodeSelector")
    problems += _namespace_options(spec.namespace_options, found.metadata.name)
    problems += naming.problems(found)
    for field, value in expressions.of(spec):
        problems += expressions.problems(value, field)
    for field, options in (("pod", spec.pod_options), ("service", spec.service_options)):
        extra = options.additional_metadata if options is not None else None
        if extra is not None:
            where = f"spec.{field}Options.additionalMetadata"
            problems += _metadata(extra.labels, extra.annotations, where)
    return problems


def rule_status_problems(found: rule_status.RuleStatus) -> list[str]:
    """Return what is wrong with a RuleStatus."""
    return validating.problems(found.spec, "spec")


def tenant_warnings(found: tenant.Tenant) -> list[str]:
    """Return what works but is probably not meant, or will go away."""
    warnings = []
    seen: dict[identity.Subject, int] = {}
    for index, owner in enumerate(found.spec.owners):
        subject = identity.Subject(owner.kind, owner.name)
        if subject in seen:
            warnings.append(
                f"spec.owners[{index}]: Duplicate value: {owner.kind} "
                f"{errors.shown(owner.name)} is also spec.owners[{seen[subject]}]; "
                "their cluster roles are merged"
            )
        seen.setdefault(subject, index)
    return warnings + [_deprecated(field, successor) for field, successor in _old_fields(found)]


#: Field -> what takes its place.
_SUCCESSORS = {
    "containerRegistries": "rules[].enforce.workloads.registries",
    "imagePullPolicies": "rules[].enforce.workloads.registries[].policy",
    "limitRanges": "",
    "networkPolicies": "",
    "podOptions": "rules[].enforce.metadata",
    "resourceQuotas": "rules[].quota",
    "serviceOptions": "rules[].enforce.services",
    "namespaceOptions.additionalMetadata": "rules[].enforce.metadata",
    "namespaceOptions.additionalMetadataList": "rules[].enforce.metadata",
    "namespaceOptions.forbiddenAnnotations": "rules[].enforce.metadata",
    "namespaceOptions.forbiddenLabels": "rules[].enforce.metadata",
    "namespaceOptions.requiredMetadata": "rules[].enforce.metadata",
}


def _old_fields(found: tenant.Tenant) -> Iterator[tuple[str, str]]:
    """Yield the deprecated fields in use, each with what takes its place ("" for a TenantResource)."""
    spec = msgspec.to_builtins(found.spec)
    for field, successor in _SUCCESSORS.items():
        value: Any = spec
        for part in field.split("."):
            value = (value or {}).get(part)
        if value:
            yield f"spec.{field}", successor
    for field, _ in expressions.of(found.spec):
        parts = field.removeprefix("spec.").split(".")
        if parts[-1] == "allowedRegex" and parts[-2].lower().endswith("classes"):
            yield field, f"{'.'.join(parts[:-1])}.matchLabels"
    if any(key.startswith(COUNTS) for key in found.metadata.annotations):
        yield f"metadata.annotations[{COUNTS}...]", "rules[].quota"


def _deprecated(field: str, successor: str) -> str:
    if not successor:
        return f"{field} is deprecated; replicate such objects with a TenantResource instead"
    if enforcement.has_effect(successor):
        return f"{field} is deprecated; use spec.{successor}"
    # Nobody shall give up what works for what does nothing yet.
    return (
        f"{field} is deprecated in favour of spec.{successor}, which has no effect in this "
        "release yet"
    )


def tenant_owner_problems(found: tenant_owner.TenantOwner) -> list[str]:
    """Return what is wrong with a TenantOwner."""
    problems = _subject(found.spec.kind, found.spec.name, "spec")
    for role, field in _roles(found.spec.cluster_roles, "spec.clusterRoles"):
        problems += _role(role, field)
    return problems


def configuration_problems(found: configuration.CapsuleConfiguration) -> list[str]:
    """Return what is wrong with a CapsuleConfiguration."""
    spec = found.spec
    problems: list[str] = []
    for field, subjects in (("users", spec.users), ("administrators", spec.administrators)):
        for index, subject in enumerate(subjects or ()):
            problems += _subject(subject.kind, subject.name, f"spec.{field}[{index}]")
    for field, roles in (
        ("administrationClusterRoles", spec.rbac.administration_cluster_roles),
        ("promotionClusterRoles", spec.rbac.promotion_cluster_roles),
    ):
        for role, where in _roles(roles, f"spec.rbac.{field}"):
            problems += _role(role, where)
    problems += _role(spec.rbac.provisioner, "spec.rbac.provisioner")
    problems += _role(spec.rbac.deleter, "spec.rbac.deleter")
    if spec.rbac.provisioner == spec.rbac.deleter:
        problems.append(
            f"spec.rbac.deleter: Invalid value: {errors.shown(spec.rbac.deleter)}: must differ "
            "from spec.rbac.provisioner, since both are written"
        )
    account = spec.impersonation.global_default_service_account
    namespace = spec.impersonation.global_default_service_account_namespace
    if bool(account) != bool(namespace):
        problems.append(
            "spec.impersonation: globalDefaultServiceAccount and "
            "globalDefaultServiceAccountNamespace must both be set or both be absent"
        )
    if not names.is_dns_label(spec.events.namespace):
        problems.append(
            f"spec.events.namespace: Invalid value: {errors.shown(spec.events.namespace)}: must be "
            "the name of a namespace"
        )
    if not _DURATION.fullmatch(spec.cache_invalidation):
        problems.append(
            f"spec.cacheInvalidation: Invalid value: {errors.shown(spec.cache_invalidation)}: must "
            "be a duration such as 30m"
        )
    return problems + unreadable(spec)


def unreadable(spec: configuration.CapsuleConfigurationSpec) -> list[str]:
    """Return what is wrong with the regular expressions of a CapsuleConfiguration."""
    problems = []
    patterns = [("spec.protectedNamespaceRegex", spec.protected_namespace_regex)]
    if spec.node_metadata is not None:
        for field, rule in (
            ("forbiddenLabels", spec.node_metadata.forbidden_labels),
            ("forbiddenAnnotations", spec.node_metadata.forbidden_annotations),
        ):
            if rule is not None:
                patterns.append((f"spec.nodeMetadata.{field}.regex", rule.denied_regex))
    for field, expression in patterns:
        try:
            regex.compile(expression or "", field)
        except errors.InvalidValueError as problem:
            problems.append(
                f"{field} {errors.shown(expression)} is not a valid regular expression: "
                f"{problem.accepted}"
            )
    return problems


def configuration_warnings(found: configuration.CapsuleConfiguration) -> list[str]:
    """Return the deprecated fields in use."""
    return [
        f"spec.{field} is deprecated; use spec.users"
        for field, value in (
            ("userNames", found.spec.user_names),
            ("userGroups", found.spec.user_groups),
        )
        if value
    ]


def _subject(kind: str, name: str, field: str) -> list[str]:
    if kind == "ServiceAccount" and identity.split_service_account(name) is None:
        return [
            f"{field}.name: Invalid value: {errors.shown(name)}: a ServiceAccount must be named "
            f"{identity.SERVICE_ACCOUNT_PREFIX}<namespace>:<name>"
        ]
    if not name:
        return [f'{field}.name: Invalid value: "": must not be empty']
    return []


def _roles(roles: list[str] | None, field: str) -> Iterator[tuple[str, str]]:
    for index, role in enumerate(roles or ()):
        yield role, f"{field}[{index}]"


def _role(role: str, field: str) -> list[str]:
    # RBAC names are path segments: anything but "/", "%", "." and ".." may stand in them.
    if role and role not in {".", ".."} and "/" not in role and "%" not in role:
        return []
    return [f"{field}: Invalid value: {errors.shown(role)}: must be the name of a ClusterRole"]


def _binding(binding: Any, field: str) -> list[str]:
    problems = _role(binding.cluster_role_name, f"{field}.clusterRoleName")
    for index, subject in enumerate(binding.subjects):
        problems += _rbac_subject(subject, f"{field}.subjects[{index}]")
    return problems + _metadata(binding.labels, binding.annotations, field)


def _rbac_subject(subject: meta.Subject, field: str) -> list[str]:
    """Refuse what the API server would refuse in each RoleBinding.

    A service account may go without a namespace: it is then that of the binding's own.
    """
    problems = []
    kinds = ("User", "Group", "ServiceAccount")
    if subject.kind not in kinds:
        problems.append(
            f"{field}.kind: Unsupported value: {errors.shown(subject.kind)}: "
            f"must be one of {', '.join(kinds)}"
        )
    elif subject.kind != "ServiceAccount":
        if subject.api_group not in {"", bindings.RBAC_GROUP}:
            problems.append(
                f"{field}.apiGroup: Unsupported value: {errors.shown(subject.api_group)}: "
                f"must be {bindings.RBAC_GROUP}"
            )
        if not subject.name:
            problems.append(f'{field}.name: Invalid value: "": must not be empty')
    elif not names.is_dns_subdomain(subject.name):
        problems.append(
            f"{field}.name: Invalid value: {errors.shown(subject.name)}: "
            "must be the account's name alone; its namespace has a field of its own"
        )
    return problems


def _metadata(
    labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None, field: str
) -> list[str]:
    problems = []
    for key, value in sorted((labels or {}).items()):
        problems += _label(key, value, f"{field}.labels")
    for key in sorted(annotations or {}):
        problems += _annotation_key(key, f"{field}.annotations")
    return problems


def _key(key: str, field: str) -> list[str]:
    if names.is_qualified_name(key):
        return []
    return [f"{field}: Invalid value: {errors.shown(key)}: must be a key such as example.com/name"]


def _annotation_key(key: str, field: str) -> list[str]:
    # The API server lets the prefix of an annotation's key have capitals.
    return _key(key, field) if _key(key.lower(), field) else []


def _label(key: str, value: str, field: str) -> list[str]:
    problems = _key(key, field)
    if not names.is_label_value(value):
        problems.append(
            f"{field}[{key}]: Invalid value: {errors.shown(value)}: must be at most 63 letters, "
            "digits, '-', '_' or '.'"
        )
    return problems


def _selector(selector: meta.LabelSelector | None, field: str) -> list[str]:
    if selector is None:
        return []
    try:
        selectors.matcher(selector.plain(), field)
    except errors.InvalidValueError as problem:
        return [str(problem)]
    return []


def _namespace_options(options: tenant.NamespaceOptions | None, owner: str) -> list[str]:
    if options is None:
        return []
    field = "spec.namespaceOptions"
    problems: list[str] = []
    extras: list[tuple[str, Any]] = []
    if options.additional_metadata is not None:
        extras.append((f"{field}.additionalMetadata", options.additional_metadata))
    for index, entry in enumerate(options.additional_metadata_list):
        extras.append((f"{field}.additionalMetadataList[{index}]", entry))
        problems += _selector(
            entry.namespace_selector, f"{field}.additionalMetadataList[{index}].namespaceSelector"
        )
    for where, extra in extras:
        for key, value in sorted((extra.labels or {}).items()):
            if extra is not options.additional_metadata:
                # The namespace's part is not known yet: any name must do.
                value = metadata.rendered(value, owner, "x")
            problems += _label(key, value, f"{where}.labels")
            if key in {constants.TENANT_LABEL, constants.NAME_LABEL}:
                problems.append(f"{where}.labels[{key}]: Forbidden: this label ties a namespace "
                                "to its tenant and is written by the platform")  # fmt: skip
        for key, value in sorted((extra.annotations or {}).items()):
            problems += _annotation_key(key, f"{where}.annotations")
            if extra is not options.additional_metadata and "{{" in metadata.rendered(
                value, owner, "x"
            ):
                problems.append(f"{where}.annotations[{key}]: Invalid value: {errors.shown(value)}: "
                                "only {{tenant.name}} and {{namespace}} are filled in")  # fmt: skip
            if key == constants.NODE_SELECTOR_ANNOTATION:
                problems.append(f"{where}.annotations[{key}]: Forbidden: use spec.nodeSelector")
    required = options.required_metadata
    if required is not None:
        for key in sorted(required.labels):
            problems += _key(key, f"{field}.requiredMetadata.labels")
        for key in sorted(required.annotations):
            problems += _annotation_key(key, f"{field}.requiredMetadata.annotations")
    return problems
