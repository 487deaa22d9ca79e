"""Whose each namespace is, and what is written on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tenantry.api.capsule import constants, tenant
from tenantry.core import errors, regex
from tenantry.tenancy import metadata
from tenantry.tenancy.checking import findings, views
from tenantry.tenancy.controllers import namespaces

KIND = "Namespace"
_REFERENCES = "metadata.ownerReferences"
_TIE = 'kubectl patch namespace {} --type=merge -p \'{{"metadata":{{"ownerReferences":null}}}}\''


def examine(known: views.Tenancy) -> Iterator[findings.Finding]:
    """Look at each namespace that says something about a tenant."""
    if known.spaces is None:
        return
    if known.tenants is not None:
        owners = {one.metadata.name: one for one in known.readable()}
        unread = {one.name for one in known.tenants if one.tenant is None}
        for space in known.spaces:
            if not space.assignment.mentioned & unread:
                yield from _assigned(space, owners)
        for owner in owners.values():
            yield from _marked(known, owner)
    yield from _protected(known)


def _assigned(
    space: views.Space, owners: Mapping[str, tenant.Tenant]
) -> Iterator[findings.Finding]:
    found = space.assignment
    label = f"metadata.labels[{constants.TENANT_LABEL}]"
    said = findings.quoted(found.label)
    named = findings.listed(name for name, _ in found.references)
    lost = "belongs to nobody: its RoleBindings are removed, and its owners cannot get at it"
    mended = (
        "as an administrator of the CapsuleConfiguration, set label and ownerReference to the "
        "tenant it belongs to, or remove both (docs/tenants.md)"
    )
    severity: findings.Severity = "blocks"
    field, then = label, lost
    if len(found.references) > 1:
        field, now = _REFERENCES, f"refers to {len(found.references)} tenants: {named}"
    elif not found.references:
        severity = "changes"
        now = (
            f"is labelled for tenant {said}, without an ownerReference; Capsule's controller "
            "passes it by, too"
        )
        then = "belongs to nobody, but keeps that tenant from being deleted"
    elif found.label is None:
        now = f"refers to tenant {named}, without the label"
    elif not found.complete:
        now = f"is labelled for tenant {said}, but refers to {named}"
    elif found.label not in owners:
        severity, field = "changes", _REFERENCES
        now = f"refers to tenant {said}, which does not exist"
        then = (
            "belongs to nobody until there is one; the garbage collector deletes what refers to "
            "owners that are gone"
        )
    elif found.uid != owners[found.label].metadata.uid:
        field = f"{_REFERENCES}[].uid"
        now = (
            f"refers to an earlier tenant of that name (uid {found.uid}, now "
            f"{owners[found.label].metadata.uid}), as after a restore"
        )
        then = "is left alone, not ready, until it is tied anew"
        mended = f"as an administrator of the CapsuleConfiguration: {_TIE.format(space.name)}"
    else:
        return
    yield findings.Finding(
        severity=severity, kind=KIND, name=space.name, field=field, now=now, then=then,
        remedy=mended,
    )  # fmt: skip


def _protected(known: views.Tenancy) -> Iterator[findings.Finding]:
    pattern = known.config.protected_namespace_regex
    for space in known.spaces or ():
        if space.name in {"kube-system", known.namespace}:
            yield findings.Finding(
                severity="changes",
                kind=KIND,
                name=space.name,
                now="is a tenant's, although the cluster or the platform lives in it",
                then="no rule is enforced in it: webhooks pass it by, so that the cluster can heal",
                remedy="take it from its tenant",
            )
            continue
        try:
            matches = bool(pattern) and regex.found(pattern, space.name)
        except errors.InvalidValueError:
            return  # The configuration's own finding says so.
        if matches:
            yield findings.Finding(
                severity="note",
                kind=KIND,
                name=space.name,
                now=f"has a name that protectedNamespaceRegex {findings.quoted(pattern)} keeps",
                then="stays its tenant's; once deleted, users cannot create it again",
            )


def _marked(known: views.Tenancy, owner: tenant.Tenant) -> Iterator[findings.Finding]:
    """Compare the metadata a tenant gives its namespaces with what they carry."""
    put: dict[str, set[str]] = {}
    taken: dict[str, set[str]] = {}
    for space in known.members(owner):
        found = metadata.Metadata(space.labels, space.annotations)
        try:
            wanted = metadata.desired(owner, space.name, found)
        except errors.TenantryError:
            continue  # A template or expression that the tenant's own finding names.
        for part, have, want in (
            ("labels", found.labels, wanted.labels),
            ("annotations", found.annotations, wanted.annotations),
        ):
            for key, value in want.items():
                if have.get(key) != value:
                    put.setdefault(f"{part}[{key}]", set()).add(space.name)
        observed = {
            "metadata": {
                "labels": space.labels,
                "annotations": space.annotations,
                "managedFields": space.owned,
            }
        }
        before = namespaces.recorded(owner, space.name)
        for change in namespaces.stale_keys(observed, wanted, before):
            if change["op"] == "remove":
                part, _, key = change["path"].removeprefix("/metadata/").partition("/")
                key = key.replace("~1", "/").replace("~0", "~")
                taken.setdefault(f"{part}[{key}]", set()).add(space.name)
    for changed, then in ((put, "gets the value that the tenant says"), (taken, "goes: Capsule has put it there, and the tenant does not say it any more")):  # fmt: skip
        for key, where in sorted(changed.items())[: findings.MOST_OF_ONE]:
            yield findings.Finding(
                severity="changes",
                kind="Tenant",
                name=owner.metadata.name,
                field=f"namespaces: metadata.{key}",
                now=f"differs on {findings.count(len(where), 'namespace')}: {findings.listed(where)}",
                then=then,
            )
