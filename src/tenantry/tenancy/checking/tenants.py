"""What becomes of each Tenant's own words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping

from tenantry.api.capsule import common, configuration, constants, tenant
from tenantry.tenancy import enforcement, validation
from tenantry.tenancy.checking import findings, views
from tenantry.tenancy.controllers import namespaces
from tenantry.tenancy.policy import classes

KIND = "Tenant"
_FIELD = re.compile(r"(?:unable to compile .*?: )?((?:spec|metadata)\.[^\s:]*)")

_NO_EFFECT = "has no effect: what it limits or grants is no longer kept"
_REMEDIES = {
    "owners[].proxySettings": "say it in a GlobalProxySettings, which the gateway obeys",
    "resourceQuotas": "the ResourceQuotas of today stay as they are, and nobody adjusts them: give "
    "each namespace limits of its own first, or wait with the switch",
    "rules[].quota": "give each namespace limits of its own first, or wait with the switch",
}
#: Classes of which Capsule lets every one pass when the list has no selector.
_OPEN = (classes.RUNTIME, classes.DEVICE)


def examine(known: views.Tenancy) -> Iterator[findings.Finding]:
    """Look at each tenant."""
    roles = {one.name: one for one in known.roles or ()}
    for one in known.tenants or ():
        if one.tenant is None:
            yield findings.Finding(
                severity="blocks",
                kind=KIND,
                name=one.name,
                now=f"cannot be read: {one.broken}",
                then="nobody follows it: its users are held to nothing new",
                remedy="put it right, or delete it",
            )
            continue
        yield from _unenforced(one)
        yield from _refused(one.tenant)
        yield from _told(one.tenant)
        yield from _classes(one.tenant)
        if known.spaces is not None:
            yield from _numbers(one.tenant, len(known.members(one.tenant)))
        if known.roles is not None:
            yield from _roles(one.tenant, roles, almighty=known.almighty)


def of_owners(known: views.Tenancy) -> Iterator[findings.Finding]:
    """Look at each TenantOwner."""
    roles = {one.name: one for one in known.roles or ()}
    for one in known.tenant_owners or ():
        name = one.metadata.name
        for problem in validation.tenant_owner_problems(one):
            yield findings.Finding(
                severity="blocks",
                kind="TenantOwner",
                name=name,
                field=problem.partition(": ")[0],
                now=problem.partition(": ")[2],
                then="is refused when it is next changed, and owns nothing by that name",
                remedy=f"kubectl edit tenantowner {name}",
            )
        for role in one.spec.cluster_roles if known.roles is not None else ():
            yield from role_findings(
                "TenantOwner", name, "spec.clusterRoles", role, roles=roles, almighty=known.almighty
            )


def _unenforced(one: views.Tenant) -> Iterator[findings.Finding]:
    # Of what is known to lack, the field as a whole; of the rest, each path.
    paths = {
        next((root for root in _REMEDIES if path.startswith(root)), path)
        for path in enforcement.unenforced(one.spec)
    }
    for path in sorted(paths):
        yield findings.Finding(
            severity="blocks",
            kind=KIND,
            name=one.name,
            field=f"spec.{path}",
            now="is set",
            then=_NO_EFFECT,
            remedy=_REMEDIES.get(path, "remove it, or wait with the switch until it is enforced"),
        )
    found = one.tenant
    counted = [key for key in found.metadata.annotations if key.startswith(validation.COUNTS)] if found else []  # fmt: skip
    if counted:
        yield findings.Finding(
            severity="blocks",
            kind=KIND,
            name=one.name,
            field="metadata.annotations",
            now=f"limits the number of custom resources: {findings.listed(counted)}",
            then="nobody counts them",
            remedy="limit them by ResourceQuotas (count/<plural>.<group>) in each namespace",
        )


def _refused(found: tenant.Tenant) -> Iterator[findings.Finding]:
    for problem in findings.some(validation.tenant_problems(found)):
        match = _FIELD.match(problem)
        field = match[1] if match else ""
        yield findings.Finding(
            severity="blocks",
            kind=KIND,
            name=found.metadata.name,
            field=field,
            now=problem.removeprefix(f"{field}: "),
            then="is refused: the Tenant cannot be changed any more, and what cannot be understood "
            "admits nothing",
            remedy=f"kubectl edit tenant {found.metadata.name}",
        )


def _told(found: tenant.Tenant) -> Iterator[findings.Finding]:
    name, old = found.metadata.name, []
    for warning in validation.tenant_warnings(found):
        field, _, rest = warning.partition(": ")
        if "Duplicate value" in rest:
            yield findings.Finding(
                severity="note",
                kind=KIND,
                name=name,
                field=field,
                now=rest,
                then="is one owner with the roles of both",
            )
        else:
            old.append(warning.partition(" ")[0])
    if old:
        yield findings.Finding(
            severity="note",
            kind=KIND,
            name=name,
            field="spec",
            now=f"uses deprecated fields: {findings.listed(old)}",
            then="those with an effect mean the same as rules, which they are compiled into",
        )
    if found.metadata.deletion_timestamp and constants.STRIP_ANNOTATION not in (
        found.metadata.annotations
    ):
        yield findings.Finding(
            severity="changes",
            kind=KIND,
            name=name,
            now="is being deleted; Capsule takes the finalizers off whatever is left",
            then="waits until whoever set finalizers is done",
            remedy=f"kubectl annotate tenant {name} {constants.STRIP_ANNOTATION}=true",
        )


def _classes(found: tenant.Tenant) -> Iterator[findings.Finding]:
    for kind, entry in classes.fields(found.spec).items():
        if entry is None:
            continue
        field = f"spec.{_PATHS[kind]}"
        selects = bool(entry.match_labels or entry.match_expressions)
        if kind in _OPEN and not selects and (entry.allowed or entry.allowed_regex):
            yield findings.Finding(
                severity="changes",
                kind=KIND,
                name=found.metadata.name,
                field=field,
                now="Capsule admits every class, since the list has no selector",
                then=f"only what is listed is admitted: {_allowed(entry)}",
                remedy="list whatever else is in use",
            )
        mixed = [name for name in entry.allowed if name != name.lower()]
        if mixed and len(entry.allowed) > 1:
            yield findings.Finding(
                severity="note",
                kind=KIND,
                name=found.metadata.name,
                field=f"{field}.allowed",
                now=f"Capsule may overlook names next to one with capitals: {findings.listed(mixed)}",
                then="every listed name is admitted",
            )


_PATHS = {
    classes.STORAGE: "storageClasses",
    classes.PRIORITY: "priorityClasses",
    classes.RUNTIME: "runtimeClasses",
    classes.DEVICE: "deviceClasses",
    classes.GATEWAY: "gatewayOptions.allowedClasses",
    classes.INGRESS: "ingressOptions.allowedClasses",
}


def _allowed(entry: common.SelectorAllowedList) -> str:
    words = [findings.listed(entry.allowed)] if entry.allowed else []
    if entry.allowed_regex:
        words.append(f"what matches {findings.quoted(entry.allowed_regex)}")
    if isinstance(entry, common.DefaultAllowedList) and entry.default:
        words.append(f"the default {entry.default}")
    return ", ".join(words)


def _numbers(found: tenant.Tenant, has: int) -> Iterator[findings.Finding]:
    options = found.spec.namespace_options
    most = options.quota if options is not None else None
    if most is not None and has > most:
        yield findings.Finding(
            severity="note",
            kind=KIND,
            name=found.metadata.name,
            field="spec.namespaceOptions.quota",
            now=f"has {has} namespaces, of at most {most}",
            then=f"keeps them, and gets no more until it has fewer than {most}",
        )


def _roles(
    found: tenant.Tenant, roles: Mapping[str, views.Role], *, almighty: bool
) -> Iterator[findings.Finding]:
    for field, role in sorted(set(_handed_out(found))):
        yield from role_findings(
            KIND, found.metadata.name, field, role, roles=roles, almighty=almighty
        )


def role_findings(
    kind: str,
    name: str,
    field: str,
    role: str,
    *,
    roles: Mapping[str, views.Role],
    almighty: bool,
) -> Iterator[findings.Finding]:
    """Say of a ClusterRole whether the controller may hand it out."""
    if role in namespaces.HANDED_OUT:
        return
    known = roles.get(role)
    if known is None:
        yield findings.Finding(
            severity="note",
            kind=kind,
            name=name,
            field=field,
            now=f"names ClusterRole {findings.quoted(role)}, which does not exist",
            then="the tenant's namespaces are not ready until it does",
            remedy="create the ClusterRole, or name another",
        )
    elif not known.aggregated:
        yield findings.Finding(
            severity="changes" if almighty else "blocks",
            kind=kind,
            name=name,
            field=field,
            now=f"hands out ClusterRole {findings.quoted(role)}",
            then="the controller may not give what it does not hold: new namespaces go without"
            + (", once its ServiceAccount is not cluster-admin any more" if almighty else ""),
            remedy=f"kubectl label clusterrole {shlex.quote(role)} {constants.AGGREGATE_LABEL}=true",
        )


def _handed_out(found: tenant.Tenant) -> Iterator[tuple[str, str]]:
    spec = found.spec
    for owner in spec.owners:
        yield from (("spec.owners[].clusterRoles", role) for role in owner.cluster_roles)
    for binding in spec.additional_role_bindings:
        yield "spec.additionalRoleBindings[].clusterRoleName", binding.cluster_role_name
    for rule in spec.rules:
        if rule.permissions is None:
            continue
        for binding in rule.permissions.bindings:
            yield "spec.rules[].permissions.bindings[].clusterRoleName", binding.cluster_role_name
        for promotion in rule.permissions.promotions:
            path = "spec.rules[].permissions.promotions[].clusterRoles"
            yield from ((path, role) for role in promotion.cluster_roles)


def configured_roles(
    spec: configuration.CapsuleConfigurationSpec,
) -> Iterator[tuple[str, str]]:
    """Yield the ClusterRoles that a configuration hands out, without those it makes itself."""
    made = {spec.rbac.provisioner, spec.rbac.deleter}
    for field, roles in (
        ("administrationClusterRoles", spec.rbac.administration_cluster_roles),
        ("promotionClusterRoles", spec.rbac.promotion_cluster_roles),
    ):
        yield from ((f"spec.rbac.{field}", role) for role in roles if role not in made)
    # These it makes, but may not give by that name.
    for field, role in (("provisioner", spec.rbac.provisioner), ("deleter", spec.rbac.deleter)):
        if role not in namespaces.HANDED_OUT:
            yield f"spec.rbac.{field}", role
