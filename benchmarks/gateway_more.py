"""Measure what `benchmarks.gateway` does not: reviews, rules, nodes, a mix, bursts, watches, workers.

    python -m benchmarks.gateway_more [--json FILE] [--seconds S] [--rounds N] [--scenario NAME ...]

Same population, same ways, in turn. Added latency is at half of what the gateway can: so many
requests a second are begun, whether or not earlier ones are answered.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import functools
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import uvloop
from benchmarks import gateway, gateway_calls, gateway_given, measuring

from tenantry.httpproxy import framing, heads
from tenantry.kube import client as kube

Object = dict[str, Any]
JSON = b"application/json"


@dataclasses.dataclass(frozen=True)
class Ask:
    """One request: as asked at the gateway, and what is the same elsewhere."""

    path: str
    direct: str = ""
    method: bytes = b"GET"
    body: bytes = b""
    accept: bytes = gateway.TABLE

    def written(self, way: gateway.Way) -> bytes:
        path = self.path if way.name.startswith("gateway") else self.direct or self.path
        fields = [
            (b"host", b"h"),
            (b"authorization", f"Bearer {way.token}".encode()),
            (b"accept", self.accept),
            (b"user-agent", b"kubectl/benchmark"),
        ]
        if self.method != b"GET":
            fields += [
                (
                    b"content-type",
                    b"application/merge-patch+json" if self.method == b"PATCH" else JSON,
                ),
                (b"content-length", b"%d" % len(self.body)),
            ]
        return heads.request_bytes(self.method, path.encode(), fields) + self.body


class Client(asyncio.Protocol):
    """One connection; tells when a request is answered."""

    def __init__(self) -> None:
        self._waiter: asyncio.Future[None] | None = None
        self._head = b""
        self._framer: framing.Framer | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    async def ask(self, request: bytes) -> None:
        self._head, self._framer = b"", None
        self._waiter = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        await self._waiter

    def data_received(self, data: bytes) -> None:
        if self._framer is None:
            self._head += data
            end = self._head.find(heads.END)
            if end < 0:
                return
            found = heads.parse_response(self._head[: end + 4], to_head=False)
            if found.status not in {200, 201}:
                self._fail(RuntimeError(self._head.decode()))
                return
            self._framer = framing.framer(length=found.length, chunked=found.chunked)
            data = self._head[end + 4 :]
        self._framer.feed(data)
        if self._framer.done and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(error or ConnectionError("closed"))

    def _fail(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)


async def connect(way: gateway.Way, tls: Any) -> Client:
    loop = asyncio.get_running_loop()
    _, client = await loop.create_connection(
        Client, "127.0.0.1", way.port, ssl=tls, server_hostname="127.0.0.1"
    )
    return client


async def closed(way: gateway.Way, asks: Sequence[Ask], *, tls: Any, seconds: float,
                 connections: int) -> list[float]:  # fmt: skip
    """Ask again as soon as there is an answer; return the latencies."""
    latencies: list[float] = []
    written = [ask.written(way) for ask in asks]
    until = time.perf_counter() + seconds

    async def one(number: int) -> None:
        chosen = random.Random(number)
        client = await connect(way, tls)
        while (began := time.perf_counter()) < until:
            await client.ask(chosen.choice(written))
            latencies.append(time.perf_counter() - began)
        client.transport.abort()

    await asyncio.gather(*map(one, range(connections)))
    return latencies


async def paced(
    way: gateway.Way, ask: Ask, *, tls: Any, seconds: float, rate: float
) -> list[float]:
    """Begin so many requests a second; return the latencies, waiting for a connection included."""
    free = [await connect(way, tls) for _ in range(32)]
    every = list(free)
    request = ask.written(way)
    latencies: list[float] = []
    tasks = []

    async def one(began: float) -> None:
        client = free.pop() if free else await connect(way, tls)
        if client not in every:
            every.append(client)
        await client.ask(request)
        latencies.append(time.perf_counter() - began)
        free.append(client)

    begin = time.perf_counter()
    for number in range(int(rate * seconds)):
        due = begin + number / rate
        if (left := due - time.perf_counter()) > 0:
            await asyncio.sleep(left)
        tasks.append(asyncio.create_task(one(due)))
    await asyncio.gather(*tasks)
    for client in every:
        client.transport.abort()
    return latencies


async def burst(way: gateway.Way, ask: Ask, *, tls: Any, count: int) -> list[float]:
    """Open so many connections at once, each for one request."""
    request = ask.written(way)

    async def one() -> float:
        began = time.perf_counter()
        client = await connect(way, tls)
        await client.ask(request)
        client.transport.abort()
        return time.perf_counter() - began

    return list(await asyncio.gather(*(one() for _ in range(count))))


def played(work: Any) -> Any:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def family(pid: int) -> list[int]:
    """Return a process and its children."""
    path = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    return [pid, *(map(int, path.read_text().split()) if pid else ())]


def told(way: gateway.Way, server: int, work: Callable[[], list[float]]) -> Object:
    pids = family(way.pid)
    before = sum(map(gateway.cpu, pids)), gateway.cpu(server)
    began = time.perf_counter()
    latencies = sorted(work())
    took = time.perf_counter() - began
    count = len(latencies)
    return {
        "rate": count / took,
        "p50_ms": latencies[count // 2] * 1e3,
        "p99_ms": latencies[int(count * 0.99)] * 1e3,
        "proxy_cpu_ms": (sum(map(gateway.cpu, pids)) - before[0]) * 1e3 / count,
        "server_cpu_ms": (gateway.cpu(server) - before[1]) * 1e3 / count,
    }


REVIEWS = [
    Ask(
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        method=b"POST",
        accept=JSON,
        body=json.dumps(
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": {"verb": "list", "resource": plural}},
            }
        ).encode(),
    )
    for plural in ("pods", "namespaces", "nodes", "configmaps", "secrets")
]


def asked() -> dict[str, tuple[list[Ask], int]]:
    """Return by name: what is asked, and over how many connections."""
    base = {scenario.name: scenario for scenario in gateway.scenarios()}
    namespaces = Ask(base["namespaces-1"].path, base["namespaces-1"].direct)
    inside = Ask(base["in-namespace-1"].path)
    everywhere = Ask("/api/v1/secrets?limit=50", "/api/v1/secrets?limit=50")
    selected = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    write = Ask(
        "/api/v1/namespaces/t0-n0/configmaps/p0?fieldManager=b", method=b"PATCH", accept=JSON,
        body=b"{}",
    )  # fmt: skip
    rule = Ask(selected, f"{selected}?labelSelector=kubernetes.io%2Fbootstrapping%3Drbac-defaults")
    nodes = Ask("/api/v1/nodes", f"/api/v1/nodes?labelSelector=pool%3D{gateway_given.POOL}")
    return {
        "reviews-30": (REVIEWS, 30),
        "rule-8": ([rule], 8),
        "nodes-8": ([nodes], 8),
        "mix-16": (
            [inside] * 12 + REVIEWS[:3] + [namespaces] * 2 + [everywhere] * 2 + [write], 16
        ),
    }  # fmt: skip


async def events(world: gateway.World, way: gateway.Way, *, count: int, seconds: float) -> Object:
    """Hold watches, send events through all of them, and count CPU per event delivered."""
    path = "/api/v1/namespaces/t0-n2/configmaps?watch=true&resourceVersion=0"
    watching = gateway.request(way, path, JSON)
    heard = 0
    writers = []

    async def listen(reader: asyncio.StreamReader) -> None:
        nonlocal heard
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while line := await reader.readline():
                heard += line.startswith(b'{"type":"MODIFIED"')

    tasks = []
    for _ in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", way.port, ssl=world.tls)
        writer.write(watching)
        await reader.readuntil(heads.END)
        writers.append(writer)
        tasks.append(asyncio.create_task(listen(reader)))
    await asyncio.sleep(0.5)
    before = gateway.cpu(way.pid)
    async with kube.Client(world.plane.config()) as admin:
        begin = time.perf_counter()
        number = 0
        while time.perf_counter() - begin < seconds:
            patch = json.dumps({"data": {"n": str(number)}}).encode()
            await admin.request(
                "PATCH", "/api/v1/namespaces/t0-n2/configmaps/p100", body=patch,
                content_type="application/merge-patch+json",
            )  # fmt: skip
            number += 1
            await asyncio.sleep(max(0.0, begin + number / 10 - time.perf_counter()))
    await asyncio.sleep(1.0)
    used = gateway.cpu(way.pid) - before
    for writer in writers:
        writer.transport.abort()
    await asyncio.gather(*tasks, return_exceptions=True)
    return {"watches": count, "events": heard, "proxy_cpu_us_per_event": used * 1e6 / max(1, heard)}


@contextlib.contextmanager
def workers(world: gateway.World, count: int) -> Iterator[gateway.Way]:
    """Start a gateway of so many processes; one and two are compared as they are after a start."""
    paths, (port, probes) = world.plane.platform.paths, (gateway.free_port(), 20731 + 10 * count)
    process = subprocess.Popen(
        [
            sys.executable, "-m", "tenantry", "gateway",
            f"--kubeconfig={paths.kubeconfig('gateway')}", "--bind=127.0.0.1",
            f"--listening-port={port}", f"--ssl-cert-path={paths.pki / 'gateway.crt'}",
            f"--ssl-key-path={paths.pki / 'gateway.key'}", f"--probes=127.0.0.1:{probes}",
            f"--workers={count}", "--linger=0", "--grace=1",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        gateway.await_port(port)
        time.sleep(2)
        token = world.ways["gateway"].token
        yield gateway.Way(f"gateway-{count}", port, process.pid, token)
    finally:
        process.terminate()
        process.wait()


def medians(samples: dict[str, list[Object]]) -> Object:
    found: Object = {}
    for name, rows in samples.items():
        found[name] = {k: round(statistics.median(row[k] for row in rows), 4) for k in rows[0]}
    for name, row in found.items():
        print(f"  {name:10}" + "".join(f" {key}={value:<10}" for key, value in row.items()))
    return found


#: What is measured besides what `asked` lists.
OTHERS = ("burst-200", "half-load", "workers", "reviews", "watches")


def run(
    world: gateway.World, chosen: Sequence[str], *, seconds: float, rounds: int, watches: int
) -> Object:
    result: Object = {}
    ways, tls, server = world.ways, world.tls, world.server

    def measured(name: str, among: list[gateway.Way], work: Callable[[gateway.Way], Any]) -> None:
        print(f"\n{name}")
        samples: dict[str, list[Object]] = {way.name: [] for way in among}
        for turn in range(rounds):
            for way in among if turn % 2 == 0 else among[::-1]:
                do = functools.partial(work, way)
                samples[way.name].append(told(way, server, lambda do=do: played(do())))  # type: ignore[misc]
        result[name] = medians(samples)

    def asking(asks: Sequence[Ask], connections: int) -> Callable[[gateway.Way], Any]:
        return functools.partial(
            closed, asks=asks, tls=tls, seconds=seconds, connections=connections
        )

    every = list(ways.values())
    for name, (asks, connections) in asked().items():
        if name in chosen:
            measured(name, every, asking(asks, connections))
    inside = Ask(gateway.scenarios()[2].path)
    if "burst-200" in chosen:
        measured("burst-200", every, functools.partial(burst, ask=inside, tls=tls, count=200))
    if "half-load" in chosen:
        # Half of what the gateway can do of a mix.
        asks, connections = asked()["mix-16"]
        way = ways["gateway"]
        mixed = told(way, server, lambda: played(asking(asks, connections)(way)))
        half = mixed["rate"] / 2
        # A percentile of few requests would be one hiccup of the machine.
        pace = functools.partial(paced, ask=inside, tls=tls, seconds=4 * seconds, rate=half)
        measured(f"half-load ({half:.0f}/s)", every[:3], pace)
    if "workers" in chosen:
        with workers(world, 1) as one, workers(world, 2) as two:
            work = asking([inside], 32)
            for way in (one, two):
                # Their connections to the API server, which all later requests use.
                played(work(way))
            measured("workers", [one, two], work)
    if "reviews" in chosen:
        result["reviews_made"] = gateway_calls.counted(world, asked(), connect)
    if "watches" in chosen:
        result["watches"] = watched(world, count=watches, rounds=rounds)
    return result


def watched(world: gateway.World, *, count: int, rounds: int) -> Object:
    """Return medians of what an event costs, in turn."""
    print("\nwatches")
    among = [world.ways[name] for name in ("gateway", "go", "relay")]
    samples: dict[str, list[Object]] = {way.name: [] for way in among}
    for turn in range(rounds):
        for way in among if turn % 2 == 0 else among[::-1]:
            samples[way.name].append(played(events(world, way, count=count, seconds=3.0)))
    return medians(samples)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--watches", type=int, default=500)
    parser.add_argument("--scenario", action="append", choices=[*asked(), *OTHERS])
    options = parser.parse_args()
    chosen = options.scenario or [*asked(), *OTHERS]
    machine = measuring.machine()
    with gateway.built() as baseline, tempfile.TemporaryDirectory() as folder:
        world = gateway.World(pathlib.Path(folder), baseline)
        try:
            asyncio.run(gateway_given.prepare(world))
            # Discovery, the rule and the tenant's nodes have to arrive.
            time.sleep(2)
            result = run(
                world,
                chosen,
                seconds=options.seconds,
                rounds=options.rounds,
                watches=options.watches,
            )
        finally:
            world.close()
    if options.json:
        options.json.write_text(json.dumps({"machine": machine, **result}, indent=1) + "\n")


if __name__ == "__main__":
    main()
