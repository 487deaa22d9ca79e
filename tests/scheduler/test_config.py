"""Settings of a cycle."""

from __future__ import annotations

from tenantry.scheduler.engine import config, queues, specs
from tenantry.scheduler.scenarios import world

NOW = world.NOW


def test_queue_depth_keeps_the_first_jobs() -> None:
    made = world.World(config.Config(actions=("allocate",), queue_depth={"allocate": 2}))
    made.node("n")
    made.queue("q", -1)
    for index in range(4):
        made.job(f"j{index}", "q", created=float(9 - index))
    made.run()
    assert set(made.where()) == {"j2-0", "j3-0"}


def test_flat_hierarchy() -> None:
    made = world.World(config.Config(full_hierarchy=False))
    made.node("n", gpus=4)
    made.queue("team", 0, limit=1)
    made.queue("leaf", 4, parent="team")
    for index in range(3):
        made.job(f"j{index}", "leaf")
    made.run()
    assert len(made.where()) == 3  # the limit of the level above does not count


def test_signatures_spare_hopeless_searches_but_not_easier_jobs() -> None:
    for on in (True, False):
        made = world.World(config.Config(signatures=on))
        for index in range(2):
            made.node(f"n{index}", gpus=2)
        made.queue("rich", 0, created=1.0)
        made.queue("poor", 4, created=2.0)
        for index in range(4):
            made.job(f"r{index}", "rich", on=f"n{index // 2}")
        made.job("huge", "poor", gpus=3, created=1.0)
        made.job("same", "poor", gpus=3, created=2.0)
        made.job("small", "poor", gpus=1, created=3.0)
        decided = made.run()
        assert [plan.task.name for plan in decided.plans] == ["small-0"]


def test_consolidating_reclaim_counts_moved_pods_as_harmless() -> None:
    for allowed, moved in ((True, True), (False, False)):
        made = world.World(config.Config(actions=("reclaim",), consolidating_reclaim=allowed))
        for name in ("a", "b"):
            made.node(name, gpus=2)
        made.queue("due", 2, created=1.0)
        made.queue("want", 2, created=2.0)
        made.job("one", "due", on="a")
        made.job("two", "due", on="b")
        made.job("big", "want", gpus=2)
        decided = made.run()
        assert bool(decided.plans) is moved


def test_history_lowers_the_share() -> None:
    def share(usage: float) -> queues.Amount:
        made = world.World()
        made.node("n", gpus=8)
        for name, used in (("a", usage), ("b", 0.0)):
            made.seen.put_queue(
                specs.Queue(
                    name=name,
                    parent=world.ROOT,
                    resources={"gpu": specs.Bound(quota=0, weight=1), "cpu": specs.Bound(quota=-1)},
                    usage={"gpu": used},
                )
            )
            made.job(f"j{name}", name, pods=8)
        made.run()
        return made.session.queues["a"].fair[2]

    assert share(0.0) == 4000
    assert share(0.5) == 3000  # pulls 1/2 and 1: a third, rounded up to whole GPUs by remainder


def test_missing_resources_of_a_queue_do_not_bind_unless_asked() -> None:
    made = world.World()
    made.node("n")
    made.seen.put_queue(
        specs.Queue(
            name="q", parent=world.ROOT, resources={"gpu": specs.Bound(quota=1000, limit=-1)}
        )
    )
    made.job("j", "q")
    assert len(made.run().binds) == 1


def test_foreign_pods_take_room_and_lower_the_total() -> None:
    made = world.World()
    made.node("n", gpus=4)
    made.queue("q", -1)
    made.seen.put_task(
        specs.Task(
            namespace="x",
            name="other",
            uid="other",
            job=None,
            status=6,
            node="n",
            gpus=3000,
            foreign=True,
        )
    )
    made.job("j", "q", pods=2, minimum=1)
    made.run()
    assert len(made.where()) == 2  # the other one, and one of ours
    assert made.session.total[2] == 1000
