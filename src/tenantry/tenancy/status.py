"""What a Tenant says about itself (specs/capsule 1.3, 2.5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tenantry.api import meta
from tenantry.api.capsule import common, constants, tenant
from tenantry.directory import owners
from tenantry.runtime import conditions
from tenantry.tenancy import enforcement, expressions, metadata

Object = dict[str, Any]

WAITING_FOR_PODS = "waiting for pods to finalize"
WAITING_FOR_NAMESPACE = "waiting for namespace finalization"


#: Names that a message lists before it only counts.
MOST_NAMES = 5


def held(owner: str, names: Sequence[str]) -> str:
    """Say which namespaces keep a tenant from going although they are not wholly its own; pure."""
    if not names:
        return ""
    shown = ", ".join(sorted(names)[:MOST_NAMES])
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return (
        f"waiting for namespaces with the label {constants.TENANT_LABEL}={owner}, but without the "
        f"ownerReference to this tenant: {shown}{more}; an administrator can remove the label, "
        "or delete them"
    )


@dataclass(frozen=True, slots=True)
class Space:
    """One namespace of a tenant as the last reconcile left it.

    :param error: why it could not be reconciled; empty when it is in order
    :param waiting: what its deletion still waits for; empty while it lives
    :param pending: no reconcile has ended yet, so nobody knows
    """

    name: str
    uid: str
    error: str = ""
    cordoned: bool = False
    waiting: str = ""
    pending: bool = False
    managed: metadata.Metadata = field(default_factory=metadata.Metadata)


def remembered(entry: tenant.Space, *, cordoned: bool) -> Space:
    """Return what a tenant's status says of a namespace, until its controller has looked.

    A new leader repeats it, instead of calling ready what failed or writing anything at all.
    """
    ready = next((c for c in entry.conditions if c.type == constants.READY), None)
    found = entry.metadata or common.Metadata()
    return Space(
        name=entry.name,
        uid=entry.uid,
        error=ready.message if ready is not None and ready.status == "False" else "",
        cordoned=cordoned,
        pending=ready is None or ready.status == "Unknown",
        managed=metadata.Metadata(found.labels, found.annotations),
    )


def desired(
    found: tenant.Tenant,
    *,
    spec: Mapping[str, Any],
    entries: Iterable[owners.Owner],
    spaces: Sequence[Space],
    error: str = "",
    classes: Mapping[str, Sequence[str]] | None = None,
    promoted: Sequence[Mapping[str, Any]] = (),
    now: float,
) -> Object:
    """Return the status to write; equal to the present one when there is nothing to say.

    :param spec: the specification as stored, for the fields without effect
    :param classes: names of the classes that the tenant may use, by kind; None = not known
    :param promoted: service accounts with roles from rules
    :param error: a failure that concerns the tenant and none of its namespaces
    """
    before = found.status
    generation = found.metadata.generation
    deleting = bool(found.metadata.deletion_timestamp)
    cordoned = found.spec.cordoned
    state = "Terminating" if deleting else "Cordoned" if cordoned else "Active"
    spaces = sorted(spaces, key=lambda space: space.name)
    known = {space.name: space.conditions or [] for space in (before.spaces)}
    status: Object = {
        "state": state,
        "size": len(spaces),
        "observedGeneration": generation,
        "owners": [
            {
                "kind": entry.subject.kind,
                "name": entry.subject.name,
                "clusterRoles": list(entry.cluster_roles),
            }
            for entry in entries
        ],
        "namespaces": [space.name for space in spaces],
        "spaces": [
            _space(space, known.get(space.name, []), cordoned=cordoned, now=now) for space in spaces
        ],
        "conditions": _merged(
            before.conditions or [],
            _tenant_conditions(found, spec, spaces, error, generation),
            now,
        ),
    }
    if classes:
        status["classes"] = {kind: list(names) for kind, names in classes.items()}
    if promoted:
        status["promotions"] = [dict(one) for one in promoted]
    return status


def _tenant_conditions(
    found: tenant.Tenant,
    spec: Mapping[str, Any],
    spaces: Iterable[Space],
    error: str,
    generation: int,
) -> list[meta.Condition]:
    failed = [f"namespace {space.name}: {space.error}" for space in spaces if space.error]
    problems = [*([error] if error else ()), *expressions.unreadable(found.spec), *failed]
    vain = enforcement.unenforced(spec)
    return [
        _ready("; ".join(problems), generation, pending=any(space.pending for space in spaces)),
        _cordoned(found.spec.cordoned, constants.TENANT_CORDONED_MESSAGE, generation),
        meta.Condition(
            type=constants.ENFORCED,
            status="False" if vain else "True",
            reason=constants.NOT_ENFORCED_REASON if vain else constants.ENFORCED_REASON,
            message=(
                f"no effect in this release: {', '.join(vain)}"
                if vain
                else "every field that is set takes effect"
            ),
            observed_generation=generation,
        ),
    ]


def ready_only(
    before: list[meta.Condition], problem: str, generation: int, now: float
) -> list[Object]:
    """Return the conditions of something that is either as it shall be or says why not."""
    return _merged(before, [_ready(problem, generation, pending=False)], now)


def _ready(problem: str, generation: int, *, pending: bool) -> meta.Condition:
    if pending and not problem:
        return meta.Condition(
            type=constants.READY,
            status="Unknown",
            reason=constants.RECONCILING_REASON,
            message=constants.RECONCILING_MESSAGE,
            observed_generation=generation,
        )
    return meta.Condition(
        type=constants.READY,
        status="False" if problem else "True",
        reason=constants.FAILED_REASON if problem else constants.SUCCEEDED_REASON,
        message=problem or constants.READY_MESSAGE,
        observed_generation=generation,
    )


def _cordoned(is_cordoned: bool, words: str, generation: int) -> meta.Condition:
    return meta.Condition(
        type=constants.CORDONED,
        status="True" if is_cordoned else "False",
        reason=constants.CORDONED_REASON if is_cordoned else constants.ACTIVE_REASON,
        message=words if is_cordoned else constants.NOT_CORDONED_MESSAGE,
        observed_generation=generation,
    )


def _space(space: Space, before: list[meta.Condition], *, cordoned: bool, now: float) -> Object:
    wanted = [_ready(space.error, 0, pending=space.pending)]
    if cordoned or space.cordoned:
        wanted.append(
            _cordoned(
                True,
                constants.TENANT_CORDONED_MESSAGE
                if cordoned
                else constants.NAMESPACE_CORDONED_MESSAGE,
                0,
            )
        )
    else:
        wanted.append(_cordoned(False, "", 0))
    if space.waiting:
        wanted.append(
            meta.Condition(
                type=constants.TERMINATING,
                status="False",
                reason=constants.PENDING_UNMANAGED_REASON,
                message=space.waiting,
            )
        )
    managed: Object = {}
    if space.managed.labels:
        managed["labels"] = dict(space.managed.labels)
    if space.managed.annotations:
        managed["annotations"] = dict(space.managed.annotations)
    written: Object = {
        "name": space.name,
        "uid": space.uid,
        "conditions": _merged(before, wanted, now),
    }
    if managed:
        # The API server turns an applied empty object into null, and refuses that.
        written["metadata"] = managed
    return written


def _merged(before: list[meta.Condition], wanted: list[meta.Condition], now: float) -> list[Object]:
    """Keep each condition's transition time unless its status changed; drop what is not wanted."""
    types = {condition.type for condition in wanted}
    merged = [condition for condition in before if condition.type in types]
    for condition in wanted:
        merged, _ = conditions.set_condition(merged, condition, now)
    plain: list[Object] = msgspec.to_builtins(merged)
    return plain
