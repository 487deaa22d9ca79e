"""Decide to which tenant a namespace belongs, and who may change that (specs/capsule 5.3 to 5.5).

A namespace's label, ownerReference and uid move together or not at all. Every decision looks at
the stored object and at the final object after mutation; what the requester wrote in between
counts for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tenantry.api.capsule import configuration, constants, tenant
from tenantry.api.capsule import resources as capsule
from tenantry.directory import assignment, identity
from tenantry.tenancy import evidence, naming, verdicts

Object = Mapping[str, Any]

NOT_OWNED = "can not assign the desired namespace to a non-owned Tenant"
NO_TENANT = "You do not have any Tenant assigned: please, reach out to the system administrators"
PREFIX_FORCED = "The Namespace name must start with"
PREFIX_UNKNOWN = "The Namespace prefix used doesn't match any available Tenant"
UNASSIGNABLE = (
    "Unable to assign namespace to tenant. "
    "Please use capsule.clastix.io/tenant label when creating a namespace"
)
MULTIPLE_REFERENCES = "namespace can not have multiple Tenant ownerReferences"
NOT_PATCHABLE_IN = "namespace can not be patched into a tenant"
NOT_OWNED_BY_ANY = "namespace is not owned by any tenant"
PATCH_DENIED = "denied patch request for this namespace"
NOT_MIGRATABLE = "namespace can not be migrated between tenants"
NOT_REMOVABLE = "namespace can not remove tenant ownership"
INCOMPLETE = "namespace tenant ownership is incomplete"
INCONSISTENT = "tenant label and ownerReference must both be set consistently or both be absent"
FIXED_DURING_TERMINATION = "namespace tenant ownership can not change during termination"
ONLY_OWNERS = "only tenant owners can create tenant-owned namespaces"
TERMINATING = "tenant is terminating and does not accept new namespaces"

#: As long as what the API server puts behind `generateName`, and without a dash, as that is.
_GENERATED = "xxxxx"


def reference_to(owner: tenant.Tenant) -> dict[str, Any]:
    """Return the (non-controller) ownerReference that ties a namespace to its tenant."""
    return {
        "apiVersion": constants.API_VERSION,
        "kind": capsule.TENANTS.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
    }


def terminating(obj: Object | None) -> bool:
    """Tell whether an object is being deleted."""
    return bool(((obj or {}).get("metadata") or {}).get("deletionTimestamp"))


def prefix_forced(owner: tenant.Tenant, config: configuration.CapsuleConfigurationSpec) -> bool:
    """Tell whether names must start with ``<tenant>-``; the tenant's word beats the global one."""
    own = owner.spec.force_tenant_prefix
    return config.force_tenant_prefix if own is None else own


def assign(namespace: Object, known: evidence.Evidence) -> tenant.Tenant | verdicts.Denial | None:
    """Choose the tenant of a namespace that is being created; None leaves it alone."""
    wanted = assignment.of(namespace)
    klass = known.requester_class
    if klass is identity.Class.UNKNOWN or (klass is identity.Class.ADMIN and wanted.absent):
        return None
    name = _name(namespace.get("metadata") or {})
    if wanted.label is not None or klass is identity.Class.ADMIN:
        return _requested(wanted, name, known)
    candidates = [t for t in known.tenants.values() if known.owned(t.metadata.name)]
    if not candidates:
        return verdicts.Denial(NO_TENANT)
    if len(candidates) == 1:
        return _prefixed(candidates[0], name, known)
    return _closest(candidates, name, known)


def _name(metadata: Object) -> str:
    """Return the name; with `generateName` there is none yet, but its form is known."""
    if metadata.get("name") or not metadata.get("generateName"):
        return str(metadata.get("name") or "")
    return f"{metadata['generateName']}{_GENERATED}"


def _requested(
    wanted: assignment.Assignment, name: str, known: evidence.Evidence
) -> tenant.Tenant | verdicts.Denial:
    if wanted.label is None and len(wanted.references) > 1:
        return verdicts.Denial(MULTIPLE_REFERENCES)
    label = wanted.references[0][0] if wanted.label is None else wanted.label
    found = known.owned(label)
    if found is None:
        return verdicts.Denial(NOT_OWNED, code=400)
    return _prefixed(found, name, known)


def _prefixed(
    owner: tenant.Tenant, name: str, known: evidence.Evidence
) -> tenant.Tenant | verdicts.Denial:
    prefix = f"{owner.metadata.name}-"
    if prefix_forced(owner, known.config) and not name.startswith(prefix):
        return verdicts.Denial(
            f"{PREFIX_FORCED} '{prefix}' when ForceTenantPrefix is enabled in the Tenant.",
        )
    return naming.refusal(owner, name) or owner


def _closest(
    candidates: Sequence[tenant.Tenant], name: str, known: evidence.Evidence
) -> tenant.Tenant | verdicts.Denial:
    """Take the longest ``<tenant>-`` that begins the name, whatever the prefix flags say.

    Where none does, take the one tenant whose template the name fits.
    """
    prefixing = [t for t in candidates if name.startswith(f"{t.metadata.name}-")]
    # Two different names of equal length cannot both begin one name, so the longest is unique.
    prefixing.sort(key=lambda t: len(t.metadata.name), reverse=True)
    for closest in prefixing:
        if naming.refusal(closest, name) is None:
            return closest
    fitting = [t for t in candidates if naming.wanted(t)]
    fitting = [t for t in fitting if not isinstance(_prefixed(t, name, known), verdicts.Denial)]
    if len(fitting) == 1:
        return fitting[0]
    if prefixing:
        return _prefixed(prefixing[0], name, known)
    if any(prefix_forced(t, known.config) for t in candidates):
        return verdicts.Denial(PREFIX_UNKNOWN)
    return verdicts.Denial(UNASSIGNABLE)


def rebind(
    old: Object, new: Object, known: evidence.Evidence
) -> tenant.Tenant | verdicts.Denial | None:
    """Choose the tenant of a namespace that is being updated (mutating side).

    Returns the tenant whose label and reference the object must carry, or None to leave it.
    """
    stored, wanted = assignment.of(old), assignment.of(new)
    if known.requester_class is identity.Class.ADMIN:
        return _administered(wanted, known)
    if known.requester_class is identity.Class.UNKNOWN:
        return None
    if stored.absent:
        return verdicts.Denial(NOT_OWNED_BY_ANY if wanted.absent else NOT_PATCHABLE_IN)
    if len(stored.mentioned) > 1:
        return verdicts.Denial(INCOMPLETE)
    (current,) = stored.mentioned
    if current in wanted.mentioned:
        found = known.owned(current)
        return verdicts.Denial(PATCH_DENIED) if found is None else found
    return verdicts.Denial(NOT_REMOVABLE if wanted.absent else NOT_MIGRATABLE)


def _administered(
    wanted: assignment.Assignment, known: evidence.Evidence
) -> tenant.Tenant | verdicts.Denial | None:
    """Complete an administrator's half-written assignment; refuse a contradictory one."""
    if wanted.absent:
        return None
    if len(wanted.references) > 1:
        return verdicts.Denial(MULTIPLE_REFERENCES)
    if wanted.references and wanted.label not in (None, wanted.references[0][0]):
        return verdicts.Denial(
            f'namespace label "{wanted.label}" does not match '
            f'owner reference "{wanted.references[0][0]}"'
        )
    (name,) = wanted.mentioned
    found = known.tenants.get(name)
    if found is None:
        return verdicts.Denial(f'tenant "{name}" not found', code=400)
    if wanted.references and wanted.uid != found.metadata.uid:
        return verdicts.Denial(
            f'tenant ownerReference UID mismatch: "{wanted.uid}" is not the uid '
            f'"{found.metadata.uid}" of tenant "{name}"'
        )
    return found


def validate_create(
    namespace: Object, known: evidence.Evidence
) -> tenant.Tenant | verdicts.Denial | None:
    """Judge the final object of a create; returns its tenant, or None if it has none.

    Mutation by others may have happened after ours, so nothing the mutating step did is trusted.
    """
    final = assignment.of(namespace)
    klass = known.requester_class
    if klass is identity.Class.UNKNOWN:
        return None if final.absent else verdicts.Denial(ONLY_OWNERS)
    if final.absent:
        return None if klass is identity.Class.ADMIN else verdicts.Denial(NO_TENANT)
    if not final.complete:
        return verdicts.Denial(INCONSISTENT if klass is identity.Class.ADMIN else INCOMPLETE)
    found = known.owned(final.references[0][0])
    if found is None or found.metadata.uid != final.uid:
        return verdicts.Denial(NOT_OWNED, code=400)
    if found.metadata.deletion_timestamp:
        return verdicts.Denial(TERMINATING)
    return found


def validate_update(
    old: Object,
    new: Object,
    known: evidence.Evidence,
    *,
    finalize: bool = False,
) -> tenant.Tenant | verdicts.Denial | None:
    """Judge an update by the stored and the final object, for every subresource.

    Returns the tenant whose rules the change must still pass, or None when there are none.
    """
    stored, final = assignment.of(old), assignment.of(new)
    klass = known.requester_class
    if finalize or terminating(old):
        if stored != final:
            return verdicts.Denial(FIXED_DURING_TERMINATION)
        # Every Capsule user may patch namespaces as far as RBAC goes. One that is going has
        # finalizers, and only its owners may take them off.
        return _foreign(stored, known) if klass is identity.Class.CAPSULE else None
    if klass is identity.Class.ADMIN:
        return _validate_administered(stored, final, known)
    if stored.absent:
        if not final.absent:
            return verdicts.Denial(NOT_PATCHABLE_IN)
        return verdicts.Denial(NOT_OWNED_BY_ANY) if klass is identity.Class.CAPSULE else None
    if stored != final:
        return verdicts.Denial(_why_changed(stored, final))
    if klass is identity.Class.UNKNOWN:
        # A node controller or a backup tool may touch other fields, even of a damaged namespace.
        return known.tenants.get(stored.label or "") if stored.complete else None
    if not stored.complete:
        return verdicts.Denial(INCOMPLETE)
    found = known.owned(stored.references[0][0])
    return verdicts.Denial(PATCH_DENIED) if found is None else found


def _foreign(stored: assignment.Assignment, known: evidence.Evidence) -> verdicts.Denial | None:
    if stored.absent:
        return verdicts.Denial(NOT_OWNED_BY_ANY)
    owned = any(known.owned(name) is not None for name in stored.mentioned)
    return None if owned else verdicts.Denial(PATCH_DENIED)


def _why_changed(stored: assignment.Assignment, final: assignment.Assignment) -> str:
    if final.absent:
        return NOT_REMOVABLE
    if final.mentioned - stored.mentioned:
        return NOT_MIGRATABLE
    return INCOMPLETE


def _validate_administered(
    stored: assignment.Assignment, final: assignment.Assignment, known: evidence.Evidence
) -> tenant.Tenant | verdicts.Denial | None:
    if final.absent:
        return None
    if not final.complete:
        return verdicts.Denial(INCONSISTENT)
    found = known.tenants.get(final.references[0][0])
    if found is None or found.metadata.uid != final.uid:
        return verdicts.Denial(INCONSISTENT)
    if stored == final:
        return found
    return verdicts.Denial(TERMINATING) if found.metadata.deletion_timestamp else None
