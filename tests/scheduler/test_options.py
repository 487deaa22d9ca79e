"""What is off by default: aging, reservation, maximum runtime, lending, fairness of users."""

from __future__ import annotations

import dataclasses
from typing import Any

from tenantry.scheduler.engine import config, fold_jobs, solver, specs
from tenantry.scheduler.scenarios import world

NOW = world.NOW


def with_plugin(name: str, **arguments: Any) -> config.Config:
    default = config.Config()
    return dataclasses.replace(
        default, plugins=(*default.plugins, config.PluginChoice(name, arguments))
    )


def test_aging_lets_a_waiting_job_pass() -> None:
    for settings, first in (
        (config.Config(), "new-0"),
        (with_plugin("aging", interval="1m"), "old-0"),
    ):
        made = world.World(settings)
        made.node("n", gpus=1)
        made.queue("q", 1)
        made.job("old", "q", priority=50, created=NOW - 600)
        made.job("new", "q", priority=55, created=NOW - 1)
        made.run()
        assert list(made.where()) == [first]


def fragmented(settings: config.Config) -> world.World:
    made = world.World(settings)
    for name in ("n0", "n1"):
        made.node(name, gpus=2)
    made.queue("q", -1)
    made.job("r0", "q", on="n0", priority=100, started=NOW - 10, expected_runtime=100.0)
    made.job("r1", "q", on="n1", priority=100, started=NOW - 10, expected_runtime=100.0)
    made.job("gang", "q", pods=2, gpus=2, created=NOW - 1000, priority=100)
    made.job("long", "q", created=NOW - 5, priority=100)
    made.job("short", "q", created=NOW - 4, priority=100, expected_runtime=30.0)
    return made


def test_without_reservation_small_jobs_starve_the_gang() -> None:
    made = fragmented(config.Config())
    made.run()
    assert {"long-0", "short-0"} <= set(made.where())


def test_reservation_holds_nodes_and_lets_short_jobs_pass() -> None:
    made = fragmented(with_plugin("reservation", after="5m", hold="1h"))
    made.run()
    where = set(made.where())
    assert "short-0" in where
    assert "long-0" not in where
    assert made.engine.explain(("ns", "long"))[0].code == "CapacityReserved"


def test_a_hold_ends_in_time() -> None:
    made = fragmented(with_plugin("reservation", after="5m", hold="10m"))
    made.run(now=NOW)
    made.run(now=NOW + 601)
    assert "long-0" in made.where()
    made.run(now=NOW + 700)  # no renewal before as much time has passed again
    assert "long-0" in made.where()


def test_a_hold_ends_when_the_gang_starts() -> None:
    made = fragmented(with_plugin("reservation", after="5m", hold="1h"))
    made.run()
    for name in ("r0", "r1"):
        made.seen.drop_task(f"ns/{name}-0")
    made.seen.drop_job(("ns", "short"))
    made.run()
    assert {"gang-0", "gang-1"} <= set(made.where())


def test_maximum_runtime() -> None:
    made = world.World(dataclasses.replace(config.Config(), actions=("maxruntime",)))
    made.node("n")
    made.queue("q", 8)
    made.job("over", "q", on="n", pods=2, started=NOW - 100, max_runtime=60.0)
    made.job("under", "q", on="n", started=NOW - 30, max_runtime=60.0)
    decided = made.run()
    assert [e.task.name for e in decided.evictions] == ["over-0", "over-1"]
    assert decided.evictions[0].message.endswith("because its job ran longer than it may.")


def test_lending_limit_keeps_a_part_of_an_idle_quota() -> None:
    for lent, started in ((-1, 8), (3, 5), (0, 2)):
        made = world.World(with_plugin("lending"))
        made.node("n")
        limit = lent * 1000 if lent >= 0 else -1
        made.queue(
            "owner", resources={"gpu": specs.Bound(quota=6000, limit=-1, lending_limit=limit)}
        )
        made.queue("other", 2)
        for index in range(8):
            made.job(f"j{index}", "other")
        assert len(made.run().binds) == started


def test_users_share_a_queue_fairly() -> None:
    """One user's many old jobs do not keep another's out."""
    for fair, users in ((False, {"ann"}), (True, {"ann", "bob"})):
        made = world.World()
        made.node("n", gpus=4)
        made.queue("q", 4, fair_users=fair)
        for index in range(6):
            made.job(f"ann{index}", "q", user="ann", created=NOW - 100)
        for index in range(2):
            made.job(f"bob{index}", "q", user="bob", created=NOW - 1)
        made.run()
        assert {name[:3] for name in made.where()} == users


def test_a_user_reclaims_from_another() -> None:
    made = world.World()
    made.node("n", gpus=4)
    made.queue("q", 4, fair_users=True)
    for index in range(4):
        made.job(f"ann{index}", "q", user="ann", on="n", created=NOW - 100)
    for index in range(2):
        made.job(f"bob{index}", "q", user="bob", created=NOW - 1)
    decided = made.run()
    assert [e.action for e in decided.evictions] == ["reclaim", "reclaim"]


def test_placement_of_one_workload() -> None:
    made = world.World()
    made.node("a", gpus=4)
    made.node("b", gpus=4)
    made.queue("q", 8)
    made.job("r", "q", on="a")
    made.job("packed", "q")
    made.job("spread", "q", constraints=specs.Constraints(placement="spread"))
    made.run()
    assert (made.where()["packed-0"], made.where()["spread-0"]) == ("a", "b")


def test_budgets_of_a_search() -> None:
    """A job may search for its own time, within what the action has left, but at least a little."""
    made = world.World(
        config.Config(action_searches={"reclaim": 10.0}, job_search=4.0, least_job_search=2.0)
    )
    made.run()
    opened = made.session
    opened.clock = lambda: 100.0
    for left, ends in ((10.0, 104.0), (3.0, 103.0), (1.0, 102.0), (-5.0, 102.0)):
        opened.deadline = 100.0 + left
        search = solver.Search(
            session=opened,
            action="reclaim",
            job=fold_jobs.JobState(("ns", "j")),
            rows=[],
            victims=lambda gone: (),
            validators=(),
        )
        assert search._job_deadline() == ends
    opened.deadline = 0.0
    assert search._job_deadline() == 104.0
