"""How a manager ends: what hangs is cut, a second signal is obeyed at once."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from tenantry.local import testing
from tenantry.runtime import cluster, controller, manager, timing

from .conftest import Until

pytestmark = pytest.mark.plane

T = timing.Timing(drain=0.2, grace=0.2)


async def test_without_an_election_it_leads_and_what_hangs_is_cut_at_the_end(
    plane: testing.Plane, caplog: pytest.LogCaptureFixture
) -> None:
    made = manager.Manager(
        "test",
        cluster=cluster.Cluster(plane.config(), timing=T),
        probes=("127.0.0.1", 0),
    )
    hanging, working, stop = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def reconcile(_: str) -> None:
        hanging.set()
        await asyncio.Event().wait()

    async def work() -> None:
        working.set()
        await asyncio.Event().wait()

    part = controller.Controller("hanging", reconcile, timing=T)
    made.add_controller(part)
    made.add_work("work", work, leader=True)
    made.listen("127.0.0.1", 0)
    made.add_check("mood", lambda: "" if working.is_set() else "bad")
    running = asyncio.create_task(made.run(stop))
    part.enqueue("x")
    await asyncio.wait_for(hanging.wait(), 20)
    await asyncio.wait_for(working.wait(), 20)
    assert set(made._health.ready.names()) >= {"caches", "mood"}  # type: ignore[union-attr]
    assert not made._health.ready.failing()  # type: ignore[union-attr]
    stop.set()
    assert await asyncio.wait_for(running, 20) == manager.STOPPED
    assert "reconcile_cut" in caplog.text


async def test_signals_and_a_lost_lease_end_it(plane: testing.Plane, until: Until) -> None:
    ends: list[int] = []
    stop = asyncio.Event()
    made = manager.Manager("test", cluster=cluster.Cluster(plane.config()), exit=ends.append)
    made._lost("why")
    assert ends == [manager.LEASE_LOST]
    with manager._signals(stop, ends.append):
        os.kill(os.getpid(), signal.SIGTERM)
        await until(stop.is_set)
        assert ends == [manager.LEASE_LOST]
        # Somebody who asks a second time does not want to wait.
        os.kill(os.getpid(), signal.SIGINT)
        await until(lambda: len(ends) == 2)
    assert ends[1] == manager.CRASHED
    await made.cluster.close()
