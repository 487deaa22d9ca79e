"""What `benchmarks.runtime` runs in processes of their own: list pods into a cache, follow changes.

    python following.py ours|official|informer|floor PORT EVENTS

Prints JSON: CPU seconds and memory for the list, and for following so many changes. `official` is
what the official client's documentation shows: typed lists in pages, then `watch.Watch().stream`;
`informer` is its own cache, `informer.SharedInformer`, in the same role as ours.
`floor` makes views of the same bytes out of memory: no socket, no cache, nobody told.
"""

from __future__ import annotations

import gc
import importlib
import itertools
import json
import os
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any


def cpu() -> float:
    """Return the CPU seconds of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def resident() -> float:
    """Return the resident memory in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class Report:
    """Takes readings at the three moments."""

    def __init__(self) -> None:
        gc.collect()
        self.cpu, self.wall, self.memory = cpu(), time.monotonic(), resident()
        self.start = self.memory
        self.found: dict[str, Any] = {"import_cpu_seconds": round(self.cpu, 3)}

    def note(self, phase: str) -> None:
        """Note what was used since the last note."""
        now, wall = cpu(), time.monotonic()
        self.found[phase] = {
            "cpu_seconds": round(now - self.cpu, 3),
            "seconds": round(wall - self.wall, 3),
            "kept_mib": round(resident() - self.start, 1),
        }
        self.cpu, self.wall = cpu(), time.monotonic()

    def end(self, objects: int) -> None:
        """Print everything."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({**self.found, "objects": objects, "peak_mib": round(peak, 1)}))


def typed(port: int) -> Any:
    """Return the official client's API of pods."""
    client = importlib.import_module("kubernetes").client
    configuration = client.Configuration(host=f"http://127.0.0.1:{port}")
    return client.CoreV1Api(client.ApiClient(configuration))


def official(port: int, events: int) -> None:
    """Follow with the official client."""
    api = typed(port)
    report = Report()
    cache: dict[tuple[str, str], Any] = {}
    token = version = ""
    while True:
        page = api.list_pod_for_all_namespaces(limit=500, _continue=token)
        for pod in page.items:
            cache[pod.metadata.namespace, pod.metadata.name] = pod
        listed = page.metadata.to_dict()
        token, version = listed["_continue"] or "", listed["resource_version"]
        if not token:
            break
    report.note("list")
    stream = importlib.import_module("kubernetes.watch").Watch()
    changes = stream.stream(api.list_pod_for_all_namespaces, resource_version=version)
    for event in itertools.islice(changes, events):
        pod = event["object"]
        cache[pod.metadata.namespace, pod.metadata.name] = pod
    report.note("follow")
    report.end(len(cache))
    sys.stdout.flush()
    os._exit(0)


def informer(port: int, events: int) -> None:
    """Follow with the official client's cache."""
    api = typed(port)
    source = importlib.import_module("kubernetes.informer").SharedInformer(
        list_func=api.list_pod_for_all_namespaces
    )
    report = Report()
    left = itertools.count(events - 1, -1)
    done = threading.Event()

    def changed(_pod: Any) -> None:
        number = next(left)
        if number == events - 1:
            report.note("list")
        if number == 0:
            report.note("follow")
            done.set()

    source.add_event_handler("MODIFIED", changed)
    source.start()
    done.wait()
    report.end(len(source.cache.list()))
    sys.stdout.flush()
    os._exit(0)


def ours(port: int, events: int) -> None:
    """Follow with an informer and a view of what a scheduler needs of a pod."""
    import asyncio

    import uvloop
    from benchmarks import views

    from tenantry.api import resources
    from tenantry.kube import config
    from tenantry.runtime import cluster, memory, store

    async def run() -> None:
        memory.tune()
        report = Report()
        async with cluster.Cluster(config.Config(server=f"http://127.0.0.1:{port}")) as source:
            pods = source.informer(resources.PODS, views.pod)
            left = events
            done = asyncio.Event()

            def note(event: store.Event[views.Pod]) -> None:
                nonlocal left
                left -= not event.initial
                if left <= 0:
                    done.set()

            pods.subscribe(note)
            await pods.wait_synced()
            memory.settle()
            report.note("list")
            await done.wait()
            report.note("follow")
            report.end(len(pods))

    asyncio.Runner(loop_factory=uvloop.new_event_loop).run(run())


def floor(_port: int, events: int) -> None:
    """Do what cannot be left out: cut lines, and make views of objects."""
    from benchmarks import pods, views

    server = pods.Server(2000, 0)
    found = {}
    for phase, objects in (("list", 20_000), ("follow", events)):
        text = b"".join(server.line("ADDED", number, number) for number in range(2000))
        began = cpu()
        for _ in range(objects // 2000):
            for line in text.split(b"\n"):
                if line:
                    views.pod(line[line.find(b"{", 1) : -1])
        found[phase] = {"cpu_seconds": round(cpu() - began, 3)}
    print(json.dumps(found))


if __name__ == "__main__":
    {"ours": ours, "official": official, "informer": informer, "floor": floor}[sys.argv[1]](
        int(sys.argv[2]), int(sys.argv[3])
    )
