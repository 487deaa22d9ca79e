"""Nodes: keys of labels and annotations that tenants' people may not touch (specs/capsule 5.6)."""

from __future__ import annotations

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.directory import identity
from tenantry.runtime import admission
from tenantry.tenancy import evidence
from tenantry.tenancy.policy import keys

REFUSED = (
    "Unable to update node as some {part} are marked as forbidden by system administrator. {words}"
)


def _is_node(review: admission.Review) -> bool:
    return review.is_about(resources.NODES) and review.operation == "UPDATE"


def validate(review: admission.Review, known: evidence.Evidence) -> admission.Decision:
    """Refuse to set, change or remove what the configuration keeps from users.

    A label of a node decides what runs there, so removing one matters as much as setting it.
    """
    settings = known.config.node_metadata
    if settings is None or known.requester_class is not identity.Class.CAPSULE:
        return admission.Allow()
    for part, rule, event in (
        (keys.LABELS, settings.forbidden_labels, constants.FORBIDDEN_LABEL_EVENT),
        (keys.ANNOTATIONS, settings.forbidden_annotations, constants.FORBIDDEN_ANNOTATION_EVENT),
    ):
        if rule is None:
            continue
        changed = keys.changed(keys.of(review.old, part), keys.of(review.object, part))
        if any(keys.is_forbidden(rule, key) for key in changed):
            words = REFUSED.format(part=part, words=keys.words(rule))
            return admission.Deny(words, event=event)
    return admission.Allow()


VALIDATING = admission.Step(name="nodes.metadata", matches=_is_node, decide=validate)
