"""Run a scenario: one session, or several with the state carried over."""

from __future__ import annotations

from typing import Any

from tenantry.scheduler.engine import cycle, session, status
from tenantry.scheduler.scenarios import table

Json = dict[str, Any]
State = Json


def run(line: Json) -> tuple[list[State], list[Json]]:
    """Return the states to compare, and the number of calls per session."""
    engine = cycle.Engine(table.settings(line))
    passive = cycle.Engine(_without_actions(line))
    states = table.initial(line)
    compared: list[State] = []
    calls: list[Json] = []
    single = line["suite"] == "single"
    rounds = line["rounds"]
    for _ in range(1 if single else rounds["until_match"]):
        opened = _session(engine, line, states)
        calls.append(_calls(opened))
        if single:
            compared.append(_view(line, opened))
        states = _written_back(line, opened)
    if single:
        return compared, calls
    reasons = opened.decisions.reasons
    opened = _session(passive, line, states)
    opened.decisions.reasons = reasons
    compared.append(_view(line, opened))
    calls.append(_calls(opened))
    for _ in range(rounds["after_match"]):
        opened = _session(engine, line, states)
        compared.append(_view(line, opened))
        calls.append(_calls(opened))
        states = _written_back(line, opened)
    return compared, calls


def _without_actions(line: Json) -> Any:
    import dataclasses

    return dataclasses.replace(table.settings(line), actions=())


def _session(
    engine: cycle.Engine, line: Json, states: dict[str, table.TaskState]
) -> session.Session:
    engine.run(table.build(line, states), now=table.NOW)
    assert engine.last is not None
    return engine.last


def _calls(opened: session.Session) -> Json:
    made = opened.decisions
    return {
        "binds": len(made.binds),
        "evictions": len(made.evictions),
        "pipelines": len(made.plans),
    }


def _view(line: Json, opened: session.Session) -> State:
    state = opened.state
    tasks: Json = {}
    for job in line["jobs"]:
        for raw in job["tasks"]:
            row = opened.observed.row_of.get(raw["pod"])
            if row is None:
                continue
            now, node, groups = opened.placement(row)
            view: Json = {"status": status.TITLES[now]}
            if node >= 0:
                view["node"] = state.nodes.names[node]
                if status.IS_ACTIVE[now]:
                    view["accepted_gpus"] = state.charge(state.shape_of[row], node)[2] / 1000
            if groups:
                view["gpu_groups"] = list(groups)
            zones = opened.decisions.numa.get(row)
            if zones is not None:
                view["numa_zones"] = list(zones)
            tasks[raw["pod"]] = view
    nodes = {}
    for name, node in state.nodes.by_name.items():
        idle, free = int(state.idle[3, node]), int(state.free[3, node])
        nodes[name] = {"idle_gpus": idle / 1000, "releasing_gpus": (free - idle) / 1000}
        available = opened.notes.get("numa")
        if available is not None:
            nodes[name]["numa_zones_available"] = available.zones(node)  # type: ignore[attr-defined]
    started: dict[str, float] = {}
    for key, job in opened.observed.jobs.items():
        if key in opened.started:
            started[key[1]] = 0.0
        elif job.spec is not None and job.spec.started is not None:
            started[key[1]] = opened.now - job.spec.started
    return {
        "tasks": tasks,
        "nodes": nodes,
        "last_start_age_s": started,
        "reasons": {key[1]: found for key, found in opened.decisions.reasons.items()},
    }


def _written_back(line: Json, opened: session.Session) -> dict[str, table.TaskState]:
    result: dict[str, table.TaskState] = {}
    for job in line["jobs"]:
        for raw in job["tasks"]:
            row = opened.observed.row_of.get(raw["pod"])
            if row is None:
                continue
            now, node, groups = opened.placement(row)
            name = opened.state.nodes.names[node] if node >= 0 else ""
            if (
                now == status.RELEASING and not job.get("delete_in_test")
            ) or now == status.PIPELINED:
                now, name, groups = status.PENDING, "", ()
            elif now == status.BINDING:
                now = status.RUNNING
            result[raw["pod"]] = table.TaskState(now, name, groups)
    return result
