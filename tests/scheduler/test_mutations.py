"""Scenarios with other numbers in them: whatever is decided, nothing breaks and nothing doubles."""

from __future__ import annotations

import copy
import gzip
import json
import pathlib
import random
from typing import Any

import pytest

from tenantry.scheduler.engine import audit, config, cycle
from tenantry.scheduler.scenarios import runner, table

TABLE = pathlib.Path(__file__).parents[1] / "fixtures/scheduler/scenarios.jsonl.gz"
CYCLES: list[dict[str, Any]] = [
    line
    for line in map(json.loads, gzip.decompress(TABLE.read_bytes()).splitlines())
    if line["kind"] == "cycle"
]


def mutated(rng: random.Random) -> dict[str, Any]:
    line = copy.deepcopy(rng.choice(CYCLES))
    resolved = line["resolved"]
    for job in resolved["jobs"].values():
        if rng.random() < 0.4:
            job["priority"] = rng.choice([50, 75, 100, 125])
        if rng.random() < 0.3:
            job["preemptible"] = rng.random() < 0.7
        for leaf in job["subgroup_tree"].get("pod_sets", ()):
            if rng.random() < 0.4:
                leaf["min_available"] = max(0, leaf["min_available"] + rng.choice([-2, -1, 1]))
        for task in job["tasks"]:
            kind = task["request_type"]
            if rng.random() < 0.2 and kind == "Regular" and not task.get("dra_gpus"):
                task["requests"]["gpu"] = rng.choice([0, 1, 2, 4])
            if rng.random() < 0.3 and kind == "Fraction":
                task["gpu_portion"] = rng.choice([0.1, 0.3, 0.5, 0.9])
                task["gpu_devices"] = rng.choice([1, 1, 2])
    for queue in resolved["queues"].values():
        if rng.random() < 0.4:
            queue["gpu"]["quota"] = rng.choice([-1, 0, 0.5, 1, 2, 4])
        if rng.random() < 0.2:
            queue["gpu"]["limit"] = rng.choice([-1, 0, 1, 3])
    for node in resolved["nodes"].values():
        if rng.random() < 0.3 and "gpu" in node["allocatable"]:
            node["allocatable"]["gpu"] = rng.choice([0, 1, 2, 4, 8])
    for job in line["jobs"]:
        for task in job["tasks"]:
            if rng.random() < 0.15 and task["state"] == "Running":
                task["state"] = rng.choice(["Pending", "Releasing", "Succeeded", "Failed"])
            if task["state"] in {"Pending", "Succeeded", "Failed"}:
                task.pop("node", None)
                task.pop("gpu_groups", None)
    line["actions"] = list(config.ACTIONS)
    return line


@pytest.mark.parametrize("seed", range(40))
def test_anything_goes(seed: int) -> None:
    line = mutated(random.Random(seed))
    engine = cycle.Engine(table.settings(line))
    states = table.initial(line)
    for _ in range(3):
        seen = table.build(line, states)
        assert audit.drift(seen) == []
        assert engine.run(seen, now=table.NOW).errors == []
        opened = engine.last
        assert opened is not None
        before, after = seen.tables, opened.state
        size = after.idle.shape[1]
        # A scenario may begin with more on a node than fits; decisions must not add to it.
        assert not ((after.idle < 0) & (before.idle[:, :size] >= 0)).any()
        assert not ((after.free < 0) & (before.free[:, :size] >= 0)).any()
        states = runner._written_back(line, opened)
