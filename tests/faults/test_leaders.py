"""A main loop that hangs, and two who believe that they lead."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tenantry.api import resources
from tenantry.kube import client as kube
from tenantry.kube import errors
from tenantry.local import testing
from tenantry.runtime import (
    apply,
    cluster,
    controller,
    informer,
    leadership,
    store,
    timing,
    views,
)

from . import proxy as proxies
from .conftest import SELECTOR, config_map, fill, until

pytestmark = pytest.mark.plane

#: Lease 3 s, renew deadline 2 s, main loop silent after 1 s, write 0.8 s.
QUICK = timing.Timing().scaled(0.2)


@dataclasses.dataclass
class Candidate:
    """One process as far as the lease is concerned; its end is noted instead of being one."""

    lead: leadership.Leadership
    heartbeat: leadership.Heartbeat
    lost: list[tuple[float, str]]
    timing: timing.Timing


Make = Callable[..., Candidate]


@pytest.fixture
async def make(front: proxies.Proxy, namespace: str) -> AsyncIterator[Make]:
    made: list[Candidate] = []
    beats: list[asyncio.Task[None]] = []

    def build(identity: str, timings: timing.Timing = QUICK) -> Candidate:
        lost: list[tuple[float, str]] = []
        heartbeat = leadership.Heartbeat()
        lead = leadership.Leadership(
            front.config(),
            namespace=namespace,
            name="lease",
            identity=identity,
            heartbeat=heartbeat,
            lost=lambda why: lost.append((time.monotonic(), why)),
            timing=timings,
        )
        candidate = Candidate(lead, heartbeat, lost, timings)
        beats.append(asyncio.create_task(heartbeat.run(timings.heartbeat)))
        made.append(candidate)
        lead.start()
        return candidate

    yield build
    for candidate in made:
        await candidate.lead.release()
    for beat in beats:
        beat.cancel()


async def blocked(make: Make, timings: timing.Timing, seconds: float) -> None:
    one = make("one", timings)
    await asyncio.wait_for(one.lead.acquired(), 10)
    two = make("two", timings)
    await asyncio.sleep(2 * timings.lease_retry)
    assert not two.lead.leading
    # Two lives in another process in reality, so its main loop goes on beating.
    alive = threading.Event()

    def beat() -> None:
        while not alive.wait(timings.heartbeat):
            two.heartbeat.beat()

    beating = threading.Thread(target=beat)
    beating.start()
    began = time.monotonic()
    time.sleep(seconds)  # noqa: ASYNC251 - the fault itself
    alive.set()
    beating.join()
    # It ended while the loop still hung, and before its lease could be taken.
    assert [why for _, why in one.lost] == [
        f"main loop gives no sign of life within {timings.renew_deadline:g} s"
    ]
    assert one.lost[0][0] - began < timings.heartbeat_limit + timings.renew_deadline + 1
    await asyncio.wait_for(two.lead.acquired(), 2 * timings.lease)
    assert not one.lead.leading
    assert not two.lost


async def test_the_main_loop_hangs(make: Make) -> None:
    await blocked(make, QUICK, 4.0)


@pytest.mark.long
async def test_the_main_loop_hangs_for_twenty_seconds(make: Make) -> None:
    await blocked(make, timing.Timing(), 20.0)


LEADER = """
import asyncio, sys
from tenantry.kube import config
from tenantry.runtime import leadership

async def main(kubeconfig, namespace):
    heartbeat = leadership.Heartbeat()
    beating = asyncio.create_task(heartbeat.run(0.5))
    lead = leadership.Leadership(
        config.load(kubeconfig), namespace=namespace, name="lease", identity="one",
        heartbeat=heartbeat, lost=sys.exit,
    )
    lead.start()
    await lead.acquired()
    print("leading", flush=True)
    await beating

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.long
async def test_a_killed_leader_is_replaced_when_its_lease_is_over(
    plane: testing.Plane, namespace: str, make: Make
) -> None:
    usual = timing.Timing()
    one = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LEADER, str(plane.admin), namespace, stdout=asyncio.subprocess.PIPE
    )
    assert one.stdout is not None
    assert await asyncio.wait_for(one.stdout.readline(), 20) == b"leading\n"
    two = make("two", usual)
    await asyncio.sleep(2 * usual.lease_retry)
    assert not two.lead.leading
    one.kill()
    await one.wait()
    killed = time.monotonic()
    await asyncio.wait_for(two.lead.acquired(), 60)
    took = time.monotonic() - killed
    print(f"seconds to the next leader: {took:.1f}")
    # It was renewed a moment before it ended, and the other looks every so often.
    assert usual.lease - usual.lease_retry - 1 < took < usual.lease + 2 * usual.lease_retry


async def test_a_leader_that_cannot_renew_ends_before_another_begins(
    front: proxies.Proxy, make: Make
) -> None:
    one = make("one")
    await asyncio.wait_for(one.lead.acquired(), 10)
    two = make("two")
    await asyncio.sleep(0.5)
    # One's answers are lost, though its writes arrive: it cannot know that it still holds the lease.
    front.add(proxies.Lose(), lambda seen: seen.method == "PUT", times=None)
    await until(lambda: one.lost, within=10)
    front.clear()
    await asyncio.wait_for(two.lead.acquired(), 10)
    assert one.lost[0][0] < time.monotonic()
    assert not one.lead.leading


async def test_a_leader_gives_up_its_last_write_before_another_begins(
    front: proxies.Proxy, namespace: str, make: Make
) -> None:
    """One's write hangs while it loses the lease; the deadline of writes is shorter than the rest."""
    one = make("one")
    await asyncio.wait_for(one.lead.acquired(), 10)
    two = make("two")
    started = time.monotonic()

    async def write() -> Any:
        async with kube.Client(front.config()) as client:
            wanted = config_map(namespace, "by-one")
            await client.apply(
                resources.CONFIG_MAPS, wanted, field_manager="one", timeout=QUICK.write
            )

    front.add(proxies.Late(5.0), lambda seen: seen.path.endswith("/by-one"), times=None)
    front.add(proxies.Refuse(), lambda seen: seen.method == "PUT", times=None)
    with pytest.raises(errors.OutcomeUnknown):
        await write()
    gave_up = time.monotonic()
    assert gave_up - started < QUICK.lease - QUICK.renew_deadline
    await until(lambda: one.lost, within=10)
    front.clear()
    await asyncio.wait_for(two.lead.acquired(), 10)
    assert gave_up < one.lost[0][0] < time.monotonic()


async def test_two_leaders_for_a_moment_make_everything_once(
    front: proxies.Proxy, admin: kube.Client, namespace: str
) -> None:
    """Two run the same controller at the same time; what they make has one name and one owner."""
    await fill(admin, namespace, 20, prefix="parent")
    async with contextlib.AsyncExitStack() as stack:
        tasks = []
        for _ in range(2):
            source = cluster.Cluster(front.config(), timing=QUICK)
            objects = source.informer(
                resources.CONFIG_MAPS, views.as_dict, namespace=namespace, label_selector=SELECTOR
            )
            part = copying(source, objects, namespace)
            await stack.enter_async_context(source)
            await source.wait_synced(10)
            tasks.append(asyncio.create_task(part.run()))
            stack.callback(part.stop)

        async def children() -> int:
            listed = await admin.list(resources.CONFIG_MAPS, namespace)
            return sum(b'"name":"child-' in bytes(raw) for raw in listed.items)

        async with asyncio.timeout(20):
            while True:
                if await children() == 20:
                    break
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        settled = front.count(proxies.writes)
        assert 20 <= settled <= 40
        # Both see what is there now, and are silent.
        await asyncio.sleep(1.0)
        assert front.count(proxies.writes) == settled
        assert await children() == 20


def copying(
    source: cluster.Cluster, objects: informer.Informer[dict[str, Any]], namespace: str
) -> controller.Controller[str]:
    """Make a child beside each parent."""
    applier = apply.Applier(source.client, "copying", timing=QUICK)

    async def reconcile(name: str) -> None:
        child = config_map(namespace, name.replace("parent", "child-"))
        observed = objects.get(child["metadata"]["name"], namespace)
        await applier.apply(resources.CONFIG_MAPS, child, observed)

    def parents(event: store.Event[dict[str, Any]]) -> list[str]:
        name = event.key[1].replace("child-", "parent")
        return [name] if name.startswith("parent") else []

    return controller.Controller("copying", reconcile, concurrency=4, timing=QUICK).watches(
        objects, parents
    )
