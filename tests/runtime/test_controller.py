from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tenantry.kube import errors as kube_errors
from tenantry.runtime import controller, metrics, timing

pytestmark = pytest.mark.looptime

Reconcile = Callable[[str], Awaitable[controller.Result | None]]


class Bench:
    """A controller in virtual time, and when it was asked to do what."""

    def __init__(self, reconcile: Reconcile, **more: object) -> None:
        self.calls: list[tuple[str, float]] = []
        self.registry = metrics.Registry()
        self._reconcile = reconcile
        self.controller: controller.Controller[str] = controller.Controller(
            "bench",
            self._called,
            registry=self.registry,
            timing=timing.Timing(),
            **more,  # type: ignore[arg-type]
        )

    async def _called(self, key: str) -> controller.Result | None:
        self.calls.append((key, round(asyncio.get_running_loop().time(), 4)))
        return await self._reconcile(key)

    def times(self, key: str) -> list[float]:
        return [when for each, when in self.calls if each == key]

    def total(self, result: str) -> float:
        counter = self.registry.counter(
            "controller_runtime_reconcile_total", "", ("controller", "result")
        )
        return counter.value("bench", result)


@contextlib.asynccontextmanager
async def running(bench: Bench) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(bench.controller.run())
    try:
        yield task
    finally:
        bench.controller.stop()
        await task


async def nothing(key: str) -> None:
    return None


async def test_reconciles_each_key_once() -> None:
    bench = Bench(nothing)
    for key in ("a", "b", "a"):
        bench.controller.enqueue(key)
    async with running(bench):
        await asyncio.sleep(1)
    assert bench.calls == [("a", 0.0), ("b", 0.0)]
    assert bench.total("success") == 2


async def test_failures_come_back_later_each_time_and_success_forgives(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fail = True

    async def reconcile(key: str) -> None:
        if fail:
            raise RuntimeError("not yet")

    bench = Bench(reconcile)
    bench.controller.enqueue("a")
    async with running(bench):
        await asyncio.sleep(0.05)
        fail = False
        await asyncio.sleep(1)
        fail = True
        bench.controller.enqueue("a")
        await asyncio.sleep(0.01)
    assert bench.times("a") == [0.0, 0.005, 0.015, 0.035, 0.075, 1.05, 1.055]
    assert bench.total("error") == 6
    assert "reconcile_failed" in caplog.text


async def test_terminal_errors_do_not_come_back(caplog: pytest.LogCaptureFixture) -> None:
    async def reconcile(key: str) -> None:
        raise controller.TerminalError("spec.x: found 1, accepted 2")

    bench = Bench(reconcile)
    bench.controller.enqueue("a")
    async with running(bench):
        await asyncio.sleep(5000)
    assert bench.times("a") == [0.0]
    assert "reconcile_terminal" in caplog.text


async def test_comes_again_when_asked_and_sooner_when_something_happens() -> None:
    async def reconcile(key: str) -> controller.Result:
        return controller.Result(requeue_after=60.0)

    bench = Bench(reconcile)
    bench.controller.enqueue("a")
    async with running(bench):
        await asyncio.sleep(90)
        bench.controller.enqueue("a")
        await asyncio.sleep(100)
    assert bench.times("a") == [0.0, 60.0, 90.0, 150.0]
    assert bench.total("requeue_after") == 4


async def test_a_reconcile_that_hangs_is_ended_and_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def reconcile(key: str) -> None:
        await asyncio.sleep(1000)

    bench = Bench(reconcile, timeout=10.0)
    bench.controller.enqueue("a")
    async with running(bench):
        await asyncio.sleep(15)
        bench.controller.stop()
    assert bench.times("a") == [0.0, 10.005]
    assert "reconcile_timeout" in caplog.text
    timeouts = bench.registry.counter(
        "controller_runtime_reconcile_timeouts_total", "", ("controller",)
    )
    assert timeouts.value("bench") >= 1


async def test_a_key_is_never_with_two_workers() -> None:
    active: set[str] = set()
    most = 0

    async def reconcile(key: str) -> None:
        nonlocal most
        assert key not in active
        active.add(key)
        most = max(most, len(active))
        await asyncio.sleep(1)
        active.remove(key)

    bench = Bench(reconcile, concurrency=3)
    async with running(bench):
        for _ in range(4):
            for key in "abcde":
                bench.controller.enqueue(key)
            await asyncio.sleep(0.7)
        await asyncio.sleep(10)
    assert most == 3
    assert bench.total("error") == 0


async def test_a_stop_lets_running_work_finish() -> None:
    finished: list[str] = []

    async def reconcile(key: str) -> None:
        await asyncio.sleep(5)
        finished.append(key)

    bench = Bench(reconcile)
    bench.controller.enqueue("a")
    bench.controller.enqueue("b")
    async with running(bench):
        await asyncio.sleep(1)
    assert finished == ["a"]
    assert asyncio.get_running_loop().time() == pytest.approx(5)


async def test_lost_races_are_no_alarm(caplog: pytest.LogCaptureFixture) -> None:
    errors = [
        kube_errors.Conflict(409, "Conflict", "changed"),
        kube_errors.OutcomeUnknown("PATCH /x", "cut"),
    ]

    async def reconcile(key: str) -> None:
        if errors:
            raise errors.pop(0)

    bench = Bench(reconcile)
    bench.controller.enqueue("a")
    with caplog.at_level(logging.INFO):
        async with running(bench):
            await asyncio.sleep(1)
    assert bench.times("a") == [0.0, 0.005, 0.015]
    assert [(r.levelname, r.message) for r in caplog.records if "reconcile" in r.message] == [
        ("INFO", "reconcile_conflict"),
        ("WARNING", "reconcile_failed"),
    ]


async def test_tells_what_is_under_way() -> None:
    async def reconcile(key: str) -> None:
        await asyncio.sleep(5)

    bench = Bench(reconcile)
    for key in "abc":
        bench.controller.enqueue(key)
    async with running(bench):
        await asyncio.sleep(2)
        text = bench.registry.exposition()
        bench.controller.stop()
    for line in (
        'controller_runtime_active_workers{controller="bench"} 1',
        'controller_runtime_max_concurrent_reconciles{controller="bench"} 1',
        'workqueue_depth{name="bench"} 2',
        'workqueue_adds_total{name="bench"} 3',
        'workqueue_unfinished_work_seconds{name="bench"} 2',
        'workqueue_longest_running_processor_seconds{name="bench"} 2',
        'controller_runtime_reconcile_errors_total{controller="bench"} 0',
    ):
        assert line in text
