"""Several gateways before one API server: a killed one loses its own connections and no more."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tenantry.api import resources
from tenantry.kube import client as kube
from tenantry.kube import config
from tenantry.kube import errors as kube_errors

from .harness import USERS, World
from .test_modes import gateway

pytestmark = [pytest.mark.plane, pytest.mark.timeout(240)]


def at(world: World, port: int) -> config.Config:
    """Return alice's configuration for another gateway."""
    text = world.kubeconfig("alice", USERS).read_text()
    path = world.folder / f"alice-{port}.yaml"
    path.write_text(text.replace(world.server, f"https://127.0.0.1:{port}"))
    return config.load(path)


def options(world: World) -> tuple[str, ...]:
    pki = world.plane.platform.paths.pki
    return (f"--ssl-cert-path={pki / 'gateway.crt'}", f"--ssl-key-path={pki / 'gateway.key'}")


class Follower:
    """Lists and watches as controllers do: again whenever a watch ends, from where it was."""

    def __init__(self, client: kube.Client) -> None:
        self._client = client
        self.seen: dict[str, str] = {}
        self.cut = asyncio.Event()
        self.ready = asyncio.Event()
        self.changed = asyncio.Event()

    async def run(self) -> None:
        version = ""
        while True:
            try:
                if not version:
                    listed = await self._client.list(resources.CONFIG_MAPS)
                    version = listed.resource_version
                async with self._client.watch(
                    resources.CONFIG_MAPS, resource_version=version
                ) as stream:
                    self.ready.set()
                    async for line in stream:
                        found: Any = json.loads(line)
                        if found["type"] == "ERROR":
                            version = ""
                            break
                        metadata = found["object"]["metadata"]
                        if found["type"] != "BOOKMARK" and metadata["name"] == "ticker":
                            self.seen[metadata["namespace"]] = found["object"]["data"]["n"]
                            self.changed.set()
                        version = metadata["resourceVersion"]
            except kube_errors.KubeError:
                await asyncio.sleep(0.2)
            self.cut.set()

    async def until(self, **wanted: str) -> None:
        async with asyncio.timeout(20):
            while not wanted.items() <= self.seen.items():
                self.changed.clear()
                await self.changed.wait()


async def tick(client: kube.Client, namespace: str, number: int) -> None:
    body = {"data": {"n": str(number)}}
    await client.patch(resources.CONFIG_MAPS, "ticker", namespace, kind="merge", body=body)


async def tickers(client: kube.Client, *, make: bool) -> None:
    for namespace in ("oil-1", "gas-1"):
        metadata = {"name": "ticker", "namespace": namespace}
        if make:
            body = {"metadata": metadata, "data": {"n": "0"}}
            await client.create(resources.CONFIG_MAPS, body)
        else:
            await client.delete(resources.CONFIG_MAPS, "ticker", namespace)


def workers(port: int) -> list[int]:
    """Return the processes that were told to listen on a port."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"--listening-port=%d" % port in line:
                found.append(int(entry.name))
    return found


def test_a_killed_replica_loses_its_own_connections_only(world: World, tmp_path: Path) -> None:
    """Watches at the other one are not touched; who was cut goes on there and misses nothing."""

    async def test(port: int) -> None:
        here, there = at(world, port), world.config("alice", USERS)
        async with (
            kube.Client(world.plane.config()) as admin,
            kube.Client(here) as one,
            kube.Client(there) as other,
        ):
            await tickers(admin, make=True)
            followers = [Follower(one), Follower(other)]
            running = [asyncio.create_task(follower.run()) for follower in followers]
            try:
                await asyncio.gather(*(follower.ready.wait() for follower in followers))
                await tick(admin, "oil-1", 1)
                await asyncio.gather(*(f.until(**{"oil-1": "1"}) for f in followers))
                (victim,) = workers(port)
                os.kill(victim, signal.SIGKILL)
                await tick(admin, "gas-1", 2)
                await followers[1].until(**{"gas-1": "2"})
                assert not followers[1].cut.is_set()
                async with asyncio.timeout(10):
                    await followers[0].cut.wait()
            finally:
                for task in running:
                    task.cancel()
                await asyncio.gather(*running, return_exceptions=True)
                await tickers(admin, make=False)

    with gateway(world, tmp_path, *options(world), ends=-signal.SIGKILL) as port:
        asyncio.run(test(port))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_watches_survive_ten_minutes_of_changes(world: World) -> None:
    """What clients of Kubernetes do all day: each change arrives, in order, and none is missed."""

    async def test() -> None:
        async with (
            kube.Client(world.plane.config()) as admin,
            kube.Client(world.config("alice", USERS)) as alice,
        ):
            await tickers(admin, make=True)
            follower = Follower(alice)
            running = asyncio.create_task(follower.run())
            try:
                await follower.ready.wait()
                until = time.monotonic() + 600
                number = 0
                while time.monotonic() < until:
                    number += 1
                    for namespace in ("oil-1", "gas-1"):
                        await tick(admin, namespace, number)
                    await follower.until(**{"oil-1": str(number), "gas-1": str(number)})
                    await asyncio.sleep(1.0)
                # An API server ends watches by itself after half an hour at the earliest.
                assert not follower.cut.is_set()
                assert number > 300
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                await tickers(admin, make=False)

    asyncio.run(test())
