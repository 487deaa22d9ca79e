"""Journals, saved caches and hibernation, against a real API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tenantry.api import resources
from tenantry.kube import client as kube
from tenantry.runtime import cluster, informer, journal, timing, views

from .conftest import SELECTOR, Proxy, Until, config_map

pytestmark = pytest.mark.plane

Dict = dict[str, Any]
Start = Callable[..., Awaitable[tuple[cluster.Cluster, informer.Informer[Dict]]]]


@pytest.fixture
async def start(proxy: Proxy, namespace: str, quick: timing.Timing) -> AsyncIterator[Start]:
    async with contextlib.AsyncExitStack() as stack:

        async def build(
            saved: informer.Saved[Dict] | None = None,
        ) -> tuple[cluster.Cluster, informer.Informer[Dict]]:
            made = cluster.Cluster(proxy.config, timing=quick)
            found = made.informer(
                resources.CONFIG_MAPS, views.as_dict, namespace=namespace, label_selector=SELECTOR
            )
            if saved is not None:
                found.restore(saved)
            await stack.enter_async_context(made)
            await made.wait_synced(20)
            return made, found

        yield build


async def change(admin: kube.Client, namespace: str, name: str, text: str) -> None:
    await admin.apply(
        resources.CONFIG_MAPS, config_map(namespace, name, text=text), field_manager="test"
    )


def told(*batches: journal.Batch[Dict]) -> list[str]:
    return [
        "gap"
        if isinstance(item, journal.Gap)
        else f"{item.type} {item.key[1]} {item.value['data']['text']}"
        for batch in batches
        for item in batch.items
    ]


async def gather(one: journal.Journal[Dict], number: int) -> journal.Batch[Dict]:
    """Take batches until so many entries came; give them as one."""
    items: list[journal.Item[Dict]] = []
    while True:
        batch = await one.batch(timeout=10)
        assert batch.items
        items += batch.items
        if len(items) >= number and batch.checkpoint:
            return journal.Batch(tuple(items), batch.checkpoint, batch.end)


async def test_everything_is_told_once_in_order(
    admin: kube.Client, namespace: str, start: Start
) -> None:
    await change(admin, namespace, "a", "1")
    _, found = await start()
    one = journal.Journal(found)
    first = await gather(one, 1)
    assert told(first) == ["added a 1"]
    one.commit(first)
    await change(admin, namespace, "a", "2")
    await admin.delete(resources.CONFIG_MAPS, "a", namespace)
    await change(admin, namespace, "a", "3")
    second = await gather(one, 3)
    assert told(second) == ["modified a 2", "deleted a 2", "added a 3"]
    entries = [item for item in second.items if isinstance(item, journal.Entry)]
    assert entries[0].uid == entries[1].uid != entries[2].uid


async def test_an_uncommitted_batch_comes_again(
    admin: kube.Client, namespace: str, start: Start
) -> None:
    await change(admin, namespace, "a", "1")
    await change(admin, namespace, "b", "1")
    _, found = await start()
    one = journal.Journal(found)
    first = await one.batch(1)
    assert first.checkpoint == "", "there is more of the same list"
    one.rewind()
    again = await one.batch(2)
    assert told(again)[:1] == told(first)
    assert len(again.items) == 2
    assert again.checkpoint
    one.commit(again)
    assert len(one) == 0
    one.close()
    await change(admin, namespace, "c", "1")
    assert (await one.batch(timeout=0.3)).items == ()


async def test_a_full_journal_marks_what_it_gave_up(
    admin: kube.Client, namespace: str, start: Start, until: Until
) -> None:
    _, found = await start()
    one = journal.Journal(found, limit=10)
    for number in range(25):
        await change(admin, namespace, "a", str(number))
    await until(lambda: (found.get("a", namespace) or {}).get("data") == {"text": "24"})
    assert len(one) <= 10
    batch = await one.batch()
    assert told(batch)[0] == "gap"
    assert told(batch)[-1] == "modified a 24"
    assert told(batch).count("gap") == 1


async def test_a_restart_goes_on_from_the_checkpoint(
    admin: kube.Client, namespace: str, start: Start
) -> None:
    await change(admin, namespace, "a", "1")
    await change(admin, namespace, "b", "1")
    made, found = await start()
    saved = found.saved()
    await made.close()
    await change(admin, namespace, "a", "2")
    await admin.delete(resources.CONFIG_MAPS, "b", namespace)
    await change(admin, namespace, "b", "3")
    _, found = await start(saved)
    assert found.synced
    one = journal.Journal(found)
    told_first = told(await gather(one, 2))
    assert told_first[:2] == ["added a 1", "added b 1"]
    rest = told_first[2:]
    while len(rest) < 3:
        rest += told(await gather(one, 1))
    assert rest == ["modified a 2", "deleted b 1", "added b 3"]
    assert found.relists == 0


async def test_lost_history_is_a_gap(admin: kube.Client, namespace: str, start: Start) -> None:
    await change(admin, namespace, "a", "1")
    made, found = await start()
    saved = found.saved()
    await made.close()
    await change(admin, namespace, "a", "2")
    # Versions are compacted after minutes; one from before the namespace has the same effect.
    _, found = await start(informer.Saved("1", saved.objects))
    one = journal.Journal(found)
    entries: list[str] = []
    async with asyncio.timeout(20):
        while "modified a 2" not in entries:
            entries += told(await one.batch(timeout=5))
    if found.relists:  # the API server has forgotten version 1
        assert entries == ["added a 1", "gap", "modified a 2"]


async def test_hibernation_keeps_the_cache_and_resumes_where_it_stopped(
    admin: kube.Client, namespace: str, start: Start, until: Until
) -> None:
    await change(admin, namespace, "a", "1")
    made, found = await start()
    await until(lambda: found.following)
    version = found.resource_version
    await made.hibernate()
    await change(admin, namespace, "b", "1")
    await asyncio.sleep(0.2)
    assert found.get("b", namespace) is None
    assert found.get("a", namespace)
    assert found.resource_version == version
    await made.resume()
    await until(lambda: found.get("b", namespace))
    assert found.relists == 1
    assert found.following
    await made.close()
    with pytest.raises(Exception, match="closed"):
        await made.resume()
