"""Slices, budgets and faults of a cycle."""

from __future__ import annotations

import collections
import dataclasses
import gc
import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tenantry.scheduler.engine import (
    audit,
    config,
    cycle,
    plugin,
    registry,
    session,
    specs,
    tables,
)
from tenantry.scheduler.scenarios import world


class Ticking:
    """A clock that goes on a millisecond with each look."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        self.time += 0.001
        return self.time


def busy() -> world.World:
    made = world.World()
    for index in range(10):
        made.node(f"n{index}")
    made.queue("q", 80)
    for index in range(70):
        made.job(f"j{index:02d}", "q")
    return made


def test_yields_in_slices() -> None:
    made = busy()
    slices = sum(1 for _ in made.engine.cycle(made.seen, now=world.NOW, clock=Ticking()))
    assert slices >= 5
    assert len(made.engine.result.binds) == 70
    assert made.engine.result.longest_slice <= 0.02


def test_budget_returns_what_there_is() -> None:
    made = busy()
    engine = cycle.Engine(config.Config(cycle_budget=0.05))
    decided = engine.run(made.seen, now=world.NOW, clock=Ticking())
    assert decided.cut_short
    assert 0 < len(decided.binds) < 70


class _Faulty:
    name = "faulty"

    def __init__(self, where: str) -> None:
        self.where = where

    def open(self, session: session.Session) -> None:
        if self.where == "open":
            raise RuntimeError("broken plugin")

        def check(row: int) -> str:
            task = session.state.tasks[row]
            if self.where == "job" and task is not None and task.name.startswith("bad"):
                raise RuntimeError("broken check")
            return ""

        def key(job: plugin.JobState) -> int:
            if self.where == "order":
                raise RuntimeError("broken order")
            return 0

        session.points.pre_predicates.append(check)
        session.points.job_keys.append(key)


def faulty(where: str) -> world.World:
    def build(arguments: Any) -> plugin.Plugin:
        return _Faulty(where)

    registry.add_plugin("faulty", build)
    default = config.Config()
    made = world.World(
        dataclasses.replace(default, plugins=(*default.plugins, config.PluginChoice("faulty")))
    )
    made.node("n")
    made.queue("q", 8)
    made.job("bad", "q", pods=2)
    made.job("fine", "q")
    return made


def test_a_fault_concerns_one_job() -> None:
    made = faulty("job")
    decided = made.run()
    assert [bind.task.name for bind in decided.binds] == ["fine-0"]
    assert [reason.code for reason in made.engine.explain(("ns", "bad"))] == ["InternalError"]
    assert len(decided.errors) == 1
    state = made.session.state
    assert int(state.free[3, 0]) == 7000


@pytest.mark.parametrize("where", ["open", "order"])
def test_a_fault_elsewhere_changes_nothing(where: str) -> None:
    made = faulty(where)
    decided = made.run()
    assert not decided.binds
    assert not decided.evictions
    assert decided.errors
    assert made.engine.explain(("ns", "fine")) == []


def test_actions_are_found_by_name() -> None:
    class Nothing:
        name = "nothing"

        def run(self, session: session.Session) -> Iterator[None]:
            session.notes["ran"] = True
            return iter(())

    registry.add_action("nothing", Nothing)
    made = world.World(config.Config(actions=("nothing",)))
    made.run()
    assert made.session.notes["ran"]


def test_nothing_is_used_beyond_the_gpus_of_a_node() -> None:
    made = busy()
    made.run()
    for _, group in itertools.groupby(sorted(made.where().values())):
        assert len(list(group)) <= 8
    assert made.session.state.node[0] > tables.NOWHERE


def test_searches_leave_no_cycles_of_garbage() -> None:
    """Thousands of searches run in one cycle; what they leave must not wait for a collection."""
    made = world.World()
    for index in range(4):
        made.node(f"n{index}")
    made.queue("a", 0)
    made.queue("b", 32)
    for index in range(32):
        made.job(f"r{index:02d}", "a", on=f"n{index // 8}")
        made.job(f"p{index:02d}", "b")
    made.run()
    made.engine.last = None
    gc.collect()
    gc.disable()
    try:
        decided = made.run()
        assert len(decided.evictions) == 32
        # What is left is one session's, however many searches there were.
        assert gc.collect() < 32 * 5
    finally:
        gc.enable()


class Touchy:
    """Is told of moves, and raises from the given one on."""

    name = "touchy"

    def __init__(self, good: int) -> None:
        self._good = good

    def open(self, session: session.Session) -> None:
        def moved(row: int, was_on: int, is_on: int) -> None:
            del row, was_on, is_on
            self._good -= 1
            if self._good < 0:
                raise RuntimeError("touchy")

        session.points.moved.append(moved)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("good", range(20))
def test_plugin_that_cannot_bear_moves(
    monkeypatch: pytest.MonkeyPatch, good: int, *, first: bool
) -> None:
    """Gangs are decided whole or not at all, and every eviction still has its reason."""
    monkeypatch.setitem(registry._added_plugins, "touchy", lambda arguments: Touchy(good))
    touchy = config.PluginChoice("touchy")
    plugins = (touchy, *config.PLUGINS) if first else (*config.PLUGINS, touchy)
    made = world.World(config.Config(plugins=plugins))
    made.node("a")
    made.node("b")
    made.node("c", gpus=2)
    made.queue("x", 8)
    made.queue("y", 8)
    for i in range(16):
        made.job(f"r{i}", "x", on="a" if i < 8 else "b")
    made.job("small", "y", pods=2, minimum=2)
    made.job("gang", "y", pods=4, minimum=4)
    decided = made.run()
    started = collections.Counter(bind.task.job for bind in decided.binds)
    planned = collections.Counter(plan.task.job for plan in decided.plans)
    assert started["ns", "small"] in (0, 2)
    assert planned["ns", "gang"] in (0, 4)
    assert len(decided.evictions) == planned["ns", "gang"]
    assert audit.drift(made.seen) == []
    assert decided.errors or good > 10


class Slow:
    """Opens in steps, and raises in the middle if told so."""

    name = "slow"

    def __init__(self, *, broken: bool) -> None:
        self._broken = broken

    def open(self, session: session.Session) -> Iterator[None]:
        yield
        if self._broken:
            raise RuntimeError("halfway")
        yield
        session.points.priority_boosts.append(lambda job: 1)


@pytest.mark.parametrize("broken", [False, True])
def test_plugins_may_open_in_steps(monkeypatch: pytest.MonkeyPatch, *, broken: bool) -> None:
    monkeypatch.setitem(registry._added_plugins, "slow", lambda arguments: Slow(broken=broken))
    made = world.World(config.Config(plugins=(*config.PLUGINS, config.PluginChoice("slow"))))
    made.node("a")
    made.queue("q", 8)
    made.job("j", "q")
    if not broken:
        opened = session.Session(made.seen, made.engine.config, now=world.NOW)
        assert len(list(opened.opening())) == len(config.PLUGINS) + 1 + 2
        assert len(opened.points.priority_boosts) == 1
    decided = made.run()
    assert [bind.task.name for bind in decided.binds] == ([] if broken else ["j-0"])
    assert len(decided.errors) == broken


def test_many_claims_are_counted_in_steps() -> None:
    made = world.World()
    made.node("a")
    made.queue("q", 8)
    for index in range(600):
        wanted = specs.Constraints(claims=(f"c{index}",))
        made.job(f"j{index}", "q", gpus=0, constraints=wanted)
    opened = session.Session(made.seen, made.engine.config, now=world.NOW)
    # Two more of `proportion` for 600 claims, two of `dynamicresources`.
    assert len(list(opened.opening())) == len(config.PLUGINS) + 2 + 2
