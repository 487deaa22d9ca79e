from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tenantry.api import resources
from tenantry.kube import client as kube
from tenantry.local import testing
from tenantry.runtime import cluster, errors, informer, store, timing, views

from .conftest import SELECTOR, Proxy, Until, config_map

pytestmark = pytest.mark.plane

MAPS = resources.CONFIG_MAPS
Object = dict[str, Any]


@pytest.fixture
async def here(plane: testing.Plane) -> AsyncIterator[cluster.Cluster]:
    async with cluster.Cluster(plane.config()) as made:
        yield made


def maps(source: cluster.Cluster, namespace: str) -> informer.Informer[Object]:
    return source.informer(MAPS, views.as_dict, namespace=namespace, label_selector=SELECTOR)


def contents(found: informer.Informer[Object]) -> dict[str, Any]:
    return {each["metadata"]["name"]: each.get("data") for each in found.list()}


async def check_against_server(
    found: informer.Informer[Object], admin: kube.Client, namespace: str
) -> None:
    """The oracle: the cache equals a fresh list."""
    listed = await admin.list(MAPS, namespace, label_selector=SELECTOR)
    fresh = {
        item["metadata"]["name"]: item["metadata"]["resourceVersion"]
        for item in map(json.loads, map(bytes, listed.items))
    }
    held = {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in found.list()}
    assert held == fresh


@pytest.mark.parametrize("streaming", [True, False], ids=["watch-list", "pages"])
async def test_holds_what_is_there_and_follows(
    plane: testing.Plane, admin: kube.Client, namespace: str, until: Until, streaming: bool
) -> None:
    await admin.create(MAPS, config_map(namespace, "a", x="1"))
    found = informer.Informer(
        admin,
        MAPS,
        views.as_dict,
        namespace=namespace,
        label_selector=SELECTOR,
        streaming=streaming,
    )
    events: list[store.Event[Object]] = []
    found.subscribe(events.append)
    task = asyncio.create_task(found.run())
    try:
        await asyncio.wait_for(found.wait_synced(), 20)
        assert contents(found) == {"a": {"x": "1"}}
        await admin.create(MAPS, config_map(namespace, "b", x="2"))
        await admin.apply(MAPS, config_map(namespace, "a", x="3"), field_manager="t")
        await admin.delete(MAPS, "b", namespace)
        await until(lambda: len(events) == 4)
        assert [(e.type, e.key[1], e.initial) for e in events] == [
            ("added", "a", True),
            ("added", "b", False),
            ("modified", "a", False),
            ("deleted", "b", False),
        ]
        final = events[3].final
        assert final is not None
        assert final["data"] == {"x": "2"}
        assert found.get("a", namespace) is events[2].new
        await check_against_server(found, admin, namespace)
        assert found._machine.streaming is streaming
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_is_shared_and_serves_late_subscribers(
    here: cluster.Cluster, admin: kube.Client, namespace: str, until: Until
) -> None:
    found = maps(here, namespace)
    assert maps(here, namespace) is found
    assert here.informer(MAPS, views.as_bytes, namespace=namespace) is not found  # type: ignore[comparison-overlap]
    await here.wait_synced()
    await admin.create(MAPS, config_map(namespace, "a"))
    await until(lambda: found.get("a", namespace))
    late: list[store.Event[Object]] = []
    unsubscribe = found.subscribe(late.append)
    assert [(e.type, e.key, e.initial) for e in late] == [("added", (namespace, "a"), True)]
    unsubscribe()
    unsubscribe()
    await admin.create(MAPS, config_map(namespace, "b"))
    await until(lambda: found.get("b", namespace))
    assert len(late) == 1


async def test_indexes_and_versions(
    here: cluster.Cluster, admin: kube.Client, namespace: str, until: Until
) -> None:
    found = maps(here, namespace)
    found.add_index("x", lambda obj: (obj.get("data") or {}).values())
    found.add_index("x", lambda obj: ())
    await here.wait_synced()
    await until(lambda: here.version)
    written = await admin.create(MAPS, config_map(namespace, "a", x="red"))
    version = written["metadata"]["resourceVersion"]
    assert here.ordered, "the planes of the tests are 1.35 or newer"
    assert await found.wait_for(version, 10)
    assert found.at_least(version)
    assert found.version_of("a", namespace) == version
    assert [each["metadata"]["name"] for each in found.by_index("x", "red")] == ["a"]
    assert found.index_values("x") == ["red"]
    beyond = str(int(version) + 10**6)
    assert not found.at_least(beyond)
    assert not await found.wait_for(beyond, 0.05)
    assert not await found.wait_for("no number", 10)
    assert not len(found._waiters)


async def test_a_cut_watch_goes_on_where_it_was(
    proxy: Proxy, admin: kube.Client, namespace: str, until: Until, quick: timing.Timing
) -> None:
    async with cluster.Cluster(proxy.config, timing=quick) as here:
        found = maps(here, namespace)
        events: list[str] = []
        found.subscribe(lambda event: events.append(f"{event.type} {event.key[1]}"))
        await here.wait_synced()
        proxy.accepting = False
        proxy.cut()
        await admin.create(MAPS, config_map(namespace, "a"))
        await admin.create(MAPS, config_map(namespace, "b"))
        await admin.delete(MAPS, "b", namespace)
        proxy.accepting = True
        await until(lambda: len(events) == 3)
        assert events == ["added a", "added b", "deleted b"], "nothing lost, nothing doubled"
        assert found.relists == 1, "resumed, not listed again"
        for _ in range(5):
            proxy.cut()
        await admin.create(MAPS, config_map(namespace, "c"))
        await until(lambda: found.get("c", namespace))
        await check_against_server(found, admin, namespace)


async def test_a_stream_that_falls_silent_is_left(
    proxy: Proxy, admin: kube.Client, namespace: str, until: Until
) -> None:
    silent = timing.Timing(inactivity=1.0).scaled(0.02)
    async with cluster.Cluster(proxy.config, timing=silent) as here:
        found = maps(here, namespace)
        await here.wait_synced(20)
        proxy.freeze()
        await admin.create(MAPS, config_map(namespace, "a"))
        failures = here.metrics.counter("informer_failures_total", "", ("resource", "part"))
        await until(lambda: failures.value("configmaps", "watch"))
        assert found.get("a", namespace) is None
        proxy.thaw()
        await until(lambda: found.get("a", namespace))


async def test_an_odd_object_does_not_hide_the_others(
    here: cluster.Cluster, admin: kube.Client, namespace: str, until: Until
) -> None:
    def strict(raw: bytes) -> str:
        data = json.loads(raw)["data"]
        return str(data["x"])

    found = here.informer(MAPS, strict, namespace=namespace, label_selector=SELECTOR)
    await here.wait_synced()
    await admin.create(MAPS, config_map(namespace, "odd", y="1"))
    await admin.create(MAPS, config_map(namespace, "good", x="1"))
    await until(lambda: found.get("good", namespace))
    assert found.list() == ["1"]
    await admin.apply(MAPS, config_map(namespace, "odd", x="2"), field_manager="t")
    await until(lambda: found.get("odd", namespace))
    # It turns odd again: what is cached would be stale, so it goes.
    await admin.patch(MAPS, "odd", namespace, kind="merge", body={"data": {"x": None, "y": "1"}})
    await until(lambda: found.get("odd", namespace) is None)
    await admin.delete(MAPS, "odd", namespace)
    await admin.create(MAPS, config_map(namespace, "next", x="3"))
    await until(lambda: found.get("next", namespace))
    failures = here.metrics.counter("informer_failures_total", "", ("resource", "part"))
    assert failures.value("configmaps", "view") == 2, "created odd, turned odd"


async def test_a_handler_that_raises_does_not_deafen_the_others(
    here: cluster.Cluster, admin: kube.Client, namespace: str, until: Until
) -> None:
    found = maps(here, namespace)
    heard: list[store.Key] = []

    def broken(event: store.Event[Object]) -> None:
        raise LookupError(event.key)

    found.subscribe(broken)
    found.subscribe(lambda event: heard.append(event.key))
    await admin.create(MAPS, config_map(namespace, "a"))
    await until(lambda: heard)
    failures = here.metrics.counter("informer_failures_total", "", ("resource", "part"))
    assert failures.value("configmaps", "handler") >= 1


async def test_says_which_caches_do_not_fill(
    proxy: Proxy, namespace: str, quick: timing.Timing
) -> None:
    proxy.freeze()
    async with cluster.Cluster(proxy.config, timing=quick) as here:
        maps(here, namespace)
        with pytest.raises(errors.NotSyncedError, match="configmaps"):
            await here.wait_synced(0.2)
        assert here.not_synced() == ["configmaps"]


async def test_a_kind_that_comes_later_is_found(
    here: cluster.Cluster, namespace: str, until: Until
) -> None:
    """No CRD yet: the informer waits, it does not crash."""
    unknown = resources.Resource("runtime.test", "v1", "things", "Thing")
    here.informer(unknown, views.as_dict)
    failures = here.metrics.counter("informer_failures_total", "", ("resource", "part"))
    await until(lambda: failures.value("things.runtime.test", "watch"))
    assert here._crash is None


async def test_a_defect_ends_it_visibly(plane: testing.Plane, namespace: str) -> None:
    def label(one: store.Event[Object]) -> None:
        return

    async with cluster.Cluster(plane.config()) as here:
        found = maps(here, namespace)
        found.subscribe(label)
        found._machine.step = None  # type: ignore[assignment,method-assign]
        with pytest.raises(TypeError):
            await asyncio.wait_for(here.run_until_crash(), 20)


async def test_a_closed_cluster_gives_nothing(plane: testing.Plane) -> None:
    made = cluster.Cluster(plane.config())
    await made.start()
    await made.start()
    await made.close()
    with pytest.raises(errors.ClosedError):
        made.informer(MAPS, views.as_dict)
