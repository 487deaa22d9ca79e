"""Far more events than anybody can work on: memory and priorities hold."""

from __future__ import annotations

import asyncio
import copy
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tenantry.api import resources
from tenantry.kube import client as kube
from tenantry.runtime import queue, store

from . import proxy as proxies
from .conftest import Follow, config_map, fill, until

pytestmark = pytest.mark.plane

OBJECTS = 100
MEGABYTE = 2**20


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("number", [20_000, pytest.param(100_000, marks=pytest.mark.long)])
async def test_a_burst_of_events(
    front: proxies.Proxy, admin: kube.Client, namespace: str, follow: Follow, number: int
) -> None:
    await fill(admin, namespace, OBJECTS)
    oracle = await follow()
    templates = [copy.deepcopy(obj) for obj in oracle.followed.list()]
    first = int(oracle.followed.resource_version) + 1_000_000

    def burst(event: dict[str, Any]) -> Iterable[bytes]:
        if event["type"] == "BOOKMARK":
            return
        # One change becomes very many, each with a version of its own.
        for begin in range(0, number, 100):
            lines = []
            for each in range(begin, begin + 100):
                obj = templates[each % OBJECTS]
                obj["metadata"]["resourceVersion"] = str(first + each)
                lines.append(proxies.line("MODIFIED", obj))
            yield b"".join(lines)

    work: queue.WorkQueue[str] = queue.WorkQueue()
    longest = turns = 0

    def enqueue(event: store.Event[dict[str, Any]]) -> None:
        nonlocal longest
        work.add(event.key[1], queue.LOW)
        longest = max(longest, len(work))

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    oracle.followed.subscribe(enqueue)
    while work.idle is False:
        work.done(await work.get())
    turning = asyncio.create_task(others())
    before = resident()
    rule = front.add(proxies.Lines(burst), proxies.watches)
    front.cut()
    await until(lambda: rule.hits)
    await admin.apply(
        resources.CONFIG_MAPS, config_map(namespace, "a0", text="y"), field_manager="t"
    )
    await until(lambda: oracle.followed.resource_version == str(first + number - 1), within=60)
    turning.cancel()
    assert oracle.events["modified"] >= number
    # Bounded: one entry per object, and what is read is not hoarded.
    assert longest == OBJECTS
    assert resident() - before < 60 * MEGABYTE
    assert turns > number / 500
    # What people change overtakes the backlog.
    work.add("urgent")
    assert await work.get() == "urgent"
    # The versions were made up; once cut, the informer sees that the server is behind them.
    front.cut()
    await oracle.agrees(admin)
