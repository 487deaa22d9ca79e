"""Measure the gateway beside the API server, a Go reverse proxy and a model of three reviews.

    python -m benchmarks.gateway [--json FILE] [--seconds S] [--rounds N] [--scenario NAME ...]

One API server, one load generator, the ways to it taken in turn, round after round. CPU is that of
the proxy's and the API server's processes as the kernel accounts it. `model` is not Capsule Proxy:
it is a Go proxy that makes the same three token reviews per request, without the original's limiter.
`relay` looks at nothing (`gateway_relay.py`): no proxy of ours can cost less.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import uvloop
from benchmarks import measuring

from tenantry.cli import local
from tenantry.httpproxy import framing, heads
from tenantry.kube import client as kube
from tenantry.local import testing

HERE = pathlib.Path(__file__).parent
TABLE = b"application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
TENANTS, PER_TENANT, OWNED, PODS = 50, 10, 5, 2000
LABEL = "capsule.clastix.io/tenant"
TICK = os.sysconf("SC_CLK_TCK")
Object = dict[str, Any]


@dataclasses.dataclass
class Way:
    """A way to the API server."""

    name: str
    port: int
    pid: int
    """of the proxy; 0 = none"""
    token: str


def cpu(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    if not pid:
        return 0.0
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def memory(pid: int) -> int:
    """Return the resident KiB of a process."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


class Load(asyncio.Protocol):
    """One connection that asks again as soon as it was answered."""

    def __init__(self, request: bytes, until: float, latencies: list[float]) -> None:
        self._request = request
        self._until = until
        self._latencies = latencies
        self.over = asyncio.get_running_loop().create_future()
        self.bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._ask()

    def _ask(self) -> None:
        self._head = b""
        self._framer: framing.Framer | None = None
        self._began = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self.bytes += len(data)
        if self._framer is None:
            self._head += data
            end = self._head.find(heads.END)
            if end < 0:
                return
            found = heads.parse_response(self._head[: end + 4], to_head=False)
            if found.status != 200:
                self.over.set_exception(RuntimeError(self._head.decode()))
                return
            self._framer = framing.framer(length=found.length, chunked=found.chunked)
            data = self._head[end + 4 :]
        self._framer.feed(data)
        if self._framer.done:
            now = time.perf_counter()
            self._latencies.append(now - self._began)
            if now < self._until:
                self._ask()
            elif not self.over.done():
                self.over.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.over.done():
            self.over.set_exception(error or ConnectionError("closed"))


@dataclasses.dataclass
class Scenario:
    name: str
    path: str
    """as asked at the gateway"""
    direct: str
    """what gives the same answer at the API server itself"""
    connections: int
    accept: bytes = TABLE


def request(way: Way, path: str, accept: bytes) -> bytes:
    headers = [
        (b"host", b"h"),
        (b"authorization", f"Bearer {way.token}".encode()),
        (b"accept", accept),
        (b"user-agent", b"kubectl/benchmark"),
    ]
    return heads.request_bytes(b"GET", path.encode(), headers)


def itself(one: Load) -> Load:
    return one


async def load(way: Way, path: str, scenario: Scenario, seconds: float, tls: Any) -> Object:
    """Ask for some seconds; return the figures."""
    loop = asyncio.get_running_loop()
    latencies: list[float] = []
    asked = request(way, path, scenario.accept)
    began = time.perf_counter()
    loads = [Load(asked, began + seconds, latencies) for _ in range(scenario.connections)]
    transports = [
        (
            await loop.create_connection(
                functools.partial(itself, one),
                "127.0.0.1",
                way.port,
                ssl=tls,
                server_hostname="127.0.0.1",
            )
        )[0]
        for one in loads
    ]
    await asyncio.gather(*(one.over for one in loads))
    took = time.perf_counter() - began
    for transport in transports:
        transport.abort()
    latencies.sort()
    return {
        "requests": len(latencies),
        "rate": len(latencies) / took,
        "p50_ms": latencies[len(latencies) // 2] * 1e3,
        "p99_ms": latencies[int(len(latencies) * 0.99)] * 1e3,
    }


def measure(way: Way, scenario: Scenario, *, seconds: float, tls: Any, server: int) -> Object:
    path = scenario.path if way.name == "gateway" else scenario.direct
    before = cpu(way.pid), cpu(server)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(load(way, path, scenario, seconds, tls))
    count = found["requests"]
    found["proxy_cpu_ms"] = (cpu(way.pid) - before[0]) * 1e3 / count
    found["server_cpu_ms"] = (cpu(server) - before[1]) * 1e3 / count
    return found


class World:
    """A plane with the gateway, the population, and the other proxies."""

    def __init__(self, folder: pathlib.Path, baseline: pathlib.Path) -> None:
        self._planes = testing.Planes()
        manifests, roles = local.tenantry_roles()
        gateway = [role for role in roles if role.name == local.GATEWAY]
        self.plane = self._planes.start(manifests=manifests, roles=gateway)
        self._children: list[subprocess.Popen[bytes]] = []
        self._folder = folder
        self._baseline = baseline
        pki = self.plane.platform.paths.pki
        self.tls = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        asyncio.run(self._populate())
        self.ways = self._ways(pki)

    @property
    def server(self) -> int:
        return self.plane.pid("kube-apiserver") or 0

    @property
    def gateway(self) -> int:
        return self.plane.pid(local.GATEWAY) or 0

    def close(self) -> None:
        for child in self._children:
            child.kill()
            child.wait()
        self._planes.close()

    def _token(self, name: str) -> str:
        create = ("create", "token", name, "-n", "default", "--duration=2h")
        return self.plane.run(*create).stdout.strip()

    def _ways(self, pki: pathlib.Path) -> dict[str, Way]:
        owner, reader = self._token("owner"), self._token("reader")
        token = self._folder / "reader.token"
        token.write_text(reader)
        api = int(self.plane.server.rpartition(":")[2])
        ports = {"go": free_port(), "model": free_port()}
        common = [
            str(self._baseline), f"-server={self.plane.server}", f"-ca={pki / 'ca.crt'}",
            f"-cert={pki / 'gateway.crt'}", f"-key={pki / 'gateway.key'}", f"-token={token}",
        ]  # fmt: skip
        for name, more in (("go", []), ("model", ["-reviews=3"])):
            child = subprocess.Popen([*common, f"-listen=127.0.0.1:{ports[name]}", *more])
            self._children.append(child)
        ports["relay"] = free_port()
        files = [str(pki / name) for name in ("gateway.crt", "gateway.key", "ca.crt")]
        relay = [sys.executable, "-m", "benchmarks.gateway_relay", str(ports["relay"]), str(api)]
        self._children.append(subprocess.Popen([*relay, *files], cwd=HERE.parent))
        go, model, floor = self._children
        for port in ports.values():
            await_port(port)
        gateway = self.plane.plan.ports[f"{local.GATEWAY}.proxy"]
        return {
            "direct": Way("direct", api, 0, reader),
            "gateway": Way("gateway", gateway, self.gateway, owner),
            "go": Way("go", ports["go"], go.pid, reader),
            "model": Way("model", ports["model"], model.pid, reader),
            "relay": Way("relay", ports["relay"], floor.pid, reader),
        }

    async def _populate(self) -> None:
        owner = "system:serviceaccount:default:owner"
        async with kube.Client(self.plane.config(), connections=16) as admin:
            places = asyncio.Semaphore(16)

            async def create(path: str, body: Object) -> None:
                async with places:
                    await admin.request("POST", path, body=json.dumps(body).encode())

            capsule, rbac = "/apis/capsule.clastix.io/v1beta2", "/apis/rbac.authorization.k8s.io/v1"
            for account in ("owner", "reader"):
                await create(
                    "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": account}}
                )
            await create(f"{capsule}/capsuleconfigurations", {
                "apiVersion": "capsule.clastix.io/v1beta2",
                "kind": "CapsuleConfiguration",
                "metadata": {"name": "default"},
                "spec": {"users": [{"kind": "ServiceAccount", "name": owner}]},
            })  # fmt: skip
            rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
            await create(f"{rbac}/clusterroles", {"metadata": {"name": "bench"}, "rules": rules})
            reader = {"kind": "ServiceAccount", "name": "reader", "namespace": "default"}
            reference = {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bench"
            }  # fmt: skip
            await create(f"{rbac}/clusterrolebindings", {
                "metadata": {"name": "bench"}, "roleRef": reference, "subjects": [reader],
            })  # fmt: skip
            for number in range(TENANTS):
                owners = [{"kind": "ServiceAccount", "name": owner}] if number < OWNED else []
                made = await admin.request("POST", f"{capsule}/tenants", body=json.dumps(
                    {"apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant",
                     "metadata": {"name": f"t{number}"}, "spec": {"owners": owners}}
                ).encode())  # fmt: skip
                uid = json.loads(made.body)["metadata"]["uid"]
                tied = {
                    "apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant",
                    "name": f"t{number}", "uid": uid,
                }  # fmt: skip
                await asyncio.gather(*(
                    create("/api/v1/namespaces", {"metadata": {
                        "name": f"t{number}-n{index}", "labels": {LABEL: f"t{number}"},
                        "ownerReferences": [tied],
                    }})
                    for index in range(PER_TENANT)
                ))  # fmt: skip
            await asyncio.gather(*(
                create(f"{rbac}/namespaces/t{number}-n{index}/rolebindings", {
                    "metadata": {"name": "owner"}, "roleRef": reference,
                    "subjects": [{**reader, "name": "owner"}],
                })
                for number in range(OWNED) for index in range(PER_TENANT)
            ))  # fmt: skip
            spec = {"containers": [{"name": "c", "image": "none"}]}
            await asyncio.gather(*(
                create(f"/api/v1/namespaces/t{pod % TENANTS}-n{pod // TENANTS % PER_TENANT}/configmaps", {
                    "metadata": {"name": f"p{pod}"}, "data": {"spec": json.dumps(spec) * 20},
                })
                for pod in range(PODS)
            ))  # fmt: skip
            big = {"data": {"x": "x" * 500_000}}
            await asyncio.gather(*(
                create("/api/v1/namespaces/t0-n9/secrets", {
                    "metadata": {"name": f"big{index}"}, "stringData": big["data"],
                })
                for index in range(30)
            ))  # fmt: skip


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def await_port(port: int) -> None:
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"nobody listens on {port}")


def scenarios() -> list[Scenario]:
    owned = ",".join(f"t{number}" for number in range(OWNED))
    selected = f"/api/v1/namespaces?labelSelector={LABEL}%20in%20({owned})"
    inside = "/api/v1/namespaces/t0-n0/configmaps?limit=500"
    big = "/api/v1/namespaces/t0-n9/secrets"
    everywhere = "/api/v1/configmaps"
    return [
        Scenario("namespaces-1", "/api/v1/namespaces", selected, 1),
        Scenario("namespaces-32", "/api/v1/namespaces", selected, 32),
        Scenario("in-namespace-1", inside, inside, 1),
        Scenario("in-namespace-32", inside, inside, 32),
        Scenario("all-namespaces-8", everywhere, everywhere, 8),
        Scenario("list-20mb-1", big, big, 1, b"application/json"),
    ]


async def watches(world: World, count: int) -> Object:
    """Hold idle watches through the gateway; return its memory per watch."""
    way = world.ways["gateway"]
    path = "/api/v1/namespaces/t0-n1/configmaps?watch=true&resourceVersion=0"
    before = memory(way.pid)
    asked = request(way, path, b"application/json")
    writers = []
    for _ in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", way.port, ssl=world.tls)
        writer.write(asked)
        await reader.readuntil(heads.END)
        writers.append(writer)
    after = memory(way.pid)
    for writer in writers:
        writer.transport.abort()
    return {"watches": count, "kib_per_watch": (after - before) / count}


def run(world: World, chosen: list[Scenario], *, seconds: float, rounds: int) -> list[Object]:
    rows = []
    for scenario in chosen:
        samples: dict[str, list[Object]] = {name: [] for name in world.ways}
        peak = memory(world.gateway)
        for way in world.ways.values():
            measure(way, scenario, seconds=0.5, tls=world.tls, server=world.server)
        for turn in range(rounds):
            order = list(world.ways.values())
            for way in order if turn % 2 == 0 else reversed(order):
                found = measure(way, scenario, seconds=seconds, tls=world.tls, server=world.server)
                samples[way.name].append(found)
                peak = max(peak, memory(world.gateway))
        medians = {
            name: {
                key: round(statistics.median(one[key] for one in found), 4)
                for key in ("rate", "p50_ms", "p99_ms", "proxy_cpu_ms", "server_cpu_ms")
            }
            for name, found in samples.items()
        }
        row = {"scenario": scenario.name, "gateway_rss_mib": peak // 1024, **medians}
        rows.append(row)
        print(f"\n{scenario.name}  (gateway's memory {peak // 1024} MiB)")
        for name, found in medians.items():
            print(f"  {name:8}" + "".join(f" {key}={value:<10}" for key, value in found.items()))
    return rows


@contextlib.contextmanager
def built() -> Iterator[pathlib.Path]:
    """Build the Go proxy."""
    go = shutil.which("go") or "/usr/local/go/bin/go"
    with tempfile.TemporaryDirectory(prefix="gateway-baseline-") as folder:
        program = pathlib.Path(folder) / "baseline"
        subprocess.run([go, "build", "-o", program, "."], cwd=HERE / "gateway_baseline", check=True)
        yield program


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--watches", type=int, default=1000)
    parser.add_argument("--scenario", action="append", default=[])
    options = parser.parse_args()
    chosen = [s for s in scenarios() if not options.scenario or s.name in options.scenario]
    machine = measuring.machine()
    with built() as baseline, tempfile.TemporaryDirectory() as folder:
        world = World(pathlib.Path(folder), baseline)
        try:
            rows = run(world, chosen, seconds=options.seconds, rounds=options.rounds)
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                idle = runner.run(watches(world, options.watches))
            print(f"\nidle watches: {idle['kib_per_watch']:.1f} KiB each of {idle['watches']}")
        finally:
            world.close()
    if options.json:
        result = {"machine": machine, "rows": rows, "idle": idle}
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
