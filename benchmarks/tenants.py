"""Measure many tenants at rest, and what one change of theirs costs.

    python -m benchmarks.tenants [--json FILE] [--tenants N]

One platform by `tenantry local up`, in a directory of its own, destroyed afterwards. Each tenant has
rules (images, managed metadata) and three namespaces. Measured: the time until all are settled, CPU
and memory of the roles; their CPU when nothing happens; and how much they write when one tenant, one
namespace or one class changes. The baseline of a change is the number of objects that have to be
written for it, which is counted by hand and recorded beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from benchmarks import first_slice, measuring

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule
from tenantry.apps import roles
from tenantry.core import clock
from tenantry.kube import client as kube
from tenantry.local import platform as platforms
from tenantry.local import progress

Object = dict[str, Any]

EACH = 3
CONNECTIONS = 8
LONGEST = 400.0
IDLE = 20.0
#: Seconds without a write until a change counts as done.
QUIET = 7.0
#: Seconds between two looks at a new leader's CPU, the share of a core from which it counts as at
#: work, and seconds without (more than it waits anywhere) until it counts as at rest.
POLL, BUSY, REST = 0.1, 0.2, 2.5
#: Tenants whose classes are not limited, so that a new class concerns them.
OPEN = 10


def tenant(number: int) -> Object:
    """Return a tenant with rules; most may use one storage class only."""
    registries = [{"exp": f"^registry[.]example[.]com/t{number}/"}]
    kept = {"kinds": ["ConfigMap"], "labels": {"team": {"managed": f"t{number}"}}}
    limits = {} if number < OPEN else {"storageClasses": {"allowed": ["fast"]}}
    return {
        "metadata": {"name": f"t{number}"},
        "spec": {
            "owners": [{"kind": "User", "name": f"owner-{number}"}],
            "rules": [
                {"enforce": {"action": "allow", "workloads": {"registries": registries}}},
                {"enforce": {"action": "deny", "services": {"types": ["NodePort"]}}},
                {"enforce": {"metadata": [kept]}},
            ],
            **limits,
        },
    }


async def make(bench: first_slice.Bench) -> Object:
    """Create all tenants and namespaces, and wait until each tenant is ready."""
    async with first_slice.clients(bench) as given, kube.Client(bench.config()) as admin:

        async def one(worker: int, item: int) -> None:
            client = given[worker]
            await client.create(capsule.TENANTS, tenant(item))
            owner = client.as_user(f"owner-{item}", [constants.USER_GROUP])
            for number in range(EACH):
                await owner.create(resources.NAMESPACES, first_slice.namespace(f"t{item}-{number}"))

        pids = bench.pids(*first_slice.OURS, *first_slice.UNITS) | {"benchmark": os.getpid()}
        before = {name: measuring.usage(pid) for name, pid in pids.items()}
        quiet, began = measuring.busy(), time.monotonic()
        await first_slice.in_parallel(bench.connections, one, bench.tenants)
        created = time.monotonic() - began
        while await unsettled(admin, bench.tenants):
            if time.monotonic() - began > LONGEST:
                raise TimeoutError("the tenants do not settle")
            await asyncio.sleep(1)
        seconds = time.monotonic() - began
        processes = measuring.used(pids, before)
    return {
        "tenants": bench.tenants,
        "namespaces": bench.tenants * EACH,
        "created_seconds": round(created, 1),
        "settled_seconds": round(seconds, 1),
        "processes": processes,
        "machine": measuring.disturbed(quiet, first_slice.total(processes)),
    }


async def unsettled(admin: kube.Client, count: int) -> int:
    """Return how many tenants and RuleStatuses are not ready."""

    def ready(found: Object) -> bool:
        conditions = (found.get("status") or {}).get("conditions") or ()
        return any(c["type"] == constants.READY and c["status"] == "True" for c in conditions)

    total = 0
    for resource, wanted in ((capsule.TENANTS, count), (capsule.RULE_STATUSES, count * EACH)):
        listed = await admin.list(resource)
        total += wanted - sum(ready(msgspec.json.decode(raw)) for raw in listed.items)
    return total


def writes(
    bench: first_slice.Bench, since: str, aside: Collection[str] = ("leases", "events")
) -> dict[str, int]:
    """Count what the roles wrote, events and leases aside."""
    found: dict[str, int] = {}
    prefix = f"system:serviceaccount:{constants.CONTROLLER_NAMESPACE}:"
    for user, counter in measuring.calls(
        measuring.audited(bench.platform.paths.logs), since
    ).items():
        if not user.startswith(prefix):
            continue
        for call, count in counter.items():
            verb, _, what = call.partition(" ")
            if verb in {"create", "patch", "update", "delete"} and what not in aside:
                found[call] = found.get(call, 0) + count
    return dict(sorted(found.items()))


async def change(bench: first_slice.Bench, act: Callable[[], Awaitable[object]]) -> Object:
    """Change something, and count what the roles write for it."""
    pids = bench.pids(*first_slice.OURS)
    before = {name: measuring.usage(pid) for name, pid in pids.items()}
    since = measuring.now_rfc3339()
    await act()
    seen, quiet = -1, time.monotonic()
    while time.monotonic() - quiet < QUIET:
        await asyncio.sleep(1)
        now = sum(writes(bench, since).values())
        if now != seen:
            seen, quiet = now, time.monotonic()
    used = measuring.used(pids, before)
    return {
        "writes": writes(bench, since),
        "cpu_seconds": {name: found["cpu_seconds"] for name, found in used.items()},
    }


async def changes(bench: first_slice.Bench) -> Object:
    """Change one of everything."""
    number = bench.tenants - 1
    owners = [{"kind": "User", "name": f"owner-{number}"}, {"kind": "User", "name": "second"}]
    rules = [*tenant(number)["spec"]["rules"], {"enforce": {"action": "audit"}}]
    storage = {"metadata": {"name": "slow"}, "provisioner": "example.com/none"}
    labels = {"metadata": {"labels": {"env": "test"}}}
    async with kube.Client(bench.config()) as admin:
        patch, name = admin.patch, f"t{number}"
        acts: dict[str, tuple[int, Callable[[], Awaitable[object]]]] = {
            # Two bindings in each namespace, and the tenant's status.
            "an owner more": (2 * EACH + 1, lambda: patch(
                capsule.TENANTS, name, kind="merge", body={"spec": {"owners": owners}})),
            # Specification and status of each RuleStatus, and the tenant's status.
            "a rule more": (2 * EACH + 1, lambda: patch(
                capsule.TENANTS, name, kind="merge", body={"spec": {"rules": rules}})),
            "a label of a namespace": (0, lambda: patch(
                resources.NAMESPACES, f"{name}-0", kind="merge", body=labels)),
            "a storage class more": (min(OPEN, bench.tenants), lambda: admin.create(
                resources.STORAGE_CLASSES, storage)),
        }  # fmt: skip
        return {
            what: {"needed": needed, **await change(bench, act)}
            for what, (needed, act) in acts.items()
        }


async def idle(bench: first_slice.Bench) -> Object:
    """Return the share of a core that each role takes when nothing happens.

    Events of what happened before are written at a pace of their own, so they are waited for.
    """
    async with asyncio.timeout(LONGEST):
        told = True
        while told:
            since = measuring.now_rfc3339()
            await asyncio.sleep(QUIET)
            told = bool(writes(bench, since, ("leases",)))
    pids = bench.pids(*first_slice.OURS)
    before = {name: measuring.usage(pid) for name, pid in pids.items()}
    since = measuring.now_rfc3339()
    await asyncio.sleep(IDLE)
    used = measuring.used(pids, before)
    return {
        "share_of_a_core": {
            name: round(found["cpu_seconds"] / IDLE, 4) for name, found in used.items()
        },
        "writes": writes(bench, since),
    }


async def switch(bench: first_slice.Bench, number: signal.Signals) -> Object:
    """End the leader, and measure its successor, which finds everything settled."""
    async with kube.Client(bench.config()) as admin, aiohttp.ClientSession() as session:

        async def lease() -> Object:
            found = await admin.get(resources.LEASES, roles.LEASE, constants.CONTROLLER_NAMESPACE)
            spec: Object = found["spec"]
            return spec

        before = (await lease())["holderIdentity"]
        since, began = measuring.now_rfc3339(), time.time()
        os.kill(bench.pids("controller")["controller"], number)
        while (spec := await lease()).get("holderIdentity") in {before, "", None}:
            if time.time() - began > LONGEST:
                raise TimeoutError("nobody takes the lease")
            await asyncio.sleep(0.1)
        acquired = clock.parse_rfc3339(spec["acquireTime"])
        settled, reconciled = await rest(bench, session, acquired)
        await asyncio.sleep(QUIET)
    return {
        "reconciles": reconciled,
        "seconds_to_the_lease": round(acquired - began, 2),
        "seconds_from_the_lease": round(settled - acquired, 2),
        "writes": writes(bench, since),
    }


async def rest(
    bench: first_slice.Bench, session: aiohttp.ClientSession, acquired: float
) -> tuple[float, int]:
    """Return when a new leader came to rest, and how many reconciles it had done by then.

    Its CPU is watched from outside: metrics of 1,000 tenants take longer to write than a look at
    dozens of them, so they are asked for only when it seems to rest.
    """
    pid, before, last = 0, 0.0, time.time()
    while True:
        if time.time() - acquired > LONGEST:
            raise TimeoutError("the successor does not come to an end")
        await asyncio.sleep(POLL)
        # Until the status names the new process, the old one is not found.
        with contextlib.suppress(OSError, KeyError, ValueError, aiohttp.ClientError):
            found = bench.pids("controller")["controller"]
            used = measuring.usage(found).cpu_seconds
            if found != pid or used - before >= BUSY * POLL:
                last = time.time()
            pid, before = found, used
            if time.time() - last > REST:
                reconciled, waiting = await work(session, pid)
                if reconciled >= bench.tenants and not waiting:
                    return last, reconciled
                before = measuring.usage(pid).cpu_seconds


async def work(session: aiohttp.ClientSession, pid: int) -> tuple[int, int]:
    """Return how many reconciles a role has done, and how many keys wait or are worked on."""
    command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    address = command[command.index("--probes") + 1]
    async with session.get(f"http://{address}/metrics") as answer:
        lines = (await answer.text()).splitlines()

    def total(*names: str) -> int:
        return sum(int(float(each.rpartition(" ")[2])) for each in lines if each.startswith(names))

    return (
        total("controller_runtime_reconcile_total{"),
        total("workqueue_depth{", "controller_runtime_active_workers{"),
    )


async def _nothing() -> None:
    """Change nothing."""


async def measured(bench: first_slice.Bench) -> Object:
    """Measure everything on a platform that is up."""
    made = await make(bench)
    # What rules keep on objects that exist already is written after the tenants are ready.
    made["writes_after_settled"] = sum((await change(bench, _nothing))["writes"].values())
    resting = await idle(bench)
    switched = {each.name: await switch(bench, each) for each in (signal.SIGTERM, signal.SIGKILL)}
    return {"bulk": made, "idle": resting, "switch": switched, "changes": await changes(bench)}


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--tenants", type=int, default=1000)
    given = parser.parse_args()
    machine = measuring.machine()
    with first_slice.home() as environ:
        platform = platforms.Platform("bench", environ=environ)
        try:
            first_slice.tenantry(environ, "local", "up", "--name", "bench")
            bench = first_slice.Bench(platform, given.tenants, CONNECTIONS)
            found = asyncio.run(measured(bench))
        finally:
            if platform.exists:
                platform.destroy(progress.Silent())
    text = json.dumps({"machine": machine, **found}, indent=1) + "\n"
    print(text)
    if given.json is not None:
        given.json.write_text(text)


if __name__ == "__main__":
    main()
