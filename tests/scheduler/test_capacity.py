"""Limits and quotas, and the words in which they are refused."""

from __future__ import annotations

import pytest

from tenantry.scheduler.engine import specs
from tenantry.scheduler.scenarios import world

UNBOUND = specs.Bound(quota=-1, limit=-1)


def reason(made: world.World, job: str) -> tuple[str, str]:
    found = made.engine.explain(("ns", job))
    return (found[0].code, found[0].message) if found else ("", "")


def test_limit_of_an_ancestor() -> None:
    made = world.World()
    made.node("n")
    made.queue("team", -1, limit=2)
    made.queue("leaf", -1, parent="team")
    made.job("a", "leaf", on="n", gpus=2)
    made.job("b", "leaf")
    made.run()
    assert reason(made, "b") == (
        "OverLimit",
        "team quota has reached the allowable limit of GPUs. Limit is 2 GPUs, currently 2 GPUs "
        "allocated and workload requested 1 GPUs",
    )


def test_non_preemptible_over_quota() -> None:
    made = world.World()
    made.node("n")
    made.queue("q", 0.5)
    made.job("j", "q", gpus=0.7, priority=100)
    made.run()
    assert reason(made, "j") == (
        "NonPreemptibleOverQuota",
        "Non-preemptible workload is over quota. Workload requested 0.7 GPUs, but q quota is "
        "0.5 GPUs, while 0 GPUs are already allocated for non-preemptible pods. Use a preemptible "
        "workload to go over quota.",
    )


def test_tenths_add_up_exactly() -> None:
    """0.1 + 0.2 against 0.3 must fit: arithmetic is in integers."""
    made = world.World()
    made.node("n")
    made.queue("q", 0.3)
    made.job("a", "q", gpus=0.1, priority=100)
    made.job("b", "q", gpus=0.2, priority=100)
    assert len(made.run().binds) == 2


@pytest.mark.parametrize(
    ("name", "more"),
    [("example.com/fpga", {"example.com/fpga": 2000}), ("nvidia.com/mig-1g.5gb", {})],
)
def test_any_resource_can_be_limited(name: str, more: dict[str, int]) -> None:
    wanted = more or {name: 2000}
    made = world.World()
    made.node("n", more={name: 8000}, mig="mixed" if "mig" in name else "")
    made.queue("q", -1, resources={name: specs.Bound(quota=-1, limit=3000)})
    for job in "ab":
        made.job(job, "q", gpus=0, more=wanted)
    decided = made.run()
    assert len(decided.binds) == 1
    assert reason(made, "b")[0] == "OverLimit"


def test_limit_per_gpu_product() -> None:
    made = world.World()
    made.node("a", labels={"nvidia.com/gpu.product": "A100"}, gpus=2)
    made.node("b", labels={"nvidia.com/gpu.product": "T4"}, gpus=1)
    made.queue("q", -1, resources={"gpu:A100": specs.Bound(quota=-1, limit=1000)})
    for index in range(3):
        made.job(f"j{index}", "q")
    made.run()
    assert sorted(made.where().values()) == ["a", "b"]


def test_borrowing_limit() -> None:
    made = world.World()
    made.node("n")
    bound = specs.Bound(quota=2000, limit=-1, borrowing_limit=1000)
    made.queue("q", resources={"gpu": bound})
    for index in range(5):
        made.job(f"j{index}", "q")
    assert len(made.run().binds) == 3


def test_queue_with_children_takes_no_jobs() -> None:
    made = world.World()
    made.node("n")
    made.queue("q")
    made.job("j", "default")
    made.run()
    assert reason(made, "j") == (
        "QueueDoesNotExist",
        "Queue 'default' has child queues; jobs may only sit in leaf queues",
    )
