"""Pools on a cluster of 5,000 nodes: a real API server, and the roles as processes.

    python -m benchmarks.nodes_live --json benchmarks/results/nodes_live.json

The nodes are objects without a kubelet, so what is measured is what pools cost: until 500 nodes
are dedicated, while 1,000 nodes report, at rest, and for one `tenantry nodes audit` with 200
DaemonSets. That nothing is written at rest is checked, not only measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks import measuring

from tenantry.api import resources
from tenantry.api.capsule import resources as capsule
from tenantry.api.tenantry import resources as tenantry
from tenantry.cli import local
from tenantry.kube import client as clients
from tenantry.kube import config
from tenantry.local import testing

NODES, POOLS, EACH, SETS, REPORTS, REST = 5000, 10, 50, 200, 1000, 20.0
DEADLINE = 120.0
Object = dict[str, Any]


async def spread(work: Callable[[int], Awaitable[Any]], numbers: Iterable[int]) -> None:
    """Do something for every number, a few at a time."""
    waiting = iter(numbers)

    async def worker() -> None:
        for number in waiting:
            await work(number)

    await asyncio.gather(*(worker() for _ in range(16)))


async def fill(api: clients.Client) -> None:
    async def node(number: int) -> None:
        name = f"node-{number}"
        given = {"give": str(number // EACH)} if number < POOLS * EACH else {}
        labels = {"kubernetes.io/os": "linux", "gpu": str(number % 2), **given}
        await api.create(resources.NODES, {"metadata": {"name": name, "labels": labels}})
        # A new node counts as not ready, and here is nobody who would say otherwise.
        body = {"spec": {"taints": None}}
        await api.patch(resources.NODES, name, kind="merge", body=body)

    async def daemon_set(number: int) -> None:
        chosen = {"gpu": "1"} if number % 2 else {}
        tolerations = [{"operator": "Exists"}] if number % 4 == 0 else []
        container = {"name": "main", "image": "registry.invalid/none"}
        spec = {"containers": [container], "nodeSelector": chosen, "tolerations": tolerations}
        template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
        body = {
            "metadata": {"name": f"agent-{number}", "namespace": "system"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
        }
        await api.create(resources.DAEMON_SETS, body)

    await api.create(resources.NAMESPACES, {"metadata": {"name": "system"}})
    await spread(node, range(NODES))
    await spread(daemon_set, range(SETS))


async def dedicate(api: clients.Client) -> float:
    """Give nodes to tenants; return the seconds until all are theirs."""
    for number in range(POOLS):
        name = f"tenant-{number}"
        owners = {"owners": [{"kind": "User", "name": name}]}
        await api.create(capsule.TENANTS, {"metadata": {"name": name}, "spec": owners})
    began = time.monotonic()
    for number in range(POOLS):
        name = f"tenant-{number}"
        selector = {"matchLabels": {"give": str(number)}}
        body = {"metadata": {"name": name}, "spec": {"tenant": name, "selector": selector}}
        await api.create(tenantry.NODE_POOLS, body)
    while True:
        listed = await api.list(tenantry.NODE_POOLS)
        pools = [json.loads(bytes(raw)) for raw in listed.items]
        if all((one.get("status") or {}).get("dedicated") == EACH for one in pools):
            return time.monotonic() - began
        if time.monotonic() - began > DEADLINE:
            raise TimeoutError(str([one.get("status", {}).get("dedicated") for one in pools]))
        await asyncio.sleep(0.2)


async def report(api: clients.Client) -> None:
    """Let nodes report that they are well, as kubelets do."""

    async def one(number: int) -> None:
        condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
        await api.patch(
            resources.NODES,
            f"node-{number}",
            kind="strategic",
            body={"status": {"conditions": [condition]}},
            subresource="status",
        )

    await spread(one, range(REPORTS))


async def written(api: clients.Client) -> tuple[dict[str, str], dict[str, str]]:
    """Return the versions of all pools, and of what we wrote on nodes the last time."""
    pools = await api.list(tenantry.NODE_POOLS)
    versions = {}
    for raw in pools.items:
        metadata = json.loads(bytes(raw))["metadata"]
        versions[metadata["name"]] = metadata["resourceVersion"]
    records = {}
    for raw in (await api.list(resources.NODES)).items:
        metadata = json.loads(bytes(raw))["metadata"]
        ours = [one for one in metadata["managedFields"] if one["manager"] == "tenantry/nodes"]
        if ours:
            records[metadata["name"]] = json.dumps(ours, sort_keys=True)
    return versions, records


async def play(plane: testing.Plane) -> Object:
    pids = {
        "controller": plane.pid("controller") or 0,
        "api server": plane.pid("kube-apiserver") or 0,
    }

    def usages() -> dict[str, measuring.Usage]:
        return {name: measuring.usage(pid) for name, pid in pids.items()}

    result: Object = {"nodes": NODES, "daemon_sets": SETS}
    async with clients.Client(config.load(plane.admin)) as api:
        before = usages()
        await fill(api)
        result["filled"] = measuring.used(pids, before)
        before = usages()
        seconds = await dedicate(api)
        result["dedicated"] = {
            "nodes": POOLS * EACH,
            "seconds": round(seconds, 1),
            **measuring.used(pids, before),
        }
        await asyncio.sleep(5)
        settled = await written(api)
        assert len(settled[1]) == POOLS * EACH
        before = usages()
        await report(api)
        await asyncio.sleep(2)
        result["reports"] = {"nodes": REPORTS, **measuring.used(pids, before)}
        before = usages()
        await asyncio.sleep(REST)
        result["rest"] = {"seconds": REST, **measuring.used(pids, before)}
        assert await written(api) == settled, "steady state writes nothing"
        result["rest"]["writes"] = 0
    result["audit"] = audit(plane)
    return result


def audit(plane: testing.Plane) -> Object:
    """Type `tenantry nodes audit`."""
    command = [sys.executable, "-m", "tenantry", "nodes", "audit", "-o", "json", "--kubeconfig"]
    began, before = time.monotonic(), measuring_children()
    done = subprocess.run(
        [*command, str(plane.admin)], capture_output=True, timeout=60, check=False
    )
    found = json.loads(done.stdout)["daemonSets"]
    assert len(found) == SETS
    # Half of the sets want nodes with an odd number only; a quarter tolerates everything.
    blocked = {len(one["blocked"]) for one in found}
    assert blocked == {0, POOLS * EACH // 2, POOLS * EACH}, blocked
    return {
        "seconds": round(time.monotonic() - began, 2),
        "cpu_seconds": round(measuring_children() - before, 2),
        "exit_code": done.returncode,
    }


def measuring_children() -> float:
    """Return the CPU seconds of commands that have ended."""
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    manifests, roles = local.tenantry_roles()
    planes = testing.Planes()
    try:
        plane = planes.start(
            components=(),
            manifests=manifests,
            roles=[role for role in roles if role.name != local.GATEWAY],
        )
        result = {"machine": measuring.machine(), **asyncio.run(play(plane))}
    finally:
        planes.close()
    text = json.dumps(result, indent=2)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
