"""Translate one scenario into what the engine is told."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from tenantry.scheduler.engine import config, observed, specs, status
from tenantry.scheduler.scenarios import offers

NOW = 2_000_000_000.0
Json = dict[str, Any]

DEFAULT_PLUGINS = (
    "predicates",
    "proportion",
    "priority",
    "elastic",
    "kubeflow",
    "ray",
    "nodeavailability",
    "gpusharingorder",
    "gpupack",
    "resourcetype",
    "subgrouporder",
    "taskorder",
    "nominatednode",
    "dynamicresources",
    "nodeplacement",
    "minruntime",
    "topology",
    "snapshot",
    "sg-nodelocalgreedy",
    "sg-multinodegang",
)


@dataclasses.dataclass(slots=True)
class TaskState:
    """What a session starts from and what it leaves behind, for one pod."""

    status: int
    node: str = ""
    groups: tuple[str, ...] = ()


def initial(line: Json) -> dict[str, TaskState]:
    """Return the states with which the first session starts."""
    return {
        task["pod"]: TaskState(
            status.BY_TITLE[task["state"]], task.get("node", ""), tuple(task.get("gpu_groups", ()))
        )
        for job in line["jobs"]
        for task in job["tasks"]
    }


def settings(line: Json) -> config.Config:
    """Return the configuration of the scenario's sessions."""
    chosen = line["resolved"].get("plugins")
    if chosen is None:
        plugins = [config.PluginChoice(name) for name in DEFAULT_PLUGINS]
        if not line["predicates_enabled"]:
            plugins = plugins[1:]
        if any("numa" in node for node in line["nodes"]):
            plugins.append(config.PluginChoice("numa"))
    else:
        plugins = [config.PluginChoice(p["name"], p.get("arguments", {})) for p in chosen]
    return config.Config(
        actions=tuple(line["actions"]),
        plugins=tuple(plugins),
        staleness_grace=float(line["staleness_grace_s"]),
        max_consolidation_victims=-1,
        signatures=False,
    )


def build(line: Json, states: Mapping[str, TaskState]) -> observed.Observed:
    """Return the observed state of one session."""
    seen = observed.Observed()
    raw_nodes = {node["name"]: node for node in line["nodes"]}
    dra = line.get("dra") or {}
    sliced: dict[str, int] = {}
    for piece in dra.get("resource_slices", ()):
        node_name = piece.get("node", "")
        sliced[node_name] = sliced.get(node_name, 0) + int(piece["count"])
    for name, node in line["resolved"]["nodes"].items():
        seen.put_node(_node(name, node, raw_nodes[name], claimed=sliced.get(name)))
    for name, queue in line["resolved"]["queues"].items():
        seen.put_queue(_queue(name, queue))
    for topology in line["topologies"]:
        levels = tuple(level["nodeLabel"] for level in topology["levels"])
        seen.put_topology(specs.Topology(name=topology["name"], levels=levels))
    templates = {
        name
        for job in line["jobs"]
        for task in job["tasks"]
        for name in task.get("claim_templates", {}).values()
    }
    offers.fold(seen, dra, templates)
    if any("pvc_names" in task for job in line["jobs"] for task in job["tasks"]):
        seen.put_volumes({})
    for job in line["jobs"]:
        _put_job(seen, line, job, states)
    return seen


def _node(name: str, node: Json, raw: Json, *, claimed: int | None) -> specs.Node:
    amounts: dict[str, int] = {}
    for resource, amount in node["allocatable"].items():
        scale = 1 if resource in ("cpu", "memory", "pods") else 1000
        amounts[resource] = round(amount * scale)
    if claimed:
        # The slices bring theirs themselves.
        amounts["gpu"] = max(amounts.get("gpu", 0) - 1000 * claimed, 0)
    labels = node["labels"]
    mig = labels.get("nvidia.com/mig.strategy", "")
    numa = raw.get("numa")
    return specs.Node(
        name=name,
        allocatable=amounts,
        labels=labels,
        gpu_memory=node["gpu_memory"],
        gpu_memory_synced=node["gpu_memory_synced"],
        gpu_count=node["gpu_count"],
        mig=mig if labels.get("node-role.kubernetes.io/mig-enabled") != "false" else "",
        dra=claimed is not None,
        numa=_numa(numa) if numa else None,
    )


def _numa(numa: Json) -> specs.Numa:
    zones = tuple(
        specs.Zone(
            name=zone["id"],
            allocatable=_zone(zone["allocatable"]),
            available=_zone(zone["available"]),
        )
        for zone in numa["zones"]
    )
    return specs.Numa(policy=numa["policy"], scope=numa["scope"], zones=zones)


def _zone(amounts: Mapping[str, float]) -> dict[str, int]:
    scaled = {}
    for name, amount in amounts.items():
        if name in ("cpu", "memory"):
            scaled[name] = round(amount)
        else:
            scaled["gpu" if name == "nvidia.com/gpu" else name] = round(amount * 1000)
    return scaled


def _queue(name: str, queue: Json) -> specs.Queue:
    def bound(values: Json, scale: int) -> specs.Bound:
        def scaled(value: float) -> int:
            return -1 if value < 0 else round(value * scale)

        return specs.Bound(
            quota=scaled(values["quota"]), limit=scaled(values["limit"]), weight=values["weight"]
        )

    return specs.Queue(
        name=name,
        parent=queue["parent"],
        priority=queue["priority"],
        created=NOW + queue["created_offset_s"],
        resources={
            "gpu": bound(queue["gpu"], 1000),
            "cpu": bound(queue["cpu"], 1),
            "memory": bound(queue["memory"], 1_000_000),
        },
        reclaim_min_runtime=queue.get("reclaim_min_runtime_s"),
        preempt_min_runtime=queue.get("preempt_min_runtime_s"),
    )


def _put_job(
    seen: observed.Observed, line: Json, raw: Json, states: Mapping[str, TaskState]
) -> None:
    resolved = line["resolved"]["jobs"][raw["name"]]
    namespace = raw.get("namespace", "")
    tree = resolved["subgroup_tree"]
    subgroups: list[specs.Subgroup] = []
    _walk(tree, "", subgroups)
    running = any(
        status.IS_ALLOCATED[states[task["pod"]].status]
        for task in raw["tasks"]
        if task["pod"] in states
    )
    stale = resolved.get("stale_since_offset_s")
    seen.put_job(
        specs.Job(
            namespace=namespace,
            name=raw["name"],
            queue=raw["queue"],
            priority=resolved["priority"],
            preemptible=resolved["preemptible"],
            subgroups=tuple(subgroups),
            min_subgroup=tree.get("min_subgroup"),
            topology=_topology(tree),
            created=NOW + resolved["created_offset_s"],
            started=NOW - 60 if running else None,
            stale_since=NOW + stale if stale is not None and resolved.get("stale") else None,
            preemption_delay=raw.get("preemption_delay_s", 0.0),
            staleness_grace=raw.get("staleness_grace_s"),
            held="not ready in this scenario" if raw.get("not_ready_for_session") else "",
        )
    )
    details = {task["pod"]: task for task in resolved["tasks"]}
    for task in raw["tasks"]:
        if task["pod"] in states:
            seen.put_task(_task(task, details[task["pod"]], raw, states[task["pod"]]))


def _walk(group: Json, parent: str, found: list[specs.Subgroup]) -> None:
    found += [
        specs.Subgroup(
            name=leaf["name"],
            parent=parent,
            min_member=leaf["min_available"],
            topology=_topology(leaf),
        )
        for leaf in group.get("pod_sets", ())
    ]
    for child in group.get("groups", ()):
        found.append(
            specs.Subgroup(
                name=child["name"],
                parent=parent,
                min_subgroup=child.get("min_subgroup"),
                topology=_topology(child),
            )
        )
        _walk(child, child["name"], found)


def _topology(member: Json) -> specs.TopologyConstraint | None:
    constraint = member.get("topology_constraint")
    if not constraint:
        return None
    return specs.TopologyConstraint(
        topology=constraint["topology"],
        required=constraint.get("required_level", ""),
        preferred=constraint.get("preferred_level", ""),
    )


def _task(task: Json, details: Json, job: Json, state: TaskState) -> specs.Task:
    requests: dict[str, int] = {}
    for name, amount in details["requests"].items():
        if name in ("cpu", "memory"):
            requests[name] = round(amount)
        elif name not in ("pods", "gpu"):
            requests[name] = round(amount * 1000)
    kind = details["request_type"]
    gpus = portion = memory = 0
    if kind == "Fraction":
        portion = round(details["gpu_portion"] * 1_000_000)
    elif kind == "GpuMemory":
        memory = round(details["gpu_memory"])
    elif kind == "Regular":
        claimed = sum((details.get("dra_gpus") or {}).values())
        gpus = round(
            (details["requests"].get("gpu", 0) - min(claimed, details["requests"].get("gpu", 0)))
            * 1000
        )
    labels = dict(task.get("pod_affinity_labels", {}))
    return specs.Task(
        namespace=job.get("namespace", ""),
        name=task["pod"],
        uid=task["pod"],
        job=(job.get("namespace", ""), job["name"]),
        subgroup=task.get("subgroup", ""),
        status=state.status,
        node=state.node,
        requests=requests,
        gpus=gpus,
        portion=portion,
        gpu_memory=memory,
        devices=max(int(details.get("gpu_devices", 1)), 1)
        if kind in ("Fraction", "GpuMemory")
        else 1,
        groups=state.groups,
        priority=task.get("priority"),
        labels=labels,
        constraints=_constraints(task, labels),
        guaranteed=job.get("qos_class") == "Guaranteed",
        numa=_placement(task),
    )


def _constraints(task: Json, labels: Mapping[str, str]) -> specs.Constraints:
    affinity: specs.Terms = ()
    if "node_affinity_names" in task:
        affinity = (
            (
                specs.Requirement(
                    key="kai.scheduler/type",
                    operator="In",
                    values=tuple(task["node_affinity_names"]),
                ),
            ),
        )
    selector = tuple(
        specs.Requirement(key=key, operator="In", values=(value,)) for key, value in labels.items()
    )

    def terms(field: str) -> tuple[specs.AffinityTerm, ...]:
        if field not in task:
            return ()
        return (specs.AffinityTerm(topology_key=task[field], selector=selector),)

    return specs.Constraints(
        affinity=affinity,
        pod_affinity=terms("pod_affinity_topology_key"),
        pod_anti_affinity=terms("pod_anti_affinity_topology_key"),
        claims=(*task.get("claim_names", ()), *task.get("claim_templates", {}).values()),
        volumes=tuple(task.get("pvc_names", ())),
        legacy_mig=bool(task.get("legacy_mig")),
    )


def _placement(task: Json) -> tuple[tuple[str, tuple[tuple[str, int], ...]], ...]:
    from tenantry.core import quantity

    text = (task.get("annotations") or {}).get("kai.scheduler/numa-placement-observed")
    if not text:
        return ()
    return tuple(
        (
            entry["zone"],
            tuple(
                (
                    "gpu" if name == "nvidia.com/gpu" else name,
                    quantity.parse(amount).value
                    if name == "memory"
                    else quantity.parse(amount).milli,
                )
                for name, amount in entry["amount"].items()
            ),
        )
        for entry in json.loads(text)
    )
