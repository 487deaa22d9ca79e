"""The case `leader` of `benchmarks.runtime`: a second leader takes over what is settled."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from benchmarks import following

from tenantry.api import resources
from tenantry.kube import client as kube
from tenantry.kube import config
from tenantry.runtime import apply, cluster, controller, leadership, timing
from tenantry.runtime import views as whole

Result = dict[str, Any]
OBJECTS = 1_000


async def leader() -> Result:
    """Take over 1,000 settled objects with 1,000 children from a leader that gives up its lease."""
    from tenantry.local import testing

    planes = testing.Planes()
    plane = planes.start(components=())
    try:
        source = plane.config()
        async with kube.Client(source) as admin:
            names = [f"parent-{number}" for number in range(OBJECTS)]
            for start in range(0, OBJECTS, 100):
                await asyncio.gather(
                    *(
                        admin.create(resources.CONFIG_MAPS, _map(n))
                        for n in names[start : start + 100]
                    )
                )
            first = await _lead(source, settled=False)
            second = await _lead(source, settled=True)
    finally:
        planes.close()
    return {"objects": OBJECTS, "first": first, "switch": second}


def _map(name: str) -> Result:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": {"bench": "leader"}},
        "data": {"text": "x" * 100},
    }


async def _lead(source: config.Config, *, settled: bool) -> Result:
    """Fill caches as a standby, get the lease, and reconcile everything."""
    T = timing.Timing()
    one = cluster.Cluster(source, timing=T)
    caches = one.informer(
        resources.CONFIG_MAPS, whole.as_dict, namespace="default", label_selector="bench=leader"
    )
    applier = apply.Applier(one.client, "bench", timing=T)
    left, done = set(range(OBJECTS)), asyncio.Event()

    async def reconcile(name: str) -> None:
        child = _map(name.replace("parent", "child"))
        await applier.apply(
            resources.CONFIG_MAPS, child, caches.get(child["metadata"]["name"], "default")
        )
        left.discard(int(name.rpartition("-")[2]))
        if not left:
            done.set()

    part = controller.Controller("bench", reconcile, concurrency=16, timing=T)
    part.watches(caches, lambda e: [e.key[1]] if e.key[1].startswith("parent") else [])
    heartbeat = leadership.Heartbeat()
    beating = asyncio.create_task(heartbeat.run(T.heartbeat))
    async with one:
        await one.wait_synced()
        lead = leadership.Leadership(
            source, namespace="default", name="bench", identity=f"settled-{settled}",
            heartbeat=heartbeat, lost=sys.exit, timing=T,
        )  # fmt: skip
        lead.start()
        await lead.acquired()
        began, used = time.monotonic(), following.cpu()
        running = asyncio.create_task(part.run())
        await done.wait()
        seconds, used = time.monotonic() - began, following.cpu() - used
        part.stop()
        await running
        await lead.release()
    beating.cancel()
    return {"writes": applier.sent, "seconds": round(seconds, 3), "cpu_seconds": round(used, 3)}
