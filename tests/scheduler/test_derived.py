"""Play the scenarios of `derived.yaml`, which were reasoned from the rules.

| Field | Means |
|---|---|
| `nodes` | name: number of GPUs, or the arguments of `World.node` |
| `queues` | name: arguments of `World.queue` |
| `jobs` | name: arguments of `World.job`; `name*4` makes name0 to name3, and `number` is their number. `at` lists nodes by pod, `of` subgroups by pod, `state` of the placed pods, `tasks` further fields by pod |
| `expect` | job or pod: state, then node or reason; `evicted`: pods; `count`: active pods by queue; `at`: active pods by node; `idle`: whole GPUs by node; `groups`: device by pod; `together`: pods that share the value of the label `by` |
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
from typing import Any

import pytest

from tenantry.core import yamls
from tenantry.scheduler.engine import config, specs, status
from tenantry.scheduler.scenarios import world

FILE = pathlib.Path(__file__).parents[1] / "fixtures" / "scheduler" / "derived.yaml"
(SCENARIOS,) = yamls.read(FILE.read_text())
_SERIES = re.compile(r"^(.*)\*(\d+)$")


@pytest.mark.parametrize("given", SCENARIOS, ids=[given["id"] for given in SCENARIOS])
def test_derived(given: dict[str, Any]) -> None:
    made = build(given)
    now = float(given.get("now", world.NOW))
    evicted: list[str] = []
    for number in range(given.get("cycles", 1)):
        if number:
            made.apply(made.session.decisions)
        decided = made.run(now=now + number)
        assert decided.errors == []
        evicted += [eviction.task.name for eviction in decided.evictions]
    check(made, given["expect"], sorted(evicted))


def build(given: dict[str, Any]) -> world.World:
    made = world.World(settings(given))
    for name, node in given["nodes"].items():
        made.node(name, **(node if isinstance(node, dict) else {"gpus": node}))
    for name, levels in given.get("topologies", {}).items():
        made.seen.put_topology(specs.Topology(name=name, levels=tuple(levels)))
    for name, queue in given["queues"].items():
        bounds = {r: specs.Bound(**bound) for r, bound in queue.pop("resources", {}).items()}
        made.queue(name, **queue, resources=bounds)
        if bounds:
            queue["resources"] = {r: dataclasses.asdict(b) for r, b in bounds.items()}
    for name, job in given["jobs"].items():
        series = _SERIES.match(name)
        if series is None:
            put_job(made, name, dict(job))
            continue
        for number in range(int(series[2])):
            put_job(
                made,
                f"{series[1]}{number}",
                {k: number if v == "number" else v for k, v in job.items()},
            )
    return made


def settings(given: dict[str, Any]) -> config.Config:
    """Return the defaults, with plugins replaced (by name) or given other arguments."""
    changed = given.get("plugins", {})
    plugins = [
        config.PluginChoice(
            new if isinstance(new := changed.get(choice.name), str) else choice.name,
            new if isinstance(new, dict) else choice.arguments,
        )
        for choice in config.PLUGINS
    ]
    return config.Config(
        actions=tuple(given.get("actions", config.ACTIONS)), plugins=tuple(plugins)
    )


def put_job(made: world.World, name: str, job: dict[str, Any]) -> None:
    nodes = job.pop("at", [])
    of = job.pop("of", [])
    state = status.BY_TITLE[job.pop("state", "Running")]
    changes = job.pop("tasks", {})
    job["groups"] = tuple(job.get("groups", ()))
    if "topology" in job:
        job["topology"] = specs.TopologyConstraint(**job["topology"])
    if "subgroups" in job:
        job["subgroups"] = tuple(
            specs.Subgroup(
                **{**part, "topology": specs.TopologyConstraint(**part["topology"])}
                if "topology" in part
                else part
            )
            for part in job["subgroups"]
        )
    if nodes:
        job.setdefault("started", 1.0)
    job.setdefault("pods", 1)
    made.job(name, **job, subgroup_of=dict(enumerate(of)))
    for index in range(job["pods"]):
        task = made.seen.tables.tasks[made.seen.row_of[f"ns/{name}-{index}"]]
        assert task is not None
        node = nodes[index] if index < len(nodes) else ""
        fields = dict(changes.get(index, {}))
        if "status" in fields:
            fields["status"] = status.BY_TITLE[fields["status"]]
        elif node:
            fields["status"] = state
        made.seen.put_task(dataclasses.replace(task, node=node, **fields))


def check(made: world.World, expect: dict[str, Any], evicted: list[str]) -> None:
    opened = made.session
    columns = opened.state
    rows = {task.name: row for row, task in enumerate(columns.tasks) if task is not None}
    where = made.where()
    jobs = {key[1]: job for key, job in made.seen.jobs.items()}
    reasons = {key[1]: found for key, found in opened.decisions.reasons.items()}
    for name, wanted in expect.items():
        if name == "evicted":
            assert evicted == sorted(wanted)
        elif name == "count":
            for queue, number in wanted.items():
                leaves = [
                    leaf for job in jobs.values() if job.queue == queue for leaf in job.leaves
                ]
                assert sum(columns.active(leaf.index) for leaf in leaves) == number, queue
        elif name == "at":
            for node, number in wanted.items():
                assert list(where.values()).count(node) == number, where
        elif name == "idle":
            for node, number in wanted.items():
                assert columns.idle[3, columns.nodes.by_name[node]] == number * 1000, node
        elif name == "groups":
            for pod, group in wanted.items():
                assert columns.task_groups[rows[pod]] == (group,)
        elif name == "together":
            labels = {node.name: node.labels.get(expect["by"]) for node in columns.nodes.specs}
            for pods in wanted:
                assert len({labels[where[pod]] for pod in pods}) == 1, where
        elif name != "by":
            pods = [f"{name}-{i}" for i in range(len(jobs[name].rows))] if name in jobs else [name]
            for pod in pods:
                _check_pod(made, rows[pod], wanted, reasons)


def _check_pod(made: world.World, row: int, wanted: str, reasons: dict[str, Any]) -> None:
    now, node, _ = made.session.placement(row)
    task = made.seen.tables.tasks[row]
    assert task is not None
    assert task.job is not None
    state, _, more = wanted.partition(" ")
    job = task.job[1]
    assert status.TITLES[now] == state, (task.name, reasons.get(job))
    if more and state == "Pending":
        assert more in [reason.code for reason in reasons[job]], reasons[job]
    elif more:
        assert made.session.state.nodes.names[node] == more, task.name
    elif state == "Pending" and not made.session.job_of(row):
        raise AssertionError("pending outside of a job")
