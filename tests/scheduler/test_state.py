"""Statements, assumed writes and usage."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tenantry.scheduler.engine import assumed, audit, session, statement, status, usage
from tenantry.scheduler.scenarios import world


def picture(opened: session.Session) -> Any:
    state = opened.state
    return (
        state.idle.tolist(),
        state.free.tolist(),
        bytes(state.status),
        state.node.tolist(),
        {k: v for k, v in state.task_groups.items() if v},
        {n: {k: list(g) for k, g in sorted(gs.items())} for n, gs in state.groups.items() if gs},
        state.counts.tolist(),
        [(queue.name, queue.allocated, queue.allocated_fixed) for queue in opened.queues.values()],
    )


@pytest.mark.parametrize("seed", range(30))
def test_rolling_back_restores_everything(seed: int) -> None:
    rng = random.Random(seed)
    made = world.World()
    for index in range(3):
        made.node(f"n{index}", gpus=4)
    made.queue("q", 4)
    for index in range(4):
        made.job(f"r{index}", "q", on=f"n{rng.randrange(3)}", gpus=rng.choice([1, 0.5]))
        made.job(f"p{index}", "q", gpus=rng.choice([1, 0.5, 2]), pods=rng.choice([1, 2]))
    opened = session.Session(made.seen, made.engine.config, now=world.NOW)
    assert len(list(opened.opening())) == len(made.engine.config.plugins)
    before = picture(opened)
    journal = statement.Statement(opened)
    marks: list[tuple[int, Any]] = []
    for _ in range(25):
        row = rng.randrange(len(opened.state.tasks))
        now, _, groups = opened.placement(row)
        if rng.random() < 0.2:
            marks.append((journal.checkpoint(), picture(opened)))
        if now in (status.RUNNING, status.ALLOCATED):
            journal.evict(row)
        elif now in (status.PENDING, status.RELEASING):
            shared = opened.state.shape_of[row].shared
            target = groups if groups and rng.random() < 0.5 else (f"g{rng.randrange(3)}",)
            state = rng.choice([status.ALLOCATED, status.PIPELINED])
            journal.place(row, state, rng.randrange(3), target if shared else ())
        if marks and rng.random() < 0.15:
            mark, then = marks.pop()
            journal.rollback(mark)
            assert picture(opened) == then
            marks = [entry for entry in marks if entry[0] <= mark]
    journal.rollback()
    assert picture(opened) == before
    assert journal.evicted == {}


def test_assumed_writes_are_seen_by_the_next_cycle_until_the_watch_shows_them() -> None:
    made = world.World()
    made.node("n", gpus=1)
    made.queue("q", -1)
    made.job("j", "q")
    writes = assumed.Assumed()
    (bind,) = made.engine.run(made.seen, now=world.NOW, pending_writes=writes).binds
    writes.bind(bind.task.uid, bind.node)
    assert not made.engine.run(made.seen, now=world.NOW, pending_writes=writes).binds
    writes.written(bind.task.uid, 7)
    writes.seen(bind.task.uid, 6)
    assert len(writes) == 1
    writes.seen(bind.task.uid, 7)
    assert len(writes) == 0
    assert made.engine.run(made.seen, now=world.NOW, pending_writes=writes).binds


def test_a_write_of_unknown_outcome_is_kept_and_a_rejected_one_is_not() -> None:
    writes = assumed.Assumed()
    writes.evict("a")
    writes.seen("a", 100)  # no version yet: the write may still arrive
    assert len(writes) == 1
    writes.rejected("a")
    assert len(writes) == 0
    writes.evict("b")
    writes.gone("b")
    assert len(writes) == 0


def test_an_assumed_eviction_frees_the_place_for_plans_only() -> None:
    made = world.World()
    made.node("n", gpus=1)
    made.queue("q", -1)
    made.job("r", "q", on="n")
    made.job("j", "q")
    writes = assumed.Assumed()
    writes.evict("ns/r-0")
    decided = made.engine.run(made.seen, now=world.NOW, pending_writes=writes)
    assert not decided.binds
    assert [plan.task.name for plan in decided.plans] == ["j-0"]


SAMPLES = [
    usage.Sample(0.0, 10.0, {"a": 10.0}),
    usage.Sample(100.0, 10.0, {"a": 0.0, "b": 5.0}),
]


def test_sliding_window() -> None:
    shares = usage.of_queues(SAMPLES, usage.Window(length=200), now=200)
    assert shares == {"a": 0.5, "b": 0.25}
    assert usage.of_queues(SAMPLES, usage.Window(length=100), now=200) == {"a": 0.0, "b": 0.5}


def test_tumbling_window_forgets_at_its_start() -> None:
    window = usage.Window(length=150, anchor=0)
    assert usage.of_queues(SAMPLES, window, now=149)["a"] == pytest.approx(100 / 149)
    assert usage.of_queues(SAMPLES, window, now=151) == {"a": 0.0, "b": 0.5}


def test_window_with_given_starts() -> None:
    window = usage.Window(length=1000, starts=(50.0, 120.0))
    assert window.begin(119) == 50.0
    assert window.begin(130) == 120.0
    assert window.begin(10) == -990.0


def test_half_life() -> None:
    shares = usage.of_queues(SAMPLES, usage.Window(length=200), now=200, half_life=100)
    # The first hundred seconds weigh half as much as the second.
    assert shares["a"] == pytest.approx(1 / 3)
    assert shares["b"] == pytest.approx(1 / 3)


def test_sampling_rate_does_not_matter() -> None:
    often = [usage.Sample(float(t), 10.0, {"a": 10.0 if t < 100 else 0.0}) for t in range(200)]
    few = usage.of_queues(SAMPLES, usage.Window(length=200), now=200, half_life=50)["a"]
    many = usage.of_queues(often, usage.Window(length=200), now=200, half_life=50)["a"]
    assert many == pytest.approx(few)


def test_no_samples() -> None:
    assert usage.of_queues([], usage.Window(), now=1) == {}


def test_shapes_of_the_past_are_forgotten() -> None:
    made = world.World()
    made.node("n", gpus=8)
    made.queue("q", -1)
    for index in range(1500):
        made.job("j", "q", gpu_memory=1000 + index)
    made.job("k", "q", cpu=7)
    made.seen.settle()
    assert len(made.seen.shapes_by_index) < 10
    assert audit.drift(made.seen) == []
    assert set(made.run().binds[0].groups) != set()
    assert len(made.where()) == 2
