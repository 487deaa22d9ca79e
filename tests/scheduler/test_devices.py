"""Shared GPUs, claims and NUMA zones."""

from __future__ import annotations

import dataclasses

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


def claim(name: str, count: int, *, template: bool = False, queue: str = "q") -> specs.Claim:
    return specs.Claim(
        namespace="ns",
        name=name,
        device_class="gpu.nvidia.com",
        count=count,
        template=template,
        labels={"kai.scheduler/queue": queue},
    )


def test_a_shared_claim_is_counted_once() -> None:
    made = world.World()
    made.node("n", gpus=2, dra=True)
    made.queue("q", 2)
    made.seen.put_claim(claim("both", 2), gpu=True)
    uses = specs.Constraints(claims=("both",))
    made.job("j", "q", pods=3, gpus=0, constraints=uses)
    made.job("other", "q", gpus=1)
    made.run()
    assert len(made.where()) == 3
    assert made.session.queues["q"].allocated[2] == 2000


def test_claims_need_the_label_of_the_queue() -> None:
    made = world.World()
    made.node("n", gpus=2, dra=True)
    made.queue("q", 2)
    made.seen.put_claim(claim("wrong", 1, queue="other"), gpu=True)
    made.seen.put_claim(claim("own", 1, queue="other", template=True), gpu=True)
    made.job("j", "q", gpus=0, constraints=specs.Constraints(claims=("wrong",)))
    made.job("k", "q", gpus=0, constraints=specs.Constraints(claims=("own",)))
    made.run()
    assert set(made.where()) == {"k-0"}
    assert "needs the label" in made.engine.explain(("ns", "j"))[0].message


def test_devices_are_named_when_a_claim_is_first_used() -> None:
    made = world.World()
    made.node("n", gpus=0, dra=True)
    made.queue("q", 4)
    made.seen.put_slice(
        specs.DeviceSlice(
            name="s",
            node="n",
            pool="pool",
            devices=("gpu-0", "gpu-1", "gpu-2"),
            device_class="gpu.nvidia.com",
        )
    )
    held = dataclasses.replace(claim("held", 1), allocated=(("pool", "gpu-0"),))
    for spec in (held, claim("two", 2), claim("more", 2)):
        made.seen.put_claim(spec, gpu=True)
    made.job("r", "q", on="n", gpus=0, constraints=specs.Constraints(claims=("held",)))
    made.job("j", "q", gpus=0, constraints=specs.Constraints(claims=("two",)))
    made.job("k", "q", gpus=0, constraints=specs.Constraints(claims=("more",)))
    (bind,) = made.run().binds
    assert bind.devices == (("two", (("pool", "gpu-1"), ("pool", "gpu-2"))),)


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
