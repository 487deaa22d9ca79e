"""Deciding on one admission review: steps in sequence, one answer, one patch.

Pure. A *step* says whether a review concerns it and then allows, denies or patches. Steps run in
order and each sees the object as the steps before left it, so the steps of all domains can share
one call of the API server. What a step needs to know beyond the review is *evidence*, gathered by
the caller beforehand; its type is the caller's.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, TypeVar

from tenantry.api import admission as wire
from tenantry.api import resources
from tenantry.runtime import jsonpatch

E = TypeVar("E")
E_contra = TypeVar("E_contra", contravariant=True)

UserInfo = wire.UserInfo
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """What somebody wants to do, decoded once for all steps."""

    uid: str
    operation: str
    #: Group, version and plural that the webhook is registered for.
    group: str = ""
    version: str = "v1"
    resource: str
    kind: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    user: UserInfo = dataclasses.field(default_factory=UserInfo)
    #: The object as it shall be; None on DELETE.
    object: dict[str, Any] | None = None
    #: The object as it is stored; None on CREATE.
    old: dict[str, Any] | None = None
    dry_run: bool = False

    def is_about(self, resource: resources.Resource) -> bool:
        """Tell whether it is about objects of this kind, in whichever version."""
        return (self.group, self.resource) == (resource.group, resource.plural)

    @property
    def stored_or_new(self) -> dict[str, Any]:
        """The stored object where there is one: what a change is authorised by."""
        return self.old if self.old is not None else (self.object or {})


@dataclasses.dataclass(frozen=True, slots=True)
class Allow:
    """Nothing against it."""

    warnings: tuple[str, ...] = ()
    #: What the caller shall tell of, in its own types.
    notes: tuple[object, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Deny:
    """Refuse. The message names the rule, the value found and what would be accepted."""

    message: str
    code: int = 403
    reason: str = "Forbidden"
    notes: tuple[object, ...] = ()
    #: Under which reason it is told as an event, where it is.
    event: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Patch:
    """Change the object by JSON patch operations against it as this step saw it."""

    ops: Sequence[jsonpatch.Operation]
    warnings: tuple[str, ...] = ()
    notes: tuple[object, ...] = ()


Decision = Allow | Deny | Patch


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step(Generic[E_contra]):
    """One rule of one domain."""

    name: str
    matches: Callable[[Review], bool]
    decide: Callable[[Review, E_contra], Decision]
    #: Seconds of work above which the step counts as too slow.
    budget: float = 0.02


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The one answer."""

    allowed: bool = True
    code: int = 200
    reason: str = ""
    message: str = ""
    #: Step that refused.
    denied_by: str = ""
    patch: tuple[jsonpatch.Operation, ...] = ()
    warnings: tuple[str, ...] = ()
    audit_annotations: dict[str, str] = dataclasses.field(default_factory=dict)
    #: Reason of the event that tells of a refusal, "" for none.
    event: str = ""
    #: What the steps noted, also those before a refusal.
    notes: tuple[object, ...] = ()


def denied(message: str, *, code: int = 403, reason: str = "Forbidden", by: str = "") -> Verdict:
    """Build a refusal outside of any step."""
    return Verdict(allowed=False, code=code, reason=reason, message=message, denied_by=by)


@dataclasses.dataclass(slots=True)
class Tally:
    """What a step did so far."""

    runs: int = 0
    denials: int = 0
    patches: int = 0
    #: Runs that took longer than the step's budget.
    slow: int = 0
    seconds: float = 0.0


class Counters:
    """Tallies by step name, kept by the server across reviews."""

    def __init__(self) -> None:
        self.steps: dict[str, Tally] = {}

    def of(self, step: str) -> Tally:
        """Return the tally of a step, beginning one."""
        return self.steps.setdefault(step, Tally())


def run(
    steps: Sequence[Step[E]],
    review: Review,
    evidence: E,
    *,
    counters: Counters | None = None,
    timer: Callable[[], float] = time.perf_counter,
) -> Verdict:
    """Run the steps that match and fold their decisions; the first refusal ends it."""
    counters = counters or Counters()
    original = review.object
    warnings: list[str] = []
    notes: list[object] = []
    for step in steps:
        if not step.matches(review):
            continue
        tally = counters.of(step.name)
        began = timer()
        decision = step.decide(review, evidence)
        if isinstance(decision, Patch) and decision.ops:
            review = dataclasses.replace(
                review, object=jsonpatch.apply(review.object, decision.ops)
            )
            tally.patches += 1
        took = timer() - began
        tally.runs += 1
        tally.seconds += took
        if took > step.budget:
            tally.slow += 1
        notes += decision.notes
        if isinstance(decision, Deny):
            tally.denials += 1
            return Verdict(
                allowed=False,
                code=decision.code,
                reason=decision.reason,
                message=decision.message,
                denied_by=step.name,
                warnings=tuple(warnings),
                event=decision.event,
                notes=tuple(notes),
            )
        warnings += decision.warnings
    return Verdict(
        patch=tuple(jsonpatch.difference(original, review.object)),
        warnings=tuple(dict.fromkeys(warnings)),
        notes=tuple(notes),
    )
