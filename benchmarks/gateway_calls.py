"""Count what the gateway asks the API server besides what it was asked itself."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import uvloop
from benchmarks import gateway

from tenantry.kube import client as kube

#: Opens a connection on which can be asked.
Connect = Callable[[gateway.Way, Any], Awaitable[Any]]

REQUESTS = 200
#: What a proxy may ask to learn who somebody is and what they may do.
REVIEWS = ("tokenreviews", "subjectaccessreviews")


async def _reviews(world: gateway.World) -> float:
    """Return how many reviews the API server has answered since it began."""
    async with kube.Client(world.plane.config()) as admin:
        found = await admin.request("GET", "/metrics", accept="text/plain")
    total = 0.0
    for line in found.body.decode().splitlines():
        if line.startswith("apiserver_request_total{") and any(
            f'resource="{plural}"' in line for plural in REVIEWS
        ):
            total += float(line.rpartition(" ")[2])
    return total


async def _ask(world: gateway.World, asks: Sequence[Any], connect: Connect) -> float:
    """Return reviews per request once the gateway knows the caller."""
    way = world.ways["gateway"]
    client = await connect(way, world.tls)
    try:
        written = [ask.written(way) for ask in asks]
        for request in written:
            await client.ask(request)
        before = await _reviews(world)
        for number in range(REQUESTS):
            await client.ask(written[number % len(written)])
        return (await _reviews(world) - before) / REQUESTS
    finally:
        with contextlib.suppress(OSError):
            client.transport.abort()


def counted(
    world: gateway.World, asked: Mapping[str, tuple[Sequence[Any], int]], connect: Connect
) -> dict[str, float]:
    """Return, by scenario, the reviews that the gateway made per request."""
    found = {}
    for name, (asks, _) in asked.items():
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            found[name] = round(runner.run(_ask(world, asks, connect)), 4)
    print("reviews made per request", found)
    return found
