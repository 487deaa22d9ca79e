"""Reclaim, preempt, consolidation and stale gangs, beyond what the scenarios hold."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tenantry.scheduler.engine import config, specs
from tenantry.scheduler.scenarios import world

NOW = world.NOW


def evicted(made: world.World) -> list[str]:
    return [eviction.task.name for eviction in made.session.decisions.evictions]


def two_queues(**reclaimer: Any) -> world.World:
    made = world.World()
    made.node("n", gpus=4)
    made.queue("rich", 2, created=1.0)
    made.queue("poor", 2, created=2.0)
    for index in range(4):
        made.job(f"r{index}", "rich", on="n", created=float(index))
    made.job("want", "poor", **reclaimer)
    return made


def test_reclaim_takes_the_newest_and_no_more_than_needed() -> None:
    made = two_queues()
    decided = made.run()
    assert evicted(made) == ["r3-0"]
    (eviction,) = decided.evictions
    assert eviction.evictor == ("ns", "want")
    assert eviction.message == "Pod ns/r3-0 was preempted by workload ns/want."


def test_reclaim_stops_at_the_quota_of_the_other() -> None:
    made = two_queues(pods=3)
    made.run()
    assert evicted(made) == []


def test_a_reclaimed_place_is_taken_in_the_next_cycle() -> None:
    made = two_queues()
    made.apply(made.run())
    decided = made.run()
    assert [bind.task.name for bind in decided.binds] == ["want-0"]
    made.apply(decided)
    assert not made.run().evictions


def test_preempt_wants_strictly_higher_priority() -> None:
    for priority, gone in ((60, ["low-0"]), (50, [])):
        made = world.World()
        made.node("n", gpus=1)
        made.queue("q", 1)
        made.job("low", "q", on="n", priority=50)
        made.job("high", "q", priority=priority)
        made.run()
        assert evicted(made) == gone


def test_non_preemptible_jobs_stay() -> None:
    made = world.World()
    made.node("n", gpus=1)
    made.queue("q", 1)
    made.job("low", "q", on="n", priority=50, preemptible=False)
    made.job("high", "q", priority=90)
    made.run()
    assert evicted(made) == []


def test_an_elastic_job_gives_its_surplus_first() -> None:
    made = world.World()
    made.node("n", gpus=4)
    made.queue("rich", 1, created=1.0)
    made.queue("poor", 3, created=2.0)
    made.job("old", "rich", on="n", created=1.0)
    made.job("wide", "rich", pods=3, minimum=1, on="n", created=2.0)
    made.job("want", "poor", pods=2)
    made.run()
    assert evicted(made) == ["wide-2", "wide-1"]


def test_consolidation_moves_but_never_loses() -> None:
    made = world.World()
    for name in ("a", "b"):
        made.node(name, gpus=2)
    made.queue("q", -1)
    made.job("one", "q", on="a", created=1.0)
    made.job("two", "q", on="b", created=2.0)
    made.job("big", "q", gpus=2, created=3.0)
    decided = made.run()
    assert [e.action for e in decided.evictions] == ["consolidation"]
    assert {plan.task.name for plan in decided.plans} == {"two-0", "big-0"}


def test_consolidation_bound_is_exact() -> None:
    for bound, works in ((3, True), (2, False), (0, False)):
        made = world.World(config.Config(max_consolidation_victims=bound))
        for name in ("a", "b", "c"):
            made.node(name, gpus=4)
        made.queue("q", -1)
        for index, node in enumerate("aabbc"):
            made.job(f"r{index}", "q", on=node, created=float(index))
        made.job("r5", "q", on="c", gpus=2, created=9.0, preemptible=False)
        made.job("big", "q", gpus=4, created=10.0)
        made.run()
        assert bool(evicted(made)) is works


@pytest.mark.parametrize(
    ("grace", "since", "gone"), [(60.0, 61, True), (60.0, 59, False), (-1.0, 999, False)]
)
def test_stale_gangs(grace: float, since: int, *, gone: bool) -> None:
    made = world.World()
    made.node("n")
    made.queue("q", -1)
    made.job("g", "q", pods=2, on="n", stale_since=NOW - since, staleness_grace=grace)
    made.seen.drop_task("ns/g-1")
    made.run()
    assert bool(evicted(made)) is gone


def test_first_sight_of_staleness_is_noted_and_taken_back() -> None:
    made = world.World()
    made.node("n")
    made.queue("q", -1)
    made.job("g", "q", pods=2, on="n")
    task = made.seen.tables.tasks[1]
    assert task is not None
    made.seen.drop_task("ns/g-1")
    decided = made.run()
    assert decided.stale_since == {("ns", "g"): NOW}
    made.apply(decided)
    made.seen.put_task(task)
    assert made.run().stale_since == {("ns", "g"): None}


def test_an_optional_subgroup_that_never_started_is_not_stale() -> None:
    made = world.World()
    made.node("n")
    made.queue("q", -1)
    parts = (specs.Subgroup(name="a", min_member=1), specs.Subgroup(name="b", min_member=1))
    made.job("g", "q", on="n", subgroups=parts, min_subgroup=1, subgroup_of={0: "a"})
    made.run()
    assert made.seen.stale == {}


def test_other_subgroups_stand_in() -> None:
    made = world.World()
    made.node("n", labels={"zone": "east"})
    made.queue("q", -1)
    parts = (specs.Subgroup(name="a", min_member=1), specs.Subgroup(name="b", min_member=1))
    made.job("g", "q", pods=2, subgroups=parts, min_subgroup=1, subgroup_of={0: "a", 1: "b"})
    task = made.seen.tables.tasks[0]
    assert task is not None
    moon = specs.Constraints(selector=(("zone", "moon"),))
    made.seen.put_task(dataclasses.replace(task, constraints=moon))
    made.run()
    assert set(made.where()) == {"g-1"}


def test_minimum_runtime_protects() -> None:
    for started, gone in ((NOW - 10, []), (NOW - 100, ["r-0"])):
        made = world.World()
        made.node("n", gpus=1)
        made.queue("rich", 0, reclaim_min_runtime=60.0)
        made.queue("poor", 1)
        made.job("r", "rich", on="n", started=started)
        made.job("want", "poor")
        made.run()
        assert evicted(made) == gone


def test_preemption_delay() -> None:
    for created, gone in ((NOW - 10, []), (NOW - 100, ["r3-0"])):
        made = two_queues(created=created, preemption_delay=60.0)
        made.run()
        assert evicted(made) == gone
        if not gone:
            codes = [reason.code for reason in made.engine.explain(("ns", "want"))]
            assert "PreemptionDelayNotElapsed" in codes


def test_a_gang_reclaims_across_nodes() -> None:
    made = world.World()
    for index in range(4):
        made.node(f"n{index}", gpus=2)
    made.queue("rich", 2, created=1.0)
    made.queue("poor", 6, created=2.0)
    for index in range(8):
        made.job(f"r{index}", "rich", on=f"n{index // 2}", created=float(index))
    made.job("gang", "poor", pods=3, gpus=2)
    decided = made.run()
    assert len(decided.evictions) == 6
    assert len({plan.node for plan in decided.plans}) == 3
