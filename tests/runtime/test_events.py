from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tenantry.api import resources
from tenantry.kube import client as kube
from tenantry.runtime import events, metrics, timing

from .conftest import Until, config_map

pytestmark = pytest.mark.plane


class Wall:
    now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def result(registry: metrics.Registry, name: str) -> float:
    return registry.counter("events_total", "", ("result",)).value(name)


async def stored(admin: kube.Client, namespace: str) -> list[dict[str, Any]]:
    listed = await admin.list(resources.EVENTS, namespace)
    return [json.loads(bytes(item)) for item in listed.items]


async def test_people_see_them_and_repetitions_are_counted(
    admin: kube.Client, namespace: str, until: Until
) -> None:
    obj = await admin.create(resources.CONFIG_MAPS, config_map(namespace, "a"))
    registry, wall = metrics.Registry(), Wall()
    recorder = events.Recorder(
        admin, "tenantry.io/test", "host_1", registry=registry, wall=wall, timing=timing.Timing()
    )
    task = asyncio.create_task(recorder.run())
    try:
        about = events.reference(obj, resources.CONFIG_MAPS)
        for _ in range(5):
            recorder.event(about, "Warning", "Refused", "Admit", "no: found 1", labels={"t": "x"})
            wall.now += 1
        await until(lambda: result(registry, "written") == 2)
        (event,) = await stored(admin, namespace)
        assert event["note"] == "no: found 1"
        assert event["regarding"]["uid"] == obj["metadata"]["uid"]
        assert event["series"]["count"] == 2
        assert event["metadata"]["labels"] == {"t": "x"}

        # It expires on the server; the count goes on in a new one.
        await admin.delete(resources.EVENTS, event["metadata"]["name"], namespace)
        wall.now += 60
        recorder.event(about, "Warning", "Refused", "Admit", "no: found 1")
        await until(lambda: result(registry, "written") == 3)
        (event,) = await stored(admin, namespace)
        assert event["series"]["count"] == 6
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_flood_is_written_at_a_pace_and_whole(
    admin: kube.Client, namespace: str, until: Until
) -> None:
    registry = metrics.Registry()
    paced = timing.Timing(event_pace=0.5)
    recorder = events.Recorder(admin, "tenantry.io/t", "host_1", registry=registry, timing=paced)
    loop = asyncio.get_running_loop()
    began = loop.time()
    for number in range(27):
        about = {"kind": "ConfigMap", "name": f"c{number}", "namespace": namespace}
        recorder.event(about, "Normal", "A", "B", "made")
    task = asyncio.create_task(recorder.run())
    try:
        await until(lambda: result(registry, "written") == 27)
        # A burst of 25, then two more.
        assert loop.time() - began >= 2 * 0.5
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_what_cannot_be_written_stops_nothing(admin: kube.Client, namespace: str) -> None:
    registry = metrics.Registry()
    recorder = events.Recorder(admin, "tenantry.io/test", "host_1", registry=registry)
    nowhere = {"kind": "ConfigMap", "name": "x", "namespace": "no-such-namespace"}
    recorder.event(nowhere, "Normal", "A", "B", "lost")
    recorder.event(
        {"kind": "ConfigMap", "name": "x", "namespace": namespace}, "Normal", "A", "B", "kept"
    )
    await recorder.drain()
    assert (result(registry, "failed"), result(registry, "written")) == (1, 1)
    assert [event["note"] for event in await stored(admin, namespace)] == ["kept"]


async def test_the_queue_is_bounded_and_drops_the_oldest(admin: kube.Client) -> None:
    registry = metrics.Registry()
    recorder = events.Recorder(admin, "tenantry.io/test", "host_1", registry=registry)
    for number in range(1100):
        recorder.event({"kind": "ConfigMap", "name": f"x{number}"}, "Normal", "A", "B", "n")
    assert result(registry, "dropped") == 76
    assert len(recorder._writes) == 1024
