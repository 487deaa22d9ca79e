"""Requests and limits of pods and containers (specs/capsule 5.8, "Workload resources")."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenantry.api.capsule import constants, rules
from tenantry.core import errors, quantity
from tenantry.tenancy.policy import blocks, engine, matching, pods

Object = dict[str, Any]

REQUESTS, LIMITS = "requests", "limits"
PRESERVE, DEFAULT, REMOVE = "Preserve", "Default", "Remove"
MATCH, RATIO = "MatchRequest", "Ratio"
_CONSTRAINTS = (REMOVE, MATCH, RATIO)
_USUAL = (pods.POD, pods.CONTAINERS, pods.INIT)
_NANO = quantity.NANO
HUGE_PAGES = "hugepages-"

_Amounts = Mapping[str, quantity.Quantity]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What one block says about the request or the limit of one resource."""

    part: str
    resource: str
    policy: str
    value: quantity.Quantity | None
    action: engine.Action
    targets: frozenset[str]
    #: Whether the pod itself is named as a target; else it counts where it has resources already.
    pod_named: bool
    audience: engine.Audience
    source: str
    broken: str = ""


def compiled(selected: Sequence[blocks.Block]) -> tuple[Entry, ...]:
    """Compile what the blocks say about resources, in their order."""
    found = []
    for block, workloads in blocks.of_workloads(selected):
        if workloads.resources is None:
            continue
        targets = frozenset(workloads.targets or _USUAL) & frozenset(_USUAL)
        parts: tuple[tuple[str, Mapping[str, rules.RequestRule | rules.LimitRule]], ...] = (
            (REQUESTS, workloads.resources.requests),
            (LIMITS, workloads.resources.limits),
        )
        for part, entries in parts:
            for name, entry in sorted(entries.items()):
                value, broken = _value(entry.value, block.render)
                found.append(
                    Entry(
                        part=part, resource=name, policy=entry.policy, value=value,
                        action=block.enforce.action, targets=targets,
                        pod_named=pods.POD in workloads.targets, audience=block.audience,
                        source=block.source, broken=broken,
                    )
                )  # fmt: skip
    return tuple(found)


def _value(written: object, render: matching.Render) -> tuple[quantity.Quantity | None, str]:
    if written is None:
        return None, ""
    try:
        return quantity.parse(render(str(written))), ""
    except errors.TenantryError as problem:
        return None, str(problem)


@dataclass(frozen=True, slots=True)
class Place:
    """Something that has resources: a container, or the pod itself."""

    target: str
    path: str
    holder: Mapping[str, Any]

    def amounts(self, part: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = (self.holder.get("resources") or {}).get(part) or {}
        return found

    def amount(self, part: str, resource: str) -> quantity.Quantity | None:
        """Return what is written, None for nothing."""
        written = self.amounts(part).get(resource)
        if written is None:
            return None
        try:
            return quantity.parse(written)
        except errors.InvalidValueError:
            return None  # The API server refuses it.


def places(spec: Mapping[str, Any]) -> Iterator[Place]:
    """Yield the pod and its containers."""
    yield Place(pods.POD, "spec", spec)
    for target, field in ((pods.INIT, "initContainers"), (pods.CONTAINERS, "containers")):
        for index, container in enumerate(spec.get(field) or ()):
            yield Place(target, f"spec.{field}[{index}]", container)


def _concerns(entry: Entry, place: Place, who: engine.Who) -> bool:
    if place.target not in entry.targets or not entry.audience.includes(who):
        return False
    if place.target != pods.POD:
        return True
    return _of_pods(entry.resource) and (entry.pod_named or bool(place.holder.get("resources")))


def _of_pods(resource: str) -> bool:
    return resource in {"cpu", "memory"} or resource.startswith(HUGE_PAGES)


# ---- writing ------------------------------------------------------------------------------------


def fill(found: Sequence[Entry], spec: Object, who: engine.Who) -> None:
    """Write defaults and removals into a pod's specification; for each resource the last block."""
    pod, *containers = places(spec)
    for place in (*containers, pod):
        if not who.work.spend(len(found)):
            return  # It is refused for that when it is judged.
        if place is pod and spec.get("resources"):
            _fill_pod(spec)
        last: dict[tuple[str, str], Entry] = {}
        for entry in found:
            if entry.action != engine.AUDIT and not entry.broken and _concerns(entry, place, who):
                last[entry.part, entry.resource] = entry
        # Requests first, since limits are made from them.
        for entry in sorted(last.values(), key=lambda one: one.part != REQUESTS):
            _write(entry, place)


def _fill_pod(spec: Object) -> None:
    """Give a pod that has resources the requests that its containers add up to.

    The API server does so when it reads the pod, which was before their requests were written.
    """
    requests = spec["resources"].get(REQUESTS) or {}
    limits = spec["resources"].get(LIMITS) or {}
    for resource, amount in _needed(spec).items():
        if _of_pods(resource) and resource not in requests and amount:
            if resource in limits and resource.startswith(HUGE_PAGES):
                continue  # They are the limit.
            spec["resources"][REQUESTS] = requests = {**requests, resource: str(amount)}


def _needed(spec: Mapping[str, Any]) -> dict[str, quantity.Quantity]:
    """Add up what containers request: all that run at a time, at the worst time."""
    running: dict[str, quantity.Quantity] = {}
    sidecars: dict[str, quantity.Quantity] = {}
    worst: dict[str, quantity.Quantity] = {}
    for place in places(spec):
        if place.target == pods.POD:
            continue
        own = {name: found for name in place.amounts(REQUESTS)
               if (found := place.amount(REQUESTS, name)) is not None}  # fmt: skip
        if place.target == pods.INIT:
            together = _plus(sidecars, own)
            _raise(worst, together)
            if place.holder.get("restartPolicy") != "Always":
                continue
            sidecars = together
        running = _plus(running, own)
    _raise(running, worst)
    return running


def _plus(one: _Amounts, other: _Amounts) -> dict[str, quantity.Quantity]:
    total = dict(one)
    for name, amount in other.items():
        before = total.get(name)
        total[name] = (
            amount if before is None
            else quantity.Quantity(before.nanos + amount.nanos, before.form)
        )  # fmt: skip
    return total


def _raise(amounts: dict[str, quantity.Quantity], to: _Amounts) -> None:
    for name, amount in to.items():
        before = amounts.get(name)
        if before is None or before < amount:
            amounts[name] = amount


def _write(entry: Entry, place: Place) -> None:
    current = place.amount(entry.part, entry.resource)
    request = place.amount(REQUESTS, entry.resource)
    value: quantity.Quantity | None = None
    if entry.policy == REMOVE:
        if current is not None:
            place.holder["resources"][entry.part].pop(entry.resource)
        return
    if entry.policy == DEFAULT and current is None:
        value = entry.value
    elif entry.policy == MATCH and request is not None and request != current:
        value = request
    elif entry.policy == RATIO and current is None and request:
        value = _most(request, entry)
    if value is not None:
        holder: Any = place.holder
        resources = holder.setdefault("resources", {})
        resources.setdefault(entry.part, {})[entry.resource] = str(value)


def _most(request: quantity.Quantity, entry: Entry) -> quantity.Quantity:
    """Return the most that a ratio allows, rounded down to a thousandth or a byte."""
    ratio = entry.value.nanos if entry.value is not None else _NANO
    unit = _NANO // 1000 if entry.resource == "cpu" else _NANO
    return quantity.Quantity(request.nanos * ratio // _NANO // unit * unit, request.form)


# ---- judging ------------------------------------------------------------------------------------


def judged(
    found: Sequence[Entry], spec: Mapping[str, Any], old: Mapping[str, Any], who: engine.Who
) -> Iterator[engine.Judgement]:
    """Judge requests and limits; on an update those that changed."""
    before = {place.path: place.holder.get("resources") for place in places(old)} if old else {}
    for place in places(spec):
        if place.path in before and before[place.path] == place.holder.get("resources"):
            continue
        if not who.work.spend(len(found)):
            yield _refused(engine.TOO_MUCH, [])
            return
        grouped: dict[tuple[str, str], list[Entry]] = {}
        for entry in found:
            if _concerns(entry, place, who):
                grouped.setdefault((entry.part, entry.resource), []).append(entry)
        for (part, resource), mine in grouped.items():
            yield _judged(mine, place, f'{place.path}.resources.{part}["{resource}"]')


def _judged(entries: Sequence[Entry], place: Place, path: str) -> engine.Judgement:
    denying: list[Entry] = []
    allowing: list[Entry] = []
    notes: list[engine.Note] = []
    for entry in entries:
        if entry.broken:
            return _refused(
                f"{entry.source} of the Tenant cannot be evaluated, so what it is about is "
                f"refused: {entry.broken}; please, reach out to the system administrators", notes
            )  # fmt: skip
        if entry.action == engine.AUDIT:
            problem = _problem(entry, place)
            if problem:
                message = f"{path} matched audit namespace rule: {entry.policy}: {problem}"
                notes.append(engine.Note(message, entry.source, "workload resources"))
        elif entry.policy not in _CONSTRAINTS:
            denying, allowing = [], []
        elif entry.action == engine.ALLOW:
            allowing.append(entry)
        else:
            denying.append(entry)
    for entry in denying:
        problem = _problem(entry, place)
        if problem:
            return _refused(
                f"{path} is denied by namespace rule: violates policy {entry.policy}: {problem}",
                notes,
            )
    problems = [(entry, _problem(entry, place)) for entry in allowing]
    if problems and all(problem for _, problem in problems):
        words = engine.listed([f"{entry.policy}: {problem}" for entry, problem in problems])
        return _refused(
            f"{path} is not allowed by namespace rule: does not satisfy any allowed resource "
            f"policy: {words}",
            notes,
        )
    return engine.Judgement(notes=tuple(notes))


def _refused(message: str, notes: Sequence[engine.Note]) -> engine.Judgement:
    return engine.Judgement(message, tuple(notes), constants.FORBIDDEN_RESOURCES_EVENT)


def _problem(entry: Entry, place: Place) -> str:
    """Return how a constraint is violated; "" when it is not."""
    return _PROBLEMS[entry.policy](entry, place) if entry.policy in _PROBLEMS else ""


def _remove(entry: Entry, place: Place) -> str:
    if place.amount(entry.part, entry.resource) is None:
        return ""
    return f"{entry.part.removesuffix('s')} must be undefined for policy Remove"


def _match(entry: Entry, place: Place) -> str:
    request, limit = _both(entry, place)
    if limit is None:
        return "" if request is None else f"limit is undefined while request is {request}"
    if request is None:
        return f"limit {limit} must equal request, which is undefined"
    return "" if limit == request else f"limit {limit} must equal request {request}"


def _ratio(entry: Entry, place: Place) -> str:
    request, limit = _both(entry, place)
    if limit is None:
        return "" if request is None else f"limit is undefined while request is {request}"
    if not request:
        return "Ratio requires a request greater than zero"
    most = _most(request, entry)
    if limit <= most:
        return ""
    return f"limit {limit} must not exceed {most} (request {request} times {entry.value})"


def _both(entry: Entry, place: Place) -> tuple[quantity.Quantity | None, quantity.Quantity | None]:
    return place.amount(REQUESTS, entry.resource), place.amount(LIMITS, entry.resource)


_PROBLEMS: dict[str, Callable[[Entry, Place], str]] = {
    REMOVE: _remove,
    MATCH: _match,
    RATIO: _ratio,
}
