"""Compare states with expectations: strictly by every rule, or leniently by outcome."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any

from tenantry.core import quantity
from tenantry.scheduler.engine import status

Json = dict[str, Any]
_ALLOCATED = {"Allocated", "Bound", "Binding", "Running"}
_USED = _ALLOCATED | {"Pipelined", "Releasing", "StuckInReleasing"}
_EPSILON = 1e-9


def strict(line: Json, states: list[Json], calls: list[Json]) -> list[str]:
    """Return every difference by the rules of the format."""
    found = [text for state in states for text in _state(line, state)]
    found += _call_bounds(line, calls)
    if line["expected"] is None:
        seen = line["observed"]
        for state, wanted in zip(
            (states[0], states[-1]), (seen["first"] or seen["last"], seen["last"]), strict=True
        ):
            found += _against_observed(state, wanted)
    return found


def lenient(line: Json, states: list[Json]) -> list[str]:
    """Return differences in outcome: states per job, who was evicted, nodes that are named."""
    expected = line["expected"] or {}
    initial = {task["pod"]: task["state"] for job in line["jobs"] for task in job["tasks"]}
    by_job: dict[str, list[tuple[str, Json]]] = collections.defaultdict(list)
    owner = {task["pod"]: job["name"] for job in line["jobs"] for task in job["tasks"]}
    pods = {job["name"]: [task["pod"] for task in job["tasks"]] for job in line["jobs"]}
    for job, wanted in (expected.get("jobs") or {}).items():
        by_job[job] += [(pod, wanted) for pod in pods[job]]
    for pod, wanted in (expected.get("tasks") or {}).items():
        if not wanted.get("matches_no_task"):
            by_job[owner[pod]].append((pod, wanted))
    if line["expected"] is None:
        last = line["observed"]["last"]["tasks"]
        for pod, view in last.items():
            by_job[owner[pod]].append((pod, {"status": view["status"]}))
        states = states[-1:]
    found = []
    for state in states:
        tasks = state["tasks"]
        for job, entries in by_job.items():
            wanted = collections.Counter(entry["status"] for _, entry in entries)
            got = collections.Counter(tasks.get(pod, {}).get("status") for pod, _ in entries)
            if wanted != got:
                found.append(f"job {job}: {dict(got)}, expected {dict(wanted)}")
            gone = {p for p, e in entries if _left(initial[p], e["status"])}
            went = {p for p, _ in entries if _left(initial[p], tasks.get(p, {}).get("status", ""))}
            if gone != went:
                found.append(f"job {job}: evicted {sorted(went)}, expected {sorted(gone)}")
            wanted_nodes = collections.Counter(e["node"] for _, e in entries if e.get("node"))
            got_nodes = collections.Counter(
                tasks.get(p, {}).get("node") for p, e in entries if e.get("node")
            )
            if wanted_nodes != got_nodes:
                found.append(f"job {job}: on {dict(got_nodes)}, expected {dict(wanted_nodes)}")
    return found


def _left(before: str, after: str) -> bool:
    return before in ("Running", "Bound") and after in ("Releasing", "Pending", "Pipelined")


def _state(line: Json, state: Json) -> Iterator[str]:
    expected = line["expected"] or {}
    resolved = {
        task["pod"]: task for job in line["resolved"]["jobs"].values() for task in job["tasks"]
    }
    pods = {
        name: [task["pod"] for task in job["tasks"]]
        for name, job in line["resolved"]["jobs"].items()
    }
    groups: dict[str, dict[str, str]] = {}
    for job, wanted in (expected.get("jobs") or {}).items():
        for pod in pods[job]:
            yield from _task(state, resolved, pod, wanted, groups, of_job=True)
        yield from _sums(state, resolved, pods[job], wanted)
        yield from _start(state, job, wanted)
        if "error" in wanted:
            yield from _error(state, job, wanted["error"])
    for pod, wanted in (expected.get("tasks") or {}).items():
        if wanted.get("matches_no_task"):
            continue
        yield from _task(state, resolved, pod, wanted, groups, of_job=False)
        yield from _sums(state, resolved, [pod], wanted)
        job = next(name for name, members in pods.items() if pod in members)
        yield from _start(state, job, wanted)
        if "error" in wanted:
            yield from _error(state, job, wanted["error"])
    for node, wanted in (expected.get("nodes") or {}).items():
        got = state["nodes"][node]
        for key in ("idle_gpus", "releasing_gpus"):
            if abs(got[key] - wanted[key]) > _EPSILON:
                yield f"node {node}: {key} {got[key]}, expected {wanted[key]}"
        yield from _zones(node, got, wanted)


def _zones(node: str, got: Json, wanted: Json) -> Iterator[str]:
    for index, amounts in (wanted.get("numa_zones_available") or {}).items():
        zone = got.get("numa_zones_available", {}).get(int(index), {})
        for name, amount in amounts.items():
            parsed = quantity.parse(amount)
            value = parsed.value if name == "memory" else parsed.milli
            key = "gpu" if name == "nvidia.com/gpu" else name
            if zone.get(key) != value:
                yield f"node {node}: zone {index} has {zone.get(key)} {name}, expected {value}"


def _task(
    state: Json,
    resolved: Json,
    pod: str,
    wanted: Json,
    groups: dict[str, dict[str, str]],
    *,
    of_job: bool,
) -> Iterator[str]:
    got = state["tasks"].get(pod)
    if got is None:
        yield f"{pod}: absent"
        return
    if got["status"] != wanted["status"]:
        yield f"{pod}: {got['status']}, expected {wanted['status']}"
    if wanted.get("node") and got.get("node") != wanted["node"]:
        yield f"{pod}: on {got.get('node')}, expected {wanted['node']}"
    if of_job and "numa_zones" in wanted:
        zones = sorted(got.get("numa_zones", []))
        if zones != sorted(wanted["numa_zones"]):
            yield f"{pod}: zones {zones}, expected {wanted['numa_zones']}"
    shared = resolved[pod]["request_type"] in ("Fraction", "GpuMemory")
    tokens, mine = wanted.get("gpu_groups") or [], got.get("gpu_groups") or []
    if (
        got["status"] in _USED
        and shared
        and not wanted.get("dont_validate_gpu_group")
        and mine == tokens
    ):
        known = groups.setdefault(str(got.get("node")), {})
        for token, name in zip(tokens, mine, strict=True):
            if known.setdefault(token, name) != name:
                yield f"{pod}: device {name}, expected {token}"


def _sums(state: Json, resolved: Json, pods: list[str], wanted: Json) -> Iterator[str]:
    gpus = sum(resolved[pod]["gpus"] for pod in pods)
    if abs(gpus - wanted["gpus_required"]) > _EPSILON:
        yield f"{pods}: {gpus} GPUs required, expected {wanted['gpus_required']}"
    if wanted.get("gpus_accepted"):
        accepted = sum(state["tasks"].get(pod, {}).get("accepted_gpus", 0) for pod in pods)
        if abs(accepted - wanted["gpus_accepted"]) > _EPSILON:
            yield f"{pods}: {accepted} GPUs accepted, expected {wanted['gpus_accepted']}"
    for key, name in (("milli_cpu_required", "cpu"), ("memory_required", "memory")):
        if wanted.get(key):
            amount = sum(resolved[pod]["requests"].get(name, 0) for pod in pods)
            if amount != wanted[key]:
                yield f"{pods}: {name} {amount}, expected {wanted[key]}"


def _start(state: Json, job: str, wanted: Json) -> Iterator[str]:
    if wanted["status"] not in _ALLOCATED:
        return
    age = state["last_start_age_s"].get(job)
    if age is None:
        yield f"job {job}: no start time"
    elif wanted.get("last_start_older_than_s") and age < wanted["last_start_older_than_s"]:
        yield f"job {job}: started {age} s ago, expected {wanted['last_start_older_than_s']}"


def _error(state: Json, job: str, wanted: Json) -> Iterator[str]:
    for reason in state["reasons"].get(job, ()):
        if reason.code == wanted["category"] and _facts(reason.details, wanted):
            return
    got = [(reason.code, dict(reason.details)) for reason in state["reasons"].get(job, ())]
    yield f"job {job}: reasons {got}, expected {wanted}"


def _facts(details: Any, wanted: Json) -> bool:
    for key, value in wanted.items():
        if key == "category":
            continue
        if key == "requested_gpus":
            if abs(details["requested"] / 1000 - value) > _EPSILON:
                return False
        elif key == "quota_gpus":
            if abs(details["bound"] / 1000 - value) > _EPSILON:
                return False
        elif details.get(key) != value:
            return False
    return True


def _call_bounds(line: Json, calls: list[Json]) -> Iterator[str]:
    bounds = (line["mocks"] or {}).get("cache") or {}
    for index, made in enumerate(calls):
        for kind in ("binds", "evictions", "pipelines"):
            most = bounds.get(f"max_{kind}", 0)
            if made[kind] > most:
                yield f"session {index}: {made[kind]} {kind}, at most {most}"


def _against_observed(state: Json, wanted: Json) -> Iterator[str]:
    for pod, view in wanted["tasks"].items():
        got = state["tasks"].get(pod, {})
        if got.get("status") != view["status"]:
            yield f"{pod}: {got.get('status')}, observed {view['status']}"


TITLES = status.TITLES
