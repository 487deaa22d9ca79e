"""What the fault table's tests share: both event loops, a proxy, a namespace, and an oracle."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from tests import loops

from tenantry.api import resources
from tenantry.kube import client as kube
from tenantry.local import testing
from tenantry.runtime import cluster, informer, store, timing, views

from . import proxy as proxies

asyncio.set_event_loop(None)

_COUNTER = itertools.count()
#: By this label informers of tests leave out what Kubernetes itself puts into every namespace.
SELECTOR = "faults=mine"
#: Failures are retried at once; what the server paces stays.
QUICK = dataclasses.replace(timing.Timing(), watch_retry_first=0.05, watch_retry_longest=0.5)

Dict = dict[str, Any]


pytest_asyncio_loop_factories = loops.factories


async def until(condition: Callable[[], Any], within: float = 20.0) -> None:
    async with asyncio.timeout(within):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


@pytest.fixture
def front(plane: testing.Plane) -> Iterator[proxies.Proxy]:
    """The proxy before the shared API server."""
    with proxies.Proxy(plane.config()) as made:
        yield made


@pytest.fixture
async def admin(plane: testing.Plane) -> AsyncIterator[kube.Client]:
    """A client that no fault happens to."""
    async with kube.Client(plane.config()) as connected:
        yield connected


async def make_namespace(client: kube.Client) -> str:
    name = f"faults-{os.getpid()}-{next(_COUNTER)}"
    await client.create(resources.NAMESPACES, {"metadata": {"name": name}})
    return name


@pytest.fixture
async def namespace(admin: kube.Client) -> str:
    return await make_namespace(admin)


def config_map(namespace: str, name: str, **data: str) -> Dict:
    metadata = {"namespace": namespace, "name": name, "labels": {"faults": "mine"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def fill(client: kube.Client, namespace: str, number: int, prefix: str = "a") -> None:
    await asyncio.gather(
        *(
            client.create(
                resources.CONFIG_MAPS, config_map(namespace, f"{prefix}{each}", text="x" * 200)
            )
            for each in range(number)
        )
    )


class Oracle:
    """Folds the events of an informer, objecting to impossible ones, and compares in the end."""

    def __init__(self, followed: informer.Informer[Dict], namespace: str, selector: str) -> None:
        self.followed = followed
        self.namespace = namespace
        self.selector = selector
        self.state: dict[store.Key, tuple[str, str]] = {}
        self.events: collections.Counter[str] = collections.Counter()
        self.wrong: list[str] = []
        followed.subscribe(self.note)

    def note(self, event: store.Event[Dict]) -> None:
        self.events[event.type] += 1
        held = self.state.get(event.key)
        if event.type == "deleted":
            if held is None:
                self.wrong.append(f"{event.key} deleted although not there")
            self.state.pop(event.key, None)
            return
        assert event.new is not None
        meta = event.new["metadata"]
        now = (meta["uid"], meta["resourceVersion"])
        if (event.type == "added") != (held is None):
            self.wrong.append(f"{event.key} {event.type} while held: {held is not None}")
        if held == now:
            self.wrong.append(f"{event.key} told twice at {now}")
        if held is not None and held[0] != now[0]:
            self.wrong.append(f"{event.key} changed its uid without a deletion")
        self.state[event.key] = now

    async def fresh(self, client: kube.Client) -> dict[store.Key, tuple[str, str]]:
        listed = await client.list(
            self.followed.resource, self.namespace, label_selector=self.selector
        )
        items = [views.item(bytes(raw)) for raw in listed.items]
        return {each.key: (each.uid, each.resource_version) for each in items}

    async def agrees(self, client: kube.Client, within: float = 20.0) -> None:
        """Wait until cache, events and a fresh list say the same; nothing may have been doubled."""
        async with asyncio.timeout(within):
            while True:
                wanted = await self.fresh(client)
                held = {
                    views_key(obj): (obj["metadata"]["uid"], obj["metadata"]["resourceVersion"])
                    for obj in self.followed.list()
                }
                if wanted == held == self.state:
                    break
                await asyncio.sleep(0.02)
        assert not self.wrong


def views_key(obj: Dict) -> store.Key:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


Follow = Callable[..., Awaitable[Oracle]]


@pytest.fixture
async def follow(front: proxies.Proxy, namespace: str) -> AsyncIterator[Follow]:
    """Start an informer behind the proxy, and an oracle that watches over it."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(
            *,
            source: Any = None,
            timings: timing.Timing = QUICK,
            resource: resources.Resource = resources.CONFIG_MAPS,
            selector: str = SELECTOR,
            scope: str | None = None,
            wait: bool = True,
        ) -> Oracle:
            made = cluster.Cluster(source or front.config(), timing=timings)
            where = namespace if scope is None else scope
            followed = made.informer(
                resource, views.as_dict, namespace=where, label_selector=selector
            )
            oracle = Oracle(followed, where, selector)
            await stack.enter_async_context(made)
            if wait:
                await made.wait_synced(20)
            return oracle

        yield start
