"""Measure the first slice: a platform, its tenants, and how soon their owners can work.

    python -m benchmarks.first_slice [--json FILE] [--tenants N] [--connections N]

Two platforms are made one after the other, in a directory of their own, and destroyed: one without
Tenantry, where an administrator writes the same namespaces and RoleBindings directly (the API
server's own cost, and the baseline), and one with Tenantry, by `tenantry local up`. The binaries of
the control plane must be there already (`tenantry local binaries`, or TENANTRY_BIN_DIR).

"Ready" is a Tenant whose condition Ready is True for all its namespaces; that this means what it
says is checked: at that moment all RoleBindings must be there.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from benchmarks import measuring

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule
from tenantry.kube import client as kube
from tenantry.kube import config, errors, watch
from tenantry.local import platform as platforms
from tenantry.local import progress

NAMESPACES_EACH = 2
ROLES = ("admin", constants.DELETER_ROLE)
OURS = ("controller", "webhook")
UNITS = ("kube-apiserver", "etcd", "kube-controller-manager")
SAMPLES = 20
LONGEST = 180.0
SETTLE = 40.0

#: Capsule 0.14 on the same kind of machine, doing the same.
CAPSULE: dict[str, Any] = {
    "bulk_seconds": 52.7,
    "bulk_cpu_seconds": 22.5,
    "peak_mib": [102, 125],
    "first_binding_ms": 134,
    "all_bindings_ms": 170,
    "refusals": "thousands",
}
TARGETS = {"bulk_seconds": 52.7 / 4, "bulk_cpu_seconds": 10.0, "all_bindings_ms": 50.0}

Object = dict[str, Any]

#: Names of the bulk's namespaces: one begins with its tenant's name, the other does not.
_PLACE = re.compile(r"(t|work)[0-9]+-[0-9]")


def namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def place(item: int, number: int) -> str:
    return f"{'work' if number % 2 else 't'}{item}-{number}"


def tenant(name: str, owner: str) -> Object:
    return {
        "apiVersion": constants.API_VERSION,
        "kind": "Tenant",
        "metadata": {"name": name},
        "spec": {"owners": [{"kind": "User", "name": owner}]},
    }


def role_binding(in_namespace: str, role: str, owner: str) -> Object:
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"{role}-{owner}", "namespace": in_namespace},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": owner}],
    }


@dataclasses.dataclass(frozen=True)
class Bench:
    """One platform under measurement."""

    platform: platforms.Platform
    tenants: int
    connections: int

    def pids(self, *names: str) -> dict[str, int]:
        units = {unit.name: unit.pid for unit in self.platform.status().units}
        return {name: pid for name in names if (pid := units.get(name)) is not None}

    def config(self, user: str = "", *groups: str) -> config.Config:
        with tempfile.NamedTemporaryFile(suffix=".yaml") as file:
            file.write(self.platform.kubeconfig(user, groups))
            file.flush()
            return config.load(Path(file.name))


async def in_parallel(
    workers: int, work: Callable[[int, int], Awaitable[None]], count: int
) -> None:
    """Do `work(worker, item)` for all items, each worker one at a time."""
    items = iter(range(count))

    async def one(worker: int) -> None:
        for item in items:
            await work(worker, item)

    await asyncio.gather(*(one(worker) for worker in range(workers)))


@contextlib.asynccontextmanager
async def clients(bench: Bench) -> AsyncIterator[list[kube.Client]]:
    """Give as many clients with one connection each."""
    async with contextlib.AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                kube.Client(bench.config(), connections=1, user_agent="bench")
            )
            for _ in range(bench.connections)
        ]


async def baseline_bulk(bench: Bench) -> Object:
    """Write the namespaces and RoleBindings of all tenants as an administrator."""
    async with clients(bench) as given:

        async def make(worker: int, item: int) -> None:
            client, owner = given[worker], f"owner-{item}"
            for number in range(NAMESPACES_EACH):
                name = place(item, number)
                await client.create(resources.NAMESPACES, namespace(name))
                for role in ROLES:
                    await client.create(resources.ROLE_BINDINGS, role_binding(name, role, owner))

        pids = bench.pids(*UNITS) | {"benchmark": os.getpid()}
        before = {name: measuring.usage(pid) for name, pid in pids.items()}
        quiet, began = measuring.busy(), time.monotonic()
        await in_parallel(bench.connections, make, bench.tenants)
        seconds = time.monotonic() - began
        processes = measuring.used(pids, before)
        return {
            "seconds": round(seconds, 2),
            "processes": processes,
            "machine": measuring.disturbed(quiet, total(processes)),
        }


async def baseline_latency(bench: Bench) -> Object:
    """Time single creations without any webhook."""
    async with kube.Client(bench.config(), connections=1) as client:
        times = []
        for number in range(SAMPLES):
            began = time.monotonic()
            await client.create(resources.NAMESPACES, namespace(f"latency-{number}"))
            times.append(time.monotonic() - began)
            await asyncio.sleep(0.1)
        return {"create_ms": median_ms(times)}


def total(processes: dict[str, dict[str, float]]) -> float:
    return round(sum(one["cpu_seconds"] for one in processes.values()), 2)


def median_ms(times: list[float]) -> float:
    return round(statistics.median(times) * 1000, 1)


async def ready_tenants(client: kube.Client) -> int:
    listed = await client.list(capsule.TENANTS)
    found = [msgspec.json.decode(raw) for raw in listed.items]
    return sum(_is_ready(one) for one in found if one["metadata"]["name"].startswith("t"))


def _is_ready(found: Object) -> bool:
    status = found.get("status") or {}
    states = {c["type"]: c["status"] for c in status.get("conditions") or []}
    return status.get("size") == NAMESPACES_EACH and states.get("Ready") == "True"


async def bulk(bench: Bench) -> Object:
    """Create tenants, and right after each its namespaces, as its owner."""
    refusals: list[str] = []
    async with clients(bench) as given, kube.Client(bench.config()) as admin:

        async def make(worker: int, item: int) -> None:
            client, owner = given[worker], f"owner-{item}"
            await client.create(capsule.TENANTS, tenant(f"t{item}", owner))
            as_owner = client.as_user(owner, [constants.USER_GROUP])
            for number in range(NAMESPACES_EACH):
                try:
                    await as_owner.create(resources.NAMESPACES, namespace(place(item, number)))
                except errors.KubeError as problem:
                    refusals.append(str(problem))

        pids = bench.pids(*OURS, *UNITS) | {"benchmark": os.getpid()}
        before = {name: measuring.usage(pid) for name, pid in pids.items()}
        since, quiet, began = measuring.now_rfc3339(), measuring.busy(), time.monotonic()
        await in_parallel(bench.connections, make, bench.tenants)
        created = time.monotonic() - began
        while await ready_tenants(admin) < bench.tenants:
            if time.monotonic() - began > LONGEST:
                raise TimeoutError(f"{await ready_tenants(admin)} tenants are ready")
            await asyncio.sleep(0.1)
        seconds = time.monotonic() - began
        bindings = await admin.list(
            resources.ROLE_BINDINGS,
            label_selector=f"{constants.MANAGED_BY_LABEL}={constants.MANAGED_BY_CONTROLLER}",
        )
        processes = measuring.used(pids, before)
        around = measuring.disturbed(quiet, total(processes))
        await asyncio.sleep(2)
        later = measuring.used(pids, before)
    count = bench.tenants * NAMESPACES_EACH
    found = [msgspec.json.decode(raw)["metadata"]["namespace"] for raw in bindings.items]
    ours = [name for name in found if _PLACE.fullmatch(name)]
    if len(ours) != count * len(ROLES):
        raise AssertionError(f"ready with {len(ours)} RoleBindings of {count * len(ROLES)}")
    return {
        "tenants": bench.tenants,
        "namespaces": count,
        "role_bindings": len(ours),
        "connections": bench.connections,
        "refusals": len(refusals),
        "first_refusals": refusals[:3],
        "created_seconds": round(created, 2),
        "ready_seconds": round(seconds, 2),
        "processes": processes,
        "machine": around,
        "cpu_seconds": total({name: processes[name] for name in OURS}),
        "cpu_seconds_2s_later": total({name: later[name] for name in OURS}),
        "calls": calls(bench, since, count),
    }


def calls(bench: Bench, since: str, count: int) -> Object:
    """Count what the roles asked the API server, per namespace."""
    found = measuring.calls(measuring.audited(bench.platform.paths.logs), since)
    prefix = f"system:serviceaccount:{constants.CONTROLLER_NAMESPACE}:"
    ours = {user.removeprefix(prefix): c for user, c in found.items() if user.startswith(prefix)}
    return {
        "per_namespace": round(sum(c.total() for c in ours.values()) / count, 2),
        "by_account": {
            account: {call: round(n / count, 2) for call, n in counter.most_common(8)}
            for account, counter in sorted(ours.items())
        },
    }


async def latency(bench: Bench, label: str) -> Object:
    """Time what an owner with a certificate of her own waits for, namespace by namespace."""
    owner = f"owner-{label}"
    seen: dict[str, list[float]] = {}
    complete = asyncio.Event()

    async def look(ready: asyncio.Event) -> None:
        async with kube.Client(bench.config()) as client:
            listed = await client.list(resources.ROLE_BINDINGS)
            stream = client.watch(resources.ROLE_BINDINGS, resource_version=listed.resource_version)
            async with stream as lines:
                ready.set()
                async for line in lines:
                    event = watch.decode(line)
                    if event.type == "ADDED":
                        found = msgspec.json.decode(event.raw_object)["metadata"]
                        times = seen.setdefault(found["namespace"], [])
                        times.append(time.monotonic())
                        if len(times) == len(ROLES):
                            complete.set()

    create, answer_first, answer_both, start_both = [], [], [], []
    async with (
        kube.Client(bench.config()) as admin,
        kube.Client(bench.config(owner, constants.USER_GROUP), connections=1) as client,
    ):
        await admin.create(capsule.TENANTS, tenant(label, owner))
        ready = asyncio.Event()
        looking = asyncio.create_task(look(ready))
        await ready.wait()
        await asyncio.sleep(0.5)
        for number in range(SAMPLES):
            name = f"{label}-{number}"
            began = time.monotonic()
            await client.create(resources.NAMESPACES, namespace(name))
            answered = time.monotonic()
            async with asyncio.timeout(30):
                await complete.wait()
            complete.clear()
            first, both = seen[name]
            create.append(answered - began)
            answer_first.append(max(first - answered, 0.0))
            answer_both.append(max(both - answered, 0.0))
            start_both.append(both - began)
            await asyncio.sleep(0.2)
        looking.cancel()
    return {
        "tenants": len(await _tenants(bench)),
        "create_ms": median_ms(create),
        "answer_to_first_binding_ms": median_ms(answer_first),
        "answer_to_both_bindings_ms": median_ms(answer_both),
        "request_to_both_bindings_ms": median_ms(start_both),
        "slowest_answer_to_both_bindings_ms": round(max(answer_both) * 1000, 1),
    }


async def _tenants(bench: Bench) -> list[Any]:
    async with kube.Client(bench.config()) as client:
        return (await client.list(capsule.TENANTS)).items


async def first_tenant(bench: Bench) -> None:
    """Create a tenant, and return when it is ready."""
    async with kube.Client(bench.config()) as client:
        await client.create(capsule.TENANTS, tenant("first", "alice"))
        while True:
            found = await client.get(capsule.TENANTS, "first")
            states = {
                c["type"]: c["status"] for c in (found.get("status") or {}).get("conditions", ())
            }
            if states.get("Ready") == "True":
                return
            await asyncio.sleep(0.02)


def tenantry(environ: dict[str, str], *args: str) -> float:
    """Run a command; return the seconds it took."""
    began = time.monotonic()
    command = [sys.executable, "-m", "tenantry", *args]
    done = subprocess.run(
        command, check=False, env=environ, capture_output=True, text=True, timeout=300
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return time.monotonic() - began


@contextlib.contextmanager
def home() -> Iterator[dict[str, str]]:
    """Give an environment whose platforms lie in a directory of their own."""
    folder = tempfile.mkdtemp(prefix="tenantry-bench-")
    try:
        yield {**os.environ, "TENANTRY_STATE_DIR": folder}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure_baseline(environ: dict[str, str], tenants: int, connections: int) -> Object:
    platform = platforms.Platform("bench-baseline", environ=environ)
    try:
        began = time.monotonic()
        platform.up(platforms.Options(make_binaries=False), progress.Silent())
        up = time.monotonic() - began
        bench = Bench(platform, tenants, connections)
        time.sleep(3)
        return {
            "up_seconds": round(up, 1),
            "latency": asyncio.run(baseline_latency(bench)),
            "bulk": asyncio.run(baseline_bulk(bench)),
        }
    finally:
        platform.destroy(progress.Silent())


def measure_tenantry(environ: dict[str, str], tenants: int, connections: int) -> Object:
    platform = platforms.Platform("bench", environ=environ)
    bench = Bench(platform, tenants, connections)
    try:
        began = time.monotonic()
        up = tenantry(environ, "local", "up", "--name", "bench")
        asyncio.run(first_tenant(bench))
        first = time.monotonic() - began
        # The cluster's garbage collector looks for new kinds every 30 s; until it knows Tenants
        # it asks about the owner of every single object.
        time.sleep(SETTLE)
        pids = bench.pids("controller", "webhook")
        idle = {name: round(measuring.usage(pid).peak_mib, 1) for name, pid in pids.items()}
        few = asyncio.run(latency(bench, "few"))
        found = asyncio.run(bulk(bench))
        many = asyncio.run(latency(bench, "many"))
        down = tenantry(environ, "local", "down", "--name", "bench")
        again = tenantry(environ, "local", "up", "--name", "bench")
        return {
            "up_seconds": round(up, 1),
            "first_tenant_seconds": round(first, 1),
            "down_seconds": round(down, 1),
            "up_again_seconds": round(again, 1),
            "peak_mib_before": idle,
            "latency_few_tenants": few,
            "bulk": found,
            "latency_many_tenants": many,
        }
    finally:
        if platform.exists:
            platform.destroy(progress.Silent())


def judged(ours: Object, baseline: Object) -> Object:
    """Compare with the baseline of this run, with Capsule, and with what was aimed at."""
    bulk_, waiting = ours["bulk"], ours["latency_few_tenants"]
    figures = {
        "bulk_seconds": bulk_["ready_seconds"],
        "bulk_cpu_seconds": bulk_["cpu_seconds"],
        "all_bindings_ms": waiting["answer_to_both_bindings_ms"],
    }
    return {
        "bulk_seconds_of_baseline": round(bulk_["ready_seconds"] / baseline["bulk"]["seconds"], 2),
        "bulk_seconds_of_capsule": round(bulk_["ready_seconds"] / CAPSULE["bulk_seconds"], 3),
        "cpu_of_capsule": round(bulk_["cpu_seconds"] / CAPSULE["bulk_cpu_seconds"], 3),
        "create_of_baseline": round(waiting["create_ms"] / baseline["latency"]["create_ms"], 2),
        "met": {
            **{name: figures[name] < TARGETS[name] for name in TARGETS},
            "refusals": bulk_["refusals"] == 0,
        },
    }


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--tenants", type=int, default=200)
    parser.add_argument("--connections", type=int, default=8)
    given = parser.parse_args()
    machine = measuring.machine()
    with home() as environ:
        baseline = measure_baseline(environ, given.tenants, given.connections)
        ours = measure_tenantry(environ, given.tenants, given.connections)
    result = {
        "machine": machine,
        "load_after": [round(value, 2) for value in os.getloadavg()],
        "baseline": baseline,
        "capsule_0_14": CAPSULE,
        "targets": TARGETS,
        "tenantry": ours,
        "verdict": judged(ours, baseline),
    }
    text = json.dumps(result, indent=1) + "\n"
    print(text)
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(text)


if __name__ == "__main__":
    main()
