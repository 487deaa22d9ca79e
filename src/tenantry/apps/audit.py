"""Events about what admission decided, for people who ask why (specs/capsule 2.6).

An object that does not exist yet, and may never, is no place for an event: names are for free. So
a refused creation is told of its tenant, whose events have a budget.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tenantry.api import resources
from tenantry.api.capsule import constants, tenant
from tenantry.api.capsule import resources as capsule
from tenantry.directory import assignment
from tenantry.runtime import admission, events, permissions
from tenantry.tenancy import evidence, metadata, naming, ownership, reservations
from tenantry.tenancy.admission import break_glass, content, namespaces
from tenantry.tenancy.policy import engine, labelling

NEEDS = (permissions.Need(resources.EVENTS, permissions.APPLY),)

ASSIGNED = "Namespace {name} has been assigned to the desired Tenant"

Object = dict[str, Any]

#: Refusal, in full -> reason of its event.
_EXACT = {
    reservations.QUOTA_EXCEEDED: constants.OVERPROVISIONED_EVENT,
    namespaces.CORDONED: constants.CORDONED_EVENT,
    ownership.PREFIX_UNKNOWN: constants.INVALID_PREFIX_EVENT,
    content.PROMOTION_DISABLED: constants.PROMOTION_DENIED_EVENT,
    content.PROMOTION_DISABLED_HERE: constants.PROMOTION_DENIED_EVENT,
    **dict.fromkeys(
        (
            ownership.NOT_PATCHABLE_IN,
            ownership.NOT_OWNED_BY_ANY,
            ownership.PATCH_DENIED,
            ownership.NOT_MIGRATABLE,
            ownership.NOT_REMOVABLE,
            ownership.INCOMPLETE,
            ownership.INCONSISTENT,
            ownership.FIXED_DURING_TERMINATION,
        ),
        constants.NAMESPACE_HIJACK_EVENT,
    ),
}
#: How a refusal begins -> reason of its event.
_BEGINNING = {
    ownership.PREFIX_FORCED: constants.INVALID_PREFIX_EVENT,
    namespaces.PREFIX: constants.INVALID_PREFIX_EVENT,
    naming.REFUSED: constants.INVALID_PREFIX_EVENT,
    metadata.LABELS_FAILED: constants.FORBIDDEN_LABEL_EVENT,
    metadata.ANNOTATIONS_FAILED: constants.FORBIDDEN_ANNOTATION_EVENT,
    metadata.NODE_SELECTOR_ENFORCED: constants.FORBIDDEN_NODE_SELECTOR_EVENT,
    **{
        f"metadata {kind} ": constants.FORBIDDEN_METADATA_EVENT for kind in labelling.PARTS.values()
    },
}
#: Step that refused -> reason of its event.
_STEPS = {
    content.CORDONING.name: constants.CORDONED_EVENT,
    content.PROMOTING.name: constants.PROMOTION_DENIED_EVENT,
}


def reason_of(verdict: admission.Verdict) -> str:
    """Return the reason under which a refusal is told; "" when it is not; pure."""
    if verdict.event:
        return verdict.event
    if verdict.message in _EXACT:
        return _EXACT[verdict.message]
    for beginning, reason in _BEGINNING.items():
        if verdict.message.startswith(beginning):
            return reason
    return _STEPS.get(verdict.denied_by, "")


class Auditor:
    """Records events of reviews; never waits, never fails."""

    def __init__(
        self, recorder: events.Recorder, tenant_named: Callable[[str], tenant.Tenant | None]
    ) -> None:
        """Make one.

        :param tenant_named: gives a tenant from memory, for its uid
        """
        self._recorder = recorder
        self._tenant_named = tenant_named

    def tell(
        self, review: admission.Review, verdict: admission.Verdict, known: evidence.Evidence
    ) -> None:
        """Record a final verdict: a refusal, or to which tenant a new namespace went."""
        if review.dry_run:
            return
        for note in verdict.notes:
            if isinstance(note, engine.Note):
                self._audited(review, note, known)
        if not verdict.allowed:
            self._denied(review, verdict, known)
        elif review.operation == "CREATE" and _is_namespace(review):
            owner = self._tenant(assignment.of(review.object).tenant, known)
            if owner is not None:
                note = ASSIGNED.format(name=review.name)
                self._event(
                    review, owner, "Normal", constants.TENANT_ASSIGNED_EVENT,
                    constants.MUTATED_ACTION, note=note, about_object=True,
                )  # fmt: skip

    def tell_mended(self, review: admission.Review, verdict: admission.Verdict) -> None:
        """Record that an administrator broke the glass, which only the mutating side sees."""
        mended = next((n for n in verdict.notes if isinstance(n, break_glass.Mended)), None)
        if mended is None or review.dry_run:
            return
        names = [mended.tenant or "", *sorted(mended.before.mentioned)]
        owner = next(filter(None, map(self._tenant, names)), None)
        note = f"{constants.BREAK_GLASS_ANNOTATION} by {review.user.username}: {mended.message}"
        self._event(
            review, owner, "Warning", constants.BREAK_GLASS_EVENT, constants.MUTATED_ACTION,
            note=note, about_object=True,
        )  # fmt: skip

    def _denied(
        self, review: admission.Review, verdict: admission.Verdict, known: evidence.Evidence
    ) -> None:
        reason = reason_of(verdict)
        mentioned = {
            *assignment.of(review.old).mentioned,
            *(assignment.of(review.object).mentioned if _is_namespace(review) else ()),
        }
        if not mentioned and not known.tenant_name and len(known.tenants) == 1:
            mentioned = set(known.tenants)
        names = [name for name in (known.tenant_name, *sorted(mentioned)) if name]
        owner = next(filter(None, (self._tenant(name, known) for name in names)), None)
        exists = review.old is not None
        if not reason or (owner is None and not exists):
            return
        what = (
            f"{review.operation} of {review.kind or review.resource} {review.name or '(unnamed)'}"
        )
        note = f"{what} by {review.user.username} was refused: {verdict.message}"
        self._event(
            review,
            owner,
            "Warning",
            reason,
            constants.DENIED_ACTION,
            note=note,
            about_object=exists,
        )

    def _audited(
        self, review: admission.Review, note: engine.Note, known: evidence.Evidence
    ) -> None:
        """Tell what a rule only watches; of an object that may never exist, at its tenant."""
        namespace = _is_namespace(review)
        of = assignment.of(review.object).tenant if namespace else known.tenant_name
        owner = self._tenant(of, known)
        exists = review.old is not None
        if owner is None and not exists:
            return
        where = "" if namespace else f"{review.namespace}/"
        what = f"{review.kind or review.resource} {where}{review.name or '(unnamed)'}"
        self._event(
            review, owner, "Warning", constants.RULE_AUDIT_EVENT, constants.RULE_AUDIT_ACTION,
            note=f"{what}: {note.message}", about_object=exists,
            annotations={
                constants.AUDIT_RULE_SET: note.set_name, constants.AUDIT_RULE_ACTION: engine.AUDIT,
            },
            # Findings of one rule are counted together, not those of all rules.
            apart=f"{note.source} {note.set_name}",
        )  # fmt: skip

    def _event(
        self,
        review: admission.Review,
        owner: Object | None,
        kind: Any,
        reason: str,
        action: str,
        *,
        note: str,
        about_object: bool,
        annotations: dict[str, str] | None = None,
        apart: str = "",
    ) -> None:
        regarding = _reference(review) if about_object or owner is None else owner
        self._recorder.event(
            regarding,
            kind,
            reason,
            action,
            note,
            related=owner if owner is not regarding else None,
            annotations={
                constants.AUDIT_REQUEST_UID: review.uid,
                constants.AUDIT_USERNAME: review.user.username,
                **(annotations or {}),
            },
            labels={constants.MANAGED_TENANT_LABEL: owner["name"]} if owner is not None else None,
            apart=apart,
        )

    def _tenant(self, name: str | None, known: evidence.Evidence | None = None) -> Object | None:
        """Refer to a tenant: memory may not have heard of one that was read for the decision."""
        read = known.tenants.get(name or "") if known is not None else None
        found = read or self._tenant_named(name or "")
        return reference_to(found) if found is not None else None


def reference_to(found: tenant.Tenant) -> Object:
    """Return the reference to a tenant that an event needs; pure."""
    return {
        "apiVersion": constants.API_VERSION,
        "kind": capsule.TENANTS.kind,
        "name": found.metadata.name,
        "uid": found.metadata.uid,
    }


def _is_namespace(review: admission.Review) -> bool:
    return review.is_about(resources.NAMESPACES)


def _reference(review: admission.Review) -> Object:
    found = review.stored_or_new.get("metadata") or {}
    reference = {
        "apiVersion": f"{review.group}/{review.version}" if review.group else review.version,
        "kind": review.kind,
        "name": review.name or str(found.get("name") or ""),
        "uid": str(found.get("uid") or ""),
    }
    # A namespace is in none, although its review says that it is in itself.
    if review.namespace and not _is_namespace(review):
        reference["namespace"] = review.namespace
    return reference
