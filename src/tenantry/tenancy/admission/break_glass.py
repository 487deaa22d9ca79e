"""Mend a namespace whose label and ownerReferences contradict each other (specs/capsule 8, row 14).

Such a namespace is left by webhooks that were down, by a restore, or by Capsule. Every change of it
is then refused for what is already wrong with it. An administrator says by an annotation whose it
shall be, and label, reference and uid are made so, in that one request. The annotation itself is
never stored: nothing is left that could be copied, kept, or obeyed in the name of somebody else.
What comes out is judged as any other change is, so this opens nothing that administrators may not.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from typing import Any

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.core import names
from tenantry.directory import assignment, identity
from tenantry.runtime import admission, jsonpatch
from tenantry.tenancy import evidence, metadata, ownership

KEY = constants.BREAK_GLASS_ANNOTATION
FIELD = f"metadata.annotations[{KEY}]"
NOBODY = "none"
ACCEPTED = (
    f'"tenant/<name>", the Tenant that the namespace shall belong to, or "{NOBODY}" for no tenant'
)
FOR_ADMINISTRATORS = (
    f"{FIELD} is accepted only from administrators listed in the CapsuleConfiguration"
)
FOR_UPDATES = (
    f"{FIELD} is accepted only in an update of a namespace itself (not of its status or "
    "finalizers) that is not being deleted"
)
LEFT_OVER = f'annotation "{KEY}" was stored already and mends nothing; it is removed'

_TENANT = "tenant/"
#: Characters of a value that are repeated.
_SHOWN = 60

Object = dict[str, Any]
Decision = admission.Decision


@dataclasses.dataclass(frozen=True, slots=True)
class Mended:
    """What was done, for the event."""

    before: assignment.Assignment
    #: The tenant it belongs to from now on; None for no tenant.
    tenant: str | None

    @property
    def message(self) -> str:
        """Say what the namespace was and becomes."""
        label = "no tenant label" if self.before.label is None else f"label {self.before.label}"
        found = ", ".join(f"{name} ({uid})" for name, uid in self.before.references)
        after = "no tenant" if self.tenant is None else f"tenant {self.tenant}"
        return f"{label} and ownerReferences to [{found}] become {after}"


def _is_namespace(review: admission.Review) -> bool:
    return review.is_about(resources.NAMESPACES)


def asked(review: admission.Review) -> str | None:
    """Return the value that a request for a namespace brings; None where it was there before.

    What is stored already was not set by whoever writes now, and must not act in their name.
    """
    if not _is_namespace(review):
        return None
    value = metadata.of(review.object).annotations.get(KEY)
    return None if value == metadata.of(review.old).annotations.get(KEY) else value


def named(review: admission.Review) -> frozenset[str]:
    """Return the tenant that the annotation names, if a Tenant can be called so."""
    value = asked(review) or ""
    name = value.removeprefix(_TENANT)
    is_name = value.startswith(_TENANT) and names.is_dns_subdomain(name)
    return frozenset({name} if is_name else ())


def mend(review: admission.Review, known: evidence.Evidence) -> Decision:
    """Do what the annotation says, and take it away."""
    obj = review.object
    if obj is None or KEY not in metadata.of(obj).annotations:
        return admission.Allow()
    value = asked(review)
    if value is None:
        if ownership.terminating(review.old):
            return admission.Allow()
        return admission.Patch(jsonpatch.difference(obj, _without(obj)), warnings=(LEFT_OVER,))
    if (refusal := _refused(review, known)) is not None:
        return refusal
    wanted = named(review)
    if not wanted and value != NOBODY:
        shown = json.dumps(value[:_SHOWN])
        return _bad(f"{FIELD}: {shown} is not accepted; accepted is {ACCEPTED}")
    after = _without(obj)
    target = next(iter(wanted), None)
    found = after["metadata"]
    others = [r for r in found.get("ownerReferences") or [] if not assignment.is_reference(r)]
    labels = {k: v for k, v in (found.get("labels") or {}).items() if k != constants.TENANT_LABEL}
    if target is not None:
        owner = known.tenants.get(target)
        if owner is None:
            return _bad(f'{FIELD}: tenant "{target}" not found; accepted is {ACCEPTED}')
        others.append(ownership.reference_to(owner))
        labels[constants.TENANT_LABEL] = target
    found["ownerReferences"], found["labels"] = others, labels
    mended = Mended(assignment.of(review.old), target)
    return admission.Patch(jsonpatch.difference(obj, after), notes=(mended,))


def keep_off(review: admission.Review, known: evidence.Evidence) -> Decision:
    """Let no annotation through that the mutating side did not take away."""
    if asked(review) is None:
        return admission.Allow()
    return _refused(review, known) or admission.Deny(FOR_UPDATES)


def _refused(review: admission.Review, known: evidence.Evidence) -> admission.Deny | None:
    if known.requester_class is not identity.Class.ADMIN:
        return admission.Deny(FOR_ADMINISTRATORS, event=constants.NAMESPACE_HIJACK_EVENT)
    if review.old is None or review.subresource or ownership.terminating(review.old):
        return admission.Deny(FOR_UPDATES)
    return None


def _bad(message: str) -> admission.Deny:
    return admission.Deny(message, code=400, reason="BadRequest")


def _without(obj: Object) -> Object:
    result = copy.deepcopy(obj)
    del result["metadata"]["annotations"][KEY]
    return result


MUTATING = admission.Step(name="namespaces.break-glass", matches=_is_namespace, decide=mend)
VALIDATING = admission.Step(name="namespaces.break-glass", matches=_is_namespace, decide=keep_off)
