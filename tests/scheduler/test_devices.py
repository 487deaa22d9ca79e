"""Shared GPUs, claims and NUMA zones."""

from __future__ import annotations

import pytest

from tenantry.scheduler.engine import alignment, config, devices, specs, status
from tenantry.scheduler.scenarios import world


def test_the_first_task_takes_a_whole_gpu_and_the_last_gives_it_back() -> None:
    group = devices.new()
    assert devices.whole(group) == (0, 0)
    devices.change(group, status.RUNNING, 40, 1)
    assert devices.whole(group) == (1000, 1000)
    devices.change(group, status.RUNNING, 40, 1)
    devices.change(group, status.RUNNING, 40, -1)
    devices.change(group, status.RELEASING, 40, 1)
    assert devices.whole(group) == (1000, 1000)  # one stays
    devices.change(group, status.RUNNING, 40, -1)
    devices.change(group, status.RELEASING, 40, 1)
    assert devices.whole(group) == (1000, 0)  # all are leaving
    devices.change(group, status.PIPELINED, 30, 1)
    assert devices.whole(group) == (1000, 1000)  # somebody plans to stay
    devices.change(group, status.RELEASING, 40, -1)
    devices.change(group, status.RELEASING, 40, -1)
    devices.change(group, status.PIPELINED, 30, -1)
    assert group == devices.new()


@pytest.mark.parametrize(("plugin", "together"), [("gpupack", True), ("gpuspread", False)])
def test_packing_and_spreading(plugin: str, *, together: bool) -> None:
    plugins = tuple(p for p in config.PLUGINS if not p.name.startswith("gpu"))
    made = world.World(config.Config(plugins=(*plugins, config.PluginChoice(plugin))))
    made.node("n", gpus=2)
    made.queue("q", -1)
    for index in range(2):
        made.job(f"j{index}", "q", gpus=0.5)
    decided = made.run()
    assert (decided.binds[0].groups == decided.binds[1].groups) is together


def test_several_devices_are_distinct() -> None:
    made = world.World()
    made.node("n", gpus=4)
    made.queue("q", -1)
    made.job("r", "q", on="n", gpus=0.5, groups=("g",))
    made.job("j", "q", gpus=0.5, devices=3)
    made.job("k", "q", gpus=0.5, devices=5)
    (bind,) = made.run().binds
    assert len(set(bind.groups)) == 3
    assert "g" in bind.groups
    assert bind.gpus == 1500


def test_gpu_memory_is_another_part_on_another_gpu() -> None:
    made = world.World()
    made.node("big", gpu_memory=80_000, gpus=1)
    made.node("small", gpu_memory=20_000, gpus=1)
    made.node("unknown", gpu_memory_synced=False)
    made.queue("q", -1)
    made.job("j", "q", gpu_memory=20_000)
    made.job("k", "q", gpu_memory=60_000)
    made.job("l", "q", gpu_memory=90_000)
    decided = {bind.task.name: (bind.node, bind.gpus) for bind in made.run().binds}
    assert decided == {"j-0": ("big", 250), "k-0": ("big", 750)}


ZONES = [{"cpu": 4000, "gpu": 2000}, {"cpu": 4000, "gpu": 2000}]
ALIGNED = [
    ("single-numa-node", {"cpu": 3000}, [0]),
    ("single-numa-node", {"cpu": 5000}, None),
    ("restricted", {"cpu": 6000, "gpu": 4000}, [0, 1]),
    ("restricted", {"cpu": 3000, "gpu": 4000}, None),
    ("restricted", {"cpu": 9000}, None),
    ("best-effort", {"cpu": 3000, "gpu": 4000}, [0, 1]),
    ("best-effort", {"cpu": 99_000}, [0, 1]),
    ("none", {"cpu": 3000}, [0]),
    ("single-numa-node", {"memory": 5}, []),
]


@pytest.mark.parametrize(("policy", "request_", "zones"), ALIGNED)
def test_alignment(policy: str, request_: dict[str, int], zones: list[int] | None) -> None:
    placement = alignment.fit(policy, ZONES, ZONES, request_)
    assert (None if placement is None else sorted({zone for zone, _ in placement})) == zones


def test_numa_filters_and_follows_evictions() -> None:
    made = world.World(config.Config(plugins=(*config.PLUGINS, config.PluginChoice("numa"))))
    zones = tuple(
        specs.Zone(name=f"zone-{i}", allocatable={"cpu": 4000}, available={"cpu": 4000})
        for i in range(2)
    )
    numa = specs.Numa(policy="single-numa-node", scope="pod", zones=zones)
    made.node("n", numa=numa)
    made.queue("q", -1)
    for name in "abc":
        made.job(name, "q", cpu=3000, gpus=0, guaranteed=True)
    made.job("burst", "q", cpu=9000, gpus=0)
    decided = {bind.task.name: bind.numa for bind in made.run().binds}
    assert decided == {"a-0": (0,), "b-0": (1,), "burst-0": ()}


def test_mig_counts_by_its_size() -> None:
    made = world.World()
    name = "nvidia.com/mig-3g.20gb"
    made.node("m", gpus=0, more={name: 2000}, mig="mixed")
    made.queue("q", -1, limit=4)
    for job in "ab":
        made.job(job, "q", gpus=0, more={name: 1000})
    (bind,) = made.run().binds
    assert bind.gpus == 3000
