"""Measure the client and the runtime, beside the official Python client where there is one.

    python -m benchmarks.runtime [--case NAME ...] [--json FILE] [--official PYTHON]

`--official` names an interpreter that has the package `kubernetes`; without it `uv` makes one in a
temporary directory. Cases: follow, queue, admission, handles, leader (needs TENANTRY_BIN_DIR).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import uvloop
from benchmarks import following, leading, measuring, pods, views

from tenantry.api import resources
from tenantry.kube import config
from tenantry.pki import authority
from tenantry.runtime import (
    admission,
    cluster,
    controller,
    memory,
    queue,
    timing,
    webhook,
)

Result = dict[str, Any]
PODS, EVENTS, RATE = 20_000, 10_000, 1_000
KEYS = 100_000
HANDLES, IDLE = 300, 20.0
LONGEST = 600


@contextlib.contextmanager
def served(number: int, rate: int) -> Iterator[int]:
    """Run the pods' API server; gives its port."""
    command = [sys.executable, "-m", "benchmarks.pods", str(number), str(rate)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.kill()


def child(*command: str) -> Result:
    """Run something in a process of its own that prints JSON."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONGEST)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    found: Result = json.loads(done.stdout.splitlines()[-1])
    return found


@contextlib.contextmanager
def official(given: str) -> Iterator[str]:
    """Give an interpreter that has the official client."""
    if given:
        yield given
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["uv", "venv", "-q", "--python", sys.executable, folder], check=True)
        python = f"{folder}/bin/python"
        subprocess.run(["uv", "pip", "install", "-q", "--python", python, "kubernetes"], check=True)
        yield python


def follow(python: str) -> Result:
    """List 20,000 pods into a cache, follow 10,000 changes that come at 1,000 a second."""
    script = following.__file__
    found: Result = {}
    for name, command in (
        ("ours", (sys.executable, "-m", "benchmarks.following")),
        ("floor", (sys.executable, "-m", "benchmarks.following")),
        ("official", (python, script)),
        ("informer", (python, script)),
    ):
        with served(PODS, RATE) as port:
            found[name] = child(*command, name, str(port), str(EVENTS))
    cpu = {
        name: {phase: each[phase]["cpu_seconds"] for phase in ("list", "follow")}
        for name, each in found.items()
    }
    total = {name: sum(phases.values()) for name, phases in cpu.items()}
    ratio = {
        name: {
            **{
                phase: round(cpu[name][phase] / cpu["ours"][phase], 1)
                for phase in ("list", "follow")
            },
            "cpu": round(total[name] / total["ours"], 1),
            "cpu_of_the_floor": round(total[name] / total["floor"], 1),
            "memory": round(found[name]["list"]["kept_mib"] / found["ours"]["list"]["kept_mib"], 1),
        }
        for name in ("official", "informer")
    }
    return {**found, "ratio": ratio}


async def queued() -> Result:
    """Queue 100,000 keys and reconcile them all; a reconcile does nothing."""
    before = following.resident()
    left, done = KEYS, asyncio.Event()

    async def reconcile(_key: tuple[str, str]) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    part = controller.Controller("bench", reconcile, concurrency=4)
    began = following.cpu()
    for number in range(KEYS):
        part.enqueue(("namespace", f"name-{number}"), priority=queue.LOW if number % 2 else 0)
    added = following.cpu()
    kept = following.resident() - before
    running = asyncio.create_task(part.run())
    await done.wait()
    ended = following.cpu()
    part.stop()
    await running
    return {
        "keys": KEYS,
        "kept_mib": round(kept, 1),
        "adds_per_cpu_second": round(KEYS / (added - began)),
        "reconciles_per_cpu_second": round(KEYS / (ended - added)),
    }


async def reviews(port: int) -> Result:
    """Answer 200 reviews a second while the same process lists 20,000 pods again and again."""
    memory.tune()
    now = time.time()
    ca = authority.Authority.create("bench", now)
    pair = ca.issue_server(["127.0.0.1"], now)
    server = webhook.Server("127.0.0.1", 0, certificate=lambda: (pair.cert, pair.key))
    steps: list[admission.Step[None]] = [
        admission.Step(name=name, matches=lambda _: True, decide=lambda *_: admission.Allow())
        for name in ("one", "two", "three")
    ]

    async def handle(review: admission.Review) -> admission.Verdict:
        return admission.run(steps, review, None, counters=server.counters)

    server.route("/", handle)
    await server.start()
    source = config.Config(server=f"http://127.0.0.1:{port}")

    async def load(rate: int, seconds: float) -> Result:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "benchmarks.runtime", "--child", "load",
            str(server.port), str(rate), str(seconds), stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        output, _ = await process.communicate()
        found: Result = json.loads(output)
        return found

    await load(200, 2.0)
    began = following.cpu()
    quiet = await load(0, 5.0)
    used = following.cpu() - began
    # The cache lists again whenever its watch is refused with 410, which is always.
    often = timing.Timing(watch_retry_first=0.2, watch_retry_longest=0.2)
    async with cluster.Cluster(source, timing=often) as one:
        cache = one.informer(resources.PODS, views.pod)
        await cache.wait_synced()
        memory.settle()
        before = cache.relists
        busy = await load(200, 10.0)
        relists = cache.relists - before
    baseline = await load(200, 5.0)
    return {
        # What a busy machine does not blur: CPU time without a turn for anybody else.
        "longest_turns_of_a_list_cpu_ms": await _turns(source),
        "reviews_per_cpu_second": round(quiet["reviews"] / used),
        "at_200_per_second": baseline,
        "at_200_per_second_during_relists": busy | {"relists_of_20000": relists},
    }


async def _turns(source: config.Config) -> list[float]:
    """List 20,000 pods; give the three longest stretches for which the loop belonged to it."""
    turns: list[float] = []

    async def spin() -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            turns.append(now - last)
            last = now

    spinning = asyncio.create_task(spin())
    async with cluster.Cluster(source) as one:
        one.informer(resources.PODS, views.pod)
        await one.wait_synced()
    spinning.cancel()
    return [round(each * 1000, 1) for each in sorted(turns)[-3:]]


async def load(port: int, rate: int, seconds: float) -> Result:
    """Send reviews, in another process: `rate` a second, or 50 at a time as fast as it goes."""
    pod: Result = {"metadata": {"name": "a", "namespace": "n", "labels": {"x" * 20: "y" * 20}}}
    pod["spec"] = {
        "containers": [{"name": "main", "env": [{"name": "A" * 9, "value": "b" * 99}] * 40}]
    }
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u", "operation": "CREATE", "namespace": "n", "name": "a", "object": pod,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "userInfo": {"username": "alice", "groups": ["dev"]},
        },
    }  # fmt: skip
    body = json.dumps(review).encode()
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    took: list[float] = []
    loop = asyncio.get_running_loop()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:

        async def one() -> None:
            began = loop.time()
            async with session.post(f"https://127.0.0.1:{port}/?timeout=10s", data=body) as answer:
                assert answer.status == 200
                await answer.read()
            took.append(loop.time() - began)

        end = loop.time() + seconds
        if rate:
            running, due = set(), loop.time()
            while due < end:
                running.add(asyncio.create_task(one()))
                due += 1 / rate
                await asyncio.sleep(max(0.0, due - loop.time()))
            await asyncio.gather(*running)
        else:

            async def worker() -> None:
                while loop.time() < end:
                    await one()

            await asyncio.gather(*(worker() for _ in range(50)))
    ranks = statistics.quantiles(took, n=100)
    return {
        "reviews": len(took),
        "p50_ms": round(ranks[49] * 1000, 2),
        "p99_ms": round(ranks[98] * 1000, 2),
    }


async def handles(port: int) -> Result:
    """Hold 300 clusters in one process, each with a cache of 100 pods that do not change."""
    memory.tune()
    source = config.Config(server=f"http://127.0.0.1:{port}")
    before, clusters = following.resident(), []
    for _ in range(HANDLES):
        made = cluster.Cluster(source)
        made.informer(resources.PODS, views.pod)
        await made.start()
        clusters.append(made)
    for made in clusters:
        await made.wait_synced()
    memory.settle()
    kept, began = following.resident() - before, following.cpu()
    await asyncio.sleep(IDLE)
    idle = following.cpu() - began
    await asyncio.gather(*(made.close() for made in clusters))
    return {
        "handles": HANDLES,
        "kib_each": round(kept * 1024 / HANDLES),
        "idle_cpu_microseconds_per_second_each": round(idle / IDLE / HANDLES * 1e6, 1),
    }


CHILDREN: dict[str, Callable[..., Any]] = {
    "queue": queued,
    "admission": reviews,
    "load": load,
    "handles": handles,
    "leader": leading.leader,
}


def main() -> None:
    """Run the cases and print or store what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", action="append", choices=["follow", *CHILDREN])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--official", default="")
    parser.add_argument("--child", nargs="+")
    given = parser.parse_args()
    if given.child:
        logging.disable(logging.ERROR)
        name, *values = given.child
        numbers = [float(each) if "." in each else int(each) for each in values]
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            print(json.dumps(runner.run(CHILDREN[name](*numbers))))
        return
    found: Result = {"machine": measuring.machine()}
    me = (sys.executable, "-m", "benchmarks.runtime", "--child")
    for case in given.case or ["follow", "queue", "admission", "handles", "leader"]:
        if case == "follow":
            with official(given.official) as python:
                found[case] = follow(python)
        elif case in {"admission", "handles"}:
            with served(*((PODS, pods.GONE) if case == "admission" else (100, 0))) as port:
                found[case] = child(*me, case, str(port))
        else:
            found[case] = child(*me, case)
        print(case, json.dumps(found[case], indent=1), flush=True)
    found["machine"]["load_after"] = [round(each, 2) for each in os.getloadavg()]
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
