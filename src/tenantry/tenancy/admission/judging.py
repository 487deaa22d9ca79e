"""From judgements to the decision of a step."""

from __future__ import annotations

from collections.abc import Iterable

from tenantry.runtime import admission
from tenantry.tenancy import evidence
from tenantry.tenancy.policy import engine


def first(judgements: Iterable[engine.Judgement]) -> admission.Decision:
    """Refuse by the first judgement that does; keep what was noted until then."""
    notes: list[engine.Note] = []
    for judgement in judgements:
        notes += judgement.notes
        if judgement.refusal:
            return admission.Deny(judgement.refusal, notes=tuple(notes), event=judgement.event)
    return admission.Allow(notes=tuple(notes))


def is_open(name: str | None, kind: str, default: str, known: evidence.Evidence) -> bool:
    """Tell whether nothing was chosen: no name, or the one that the cluster fills in."""
    if not name:
        return True
    found = known.around.find(kind, name)
    return name != default and found is not None and found.default
