"""Namespaces: assignment, hijack prevention, and the rules of the tenant (specs/capsule 5.3-5.5)."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any

from tenantry.api import resources
from tenantry.api.capsule import constants, tenant
from tenantry.core import regex
from tenantry.directory import assignment, identity
from tenantry.runtime import admission, jsonpatch
from tenantry.tenancy import evidence, ledger, metadata, naming, ownership, verdicts
from tenantry.tenancy.admission import undone
from tenantry.tenancy.policy import compiling, engine, labelling

CORDONED = "the selected tenant is cordoned"
PREFIX = "The namespace doesn't match the tenant prefix"
HOME = (
    'Creating namespace "{name}" is not allowed: its service accounts would be "{subject}", which '
    "has rights outside of the tenant; please, reach out to the system administrators"
)

Object = dict[str, Any]
Decision = admission.Decision


def _is_namespace(review: admission.Review) -> bool:
    return review.is_about(resources.NAMESPACES)


def mutate(review: admission.Review, known: evidence.Evidence) -> Decision:
    """Tie a namespace to its tenant and give it the tenant's metadata."""
    obj, old = review.object, review.old
    if obj is None or review.subresource or ownership.terminating(old):
        return admission.Allow()
    owner = ownership.assign(obj, known) if old is None else ownership.rebind(old, obj, known)
    if isinstance(owner, verdicts.Denial):
        return refused(owner)
    if owner is None:
        return admission.Allow()
    after = _defaulted(assigned(obj, owner, creating=old is None), old, owner, known)
    vain = undone.warnings(owner.metadata.name, old, obj, metadata.of(after))
    return admission.Patch(jsonpatch.difference(obj, after), warnings=tuple(vain))


def _subject(obj: Object, old: Object | None) -> labelling.Subject:
    return labelling.Subject(group="", kind=compiling.NAMESPACE, obj=obj, old=old)


def _rules(owner: tenant.Tenant, obj: Object) -> labelling.MetadataRules:
    found = metadata.of(obj)
    name = str((obj.get("metadata") or {}).get("name") or "")
    return compiling.of_namespace(owner, name, found.labels, found.annotations)


def _who(owner: tenant.Tenant, known: evidence.Evidence) -> engine.Who:
    return engine.Who(
        requester=known.requester,
        klass=known.requester_class,
        owns=lambda: known.owned(owner.metadata.name) is not None,
    )


def _defaulted(
    obj: Object, old: Object | None, owner: tenant.Tenant, known: evidence.Evidence
) -> Object:
    """Write what rules about namespaces default; what they manage is the tenant's own."""
    written = labelling.written(_rules(owner, obj), _subject(obj, old), _who(owner, known))
    for part, values in written.items():
        if values:
            obj["metadata"][part] = {**(obj["metadata"].get(part) or {}), **values}
    return obj


def assigned(obj: Object, owner: tenant.Tenant, *, creating: bool) -> Object:
    """Return the namespace as it must be to belong to `owner`.

    :param creating: also say whose these labels and annotations are, which the controller would
        otherwise do by applying the same once more
    """
    result = copy.deepcopy(obj)
    found = result.setdefault("metadata", {})
    references = [
        reference
        for reference in found.get("ownerReferences") or []
        if not assignment.is_reference(reference)
    ]
    mine = ownership.reference_to(owner)
    for reference in found.get("ownerReferences") or []:
        # A reference that is right already stays as it is, whatever version it names.
        if assignment.is_reference(reference) and reference.get("uid") == mine["uid"]:
            mine = reference
    found["ownerReferences"] = [*references, mine]
    name = found.get("name") or ""
    wanted = metadata.desired(owner, name, metadata.of(result))
    options = owner.spec.namespace_options
    only = options is not None and options.managed_metadata_only
    found["labels"] = {**({} if only else found.get("labels") or {}), **wanted.labels}
    annotations = {**({} if only else found.get("annotations") or {}), **wanted.annotations}
    if annotations or only:
        found["annotations"] = annotations
    if creating:
        found["managedFields"] = [
            *(
                entry
                for entry in found.get("managedFields") or []
                if entry.get("manager") != constants.FIELD_MANAGER
            ),
            _share(wanted),
        ]
    return result


def _share(wanted: metadata.Metadata) -> Object:
    """Return the record of what we own, as the API server writes it for an apply."""
    parts = {"f:labels": wanted.labels, "f:annotations": wanted.annotations}
    owned: Object = {part: {f"f:{key}": {} for key in keys} for part, keys in parts.items() if keys}
    return {
        "manager": constants.FIELD_MANAGER,
        "operation": "Apply",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": owned},
    }


def validate(review: admission.Review, known: evidence.Evidence) -> Decision:
    """Judge the stored and the final object, for every verb and subresource."""
    if review.operation == "DELETE":
        return _validate_delete(review, known)
    obj, old = review.object or {}, review.old
    if old is None:
        owner = ownership.validate_create(obj, known)
    else:
        owner = ownership.validate_update(
            old, obj, known, finalize=review.subresource == "finalize"
        )
    if isinstance(owner, verdicts.Denial):
        return refused(owner)
    if owner is None:
        denial = _moved(old or {}, obj, known)
        return admission.Allow() if denial is None else refused(denial)
    judged = list(labelling.judged(_rules(owner, obj), _subject(obj, old), _who(owner, known)))
    notes = tuple(note for found in judged for note in found.notes)
    denial = _chain(owner, obj, old, known, judged)
    if denial is not None:
        return dataclasses.replace(refused(denial), notes=notes)
    # Who does not own the tenant may change its namespace by RBAC, and is not put right here.
    after = metadata.of(assigned(obj, owner, creating=False))
    vain = undone.warnings(owner.metadata.name, old, obj, after)
    return admission.Allow(warnings=tuple(vain), notes=notes)


def _validate_delete(review: admission.Review, known: evidence.Evidence) -> Decision:
    old = review.old or {}
    owner = known.tenants.get(assignment.of(old).label or "")
    if owner is None or ownership.terminating(old):
        return admission.Allow()
    denial = _cordoning(owner, known)
    return admission.Allow() if denial is None else refused(denial)


def _moved(old: Object, obj: Object, known: evidence.Evidence) -> verdicts.Denial | None:
    """Keep the node selector where no other rule holds, as on the way of finalizers.

    PodNodeSelector obeys it at once, so that it is put back a moment later would be too late.
    """
    owner = known.tenants.get(assignment.of(old).label or "")
    if owner is None or known.requester_class is not identity.Class.CAPSULE:
        return None
    return metadata.check_node_selector(owner, metadata.of(old), metadata.of(obj))


def _chain(
    owner: tenant.Tenant,
    obj: Object,
    old: Object | None,
    known: evidence.Evidence,
    judged: Sequence[engine.Judgement],
) -> verdicts.Denial | None:
    """Apply the tenant's rules in the order in which users are used to see them fail."""
    name = str((obj.get("metadata") or {}).get("name") or "")
    before, after = metadata.of(old), metadata.of(obj)
    user = known.requester_class is identity.Class.CAPSULE
    return (
        _cordoning(owner, known)
        or (None if old is not None else _name(owner, name, known))
        or _labelled(judged)
        or (None if known.requester_class is identity.Class.ADMIN
            else metadata.check_node_selector(owner, before, after))
        or (metadata.check_forbidden(owner, name, before, after) if user else None)
        or metadata.check_required(owner, None if old is None else before, after)
    )  # fmt: skip


def _labelled(judged: Sequence[engine.Judgement]) -> verdicts.Denial | None:
    """Refuse by what the tenant's rules say of the namespace's own metadata."""
    refusal = next((found.refusal for found in judged if found.refusal), "")
    return verdicts.Denial(refusal) if refusal else None


def _cordoning(owner: tenant.Tenant, known: evidence.Evidence) -> verdicts.Denial | None:
    if owner.spec.cordoned and known.requester_class is identity.Class.CAPSULE:
        return verdicts.Denial(CORDONED)
    return None


def _name(owner: tenant.Tenant, name: str, known: evidence.Evidence) -> verdicts.Denial | None:
    protected = known.config.protected_namespace_regex
    if protected and regex.found(protected, name, unreadable=True):
        return verdicts.Denial(
            f"Creating namespaces with name matching {protected} regexp is not allowed; "
            "please, reach out to the system administrators"
        )
    subject = known.guest(owner, name)
    if subject and known.requester_class is not identity.Class.ADMIN:
        return verdicts.Denial(HOME.format(name=name, subject=subject))
    prefix = f"{owner.metadata.name}-"
    if ownership.prefix_forced(owner, known.config) and not name.startswith(prefix):
        return verdicts.Denial(f'{PREFIX}, expected prefix "{prefix}"')
    return naming.refusal(owner, name)


def reservation(
    review: admission.Review, known: evidence.Evidence
) -> tuple[tenant.Tenant, ledger.Claim] | None:
    """Return what a validated request takes from its tenant's quota; None for nothing."""
    if not _is_namespace(review) or review.operation != "CREATE" or review.object is None:
        return None
    owner = known.tenants.get(assignment.of(review.object).label or "")
    if owner is None:
        return None
    found = review.object["metadata"]
    return owner, ledger.Claim(uid=found["uid"], name=found["name"])


def refused(denial: verdicts.Denial) -> admission.Deny:
    """Word a denial for the API server."""
    return admission.Deny(denial.message, code=denial.code, reason=denial.reason)


MUTATING = admission.Step(name="namespaces.assign", matches=_is_namespace, decide=mutate)
VALIDATING = admission.Step(name="namespaces.ownership", matches=_is_namespace, decide=validate)
