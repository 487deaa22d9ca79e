from __future__ import annotations

import asyncio
import dataclasses
import threading
import time
from collections.abc import Callable

import pytest

from tenantry.api import resources
from tenantry.kube import client as kube
from tenantry.kube import config
from tenantry.local import testing
from tenantry.runtime import leadership, timing

from .conftest import Proxy, Until

pytestmark = pytest.mark.plane

#: Lease 3 s, renew deadline 2 s, retry 0.4 s, main loop silent after 1 s, write 0.8 s.
T = timing.Timing().scaled(0.2)


@dataclasses.dataclass
class Candidate:
    lead: leadership.Leadership
    heartbeat: leadership.Heartbeat
    lost: list[str]
    lost_at: list[float]


Make = Callable[[config.Config, str, str], Candidate]


@pytest.fixture
def make() -> Make:
    def build(source: config.Config, namespace: str, identity: str) -> Candidate:
        lost: list[str] = []
        lost_at: list[float] = []

        def on_lost(reason: str) -> None:
            lost_at.append(time.monotonic())
            lost.append(reason)

        heartbeat = leadership.Heartbeat()
        made = leadership.Leadership(
            source,
            namespace=namespace,
            name="test",
            identity=identity,
            heartbeat=heartbeat,
            lost=on_lost,
            timing=T,
        )
        return Candidate(made, heartbeat, lost, lost_at)

    return build


async def holder(admin: kube.Client, namespace: str) -> str:
    lease = await admin.get(resources.LEASES, "test", namespace)
    found: str = lease["spec"].get("holderIdentity", "")
    return found


async def test_hands_over_at_once_on_release(
    plane: testing.Plane, admin: kube.Client, namespace: str, make: Make
) -> None:
    one, two = (make(plane.config(), namespace, name) for name in ("one", "two"))
    beats = [asyncio.create_task(each.heartbeat.run(T.heartbeat)) for each in (one, two)]
    one.lead.start()
    await asyncio.wait_for(one.lead.acquired(), 20)
    two.lead.start()
    assert await holder(admin, namespace) == "one"
    assert not two.lead.leading
    await one.lead.release()
    began = time.monotonic()
    await asyncio.wait_for(two.lead.acquired(), 20)
    assert time.monotonic() - began < 2.0, "released, not expired"
    assert await holder(admin, namespace) == "two"
    await two.lead.release()
    await two.lead.release()
    assert await holder(admin, namespace) == ""
    assert one.lost == [] == two.lost
    for beat in beats:
        beat.cancel()


async def test_a_leader_that_is_cut_off_knows_before_another_leads(
    proxy: Proxy, plane: testing.Plane, namespace: str, make: Make, until: Until
) -> None:
    one = make(proxy.config, namespace, "one")
    two = make(plane.config(), namespace, "two")
    beats = [asyncio.create_task(each.heartbeat.run(T.heartbeat)) for each in (one, two)]
    one.lead.start()
    await asyncio.wait_for(one.lead.acquired(), 20)
    two.lead.start()
    proxy.freeze()
    await asyncio.wait_for(two.lead.acquired(), 20)
    taken_at = time.monotonic()
    assert one.lost == ["lease could not be renewed within 2 s"]
    assert one.lost_at[0] < taken_at
    assert not one.lead.leading
    await one.lead.release()
    await two.lead.release()
    for beat in beats:
        beat.cancel()


async def test_a_main_loop_that_hangs_loses_the_lease(
    plane: testing.Plane, namespace: str, make: Make
) -> None:
    one = make(plane.config(), namespace, "one")
    one.lead.start()
    await asyncio.wait_for(one.lead.acquired(), 20)
    lost = threading.Event()
    one.lead._lost = lambda reason: (one.lost.append(reason), lost.set())  # type: ignore[assignment,func-returns-value]
    one.heartbeat.beat()
    # The main loop is blocked here for real, and nothing beats.
    assert lost.wait(20)
    assert one.lost == ["main loop gives no sign of life within 2 s"]
    await one.lead.release()


async def test_an_api_server_that_comes_back_in_time_costs_nothing(
    proxy: Proxy, admin: kube.Client, namespace: str, make: Make, until: Until
) -> None:
    one = make(proxy.config, namespace, "one")
    beat = asyncio.create_task(one.heartbeat.run(T.heartbeat))
    one.lead.start()
    await asyncio.wait_for(one.lead.acquired(), 20)
    for _ in range(3):
        before = one.lead._elector.expires
        proxy.cut()
        await until(lambda before=before: one.lead._elector.expires > before)  # type: ignore[misc]
    assert one.lost == []
    assert await holder(admin, namespace) == "one"
    await one.lead.release()
    beat.cancel()
