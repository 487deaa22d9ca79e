"""What a pod's creation costs when a tenant's policy judges it.

    python -m benchmarks.policy --json benchmarks/results/policy.json

The baseline is the same creation, in the same run, in a namespace of no tenant: no webhook asks.
Creations are dry runs, so that neither etcd nor the cluster's controllers are measured; every
webhook is called all the same. Each has two reviews, one mutating and one validating.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import msgspec
from benchmarks import first_slice, measuring

from tenantry.api import resources
from tenantry.api.capsule import configuration, constants, tenant
from tenantry.api.capsule import resources as capsule
from tenantry.apps import webhook
from tenantry.directory import identity
from tenantry.directory import state as directory
from tenantry.kube import client as kube
from tenantry.kube import errors
from tenantry.local import platform as platforms
from tenantry.local import progress
from tenantry.runtime import admission
from tenantry.tenancy import evidence
from tenantry.tenancy.policy import compiling, engine

Object = dict[str, Any]

#: Rules of the tenants; None is the baseline.
RULES = (None, 0, 1, 10, 100)
SAMPLES = 300
BULK = 1000
CONNECTIONS = 8
REVIEWS_EACH = 2


def pod() -> Object:
    """Return a pod as jobs make them: two containers and an init container."""
    resources_ = {"cpu": "1", "memory": "1Gi"}
    container = {
        "image": "registry.example.com/team/train:1.2.3",
        "resources": {"requests": resources_, "limits": resources_},
        "env": [{"name": f"SETTING_{number}", "value": "x" * 20} for number in range(8)],
    }
    return {
        "metadata": {"name": "p", "labels": {"app": "train"}},
        "spec": {
            "initContainers": [{"name": "fetch", **container}],
            "containers": [{"name": "main", **container}, {"name": "side", **container}],
        },
    }


def rule(number: int) -> Object:
    """Return a rule with something of everything that is said of pods."""
    return {
        "enforce": {
            "action": "deny",
            "workloads": {
                "registries": [{"exp": f"^bad-{number}[.]example[.]com/"}],
                "schedulers": [{"exact": [f"rogue-{number}"]}],
            },
            "metadata": [
                {"kinds": ["Pod"], "labels": {f"example.com/reserved-{number}": {}}},
            ],
        }
    }


def spec(count: int) -> Object:
    """Return a tenant's specification with so many rules."""
    return {
        "owners": [{"kind": "User", "name": "owner"}],
        "containerRegistries": {"allowed": ["registry.example.com"]},
        "imagePullPolicies": ["Always", "IfNotPresent"],
        "priorityClasses": {"allowed": ["none"]},
        "rules": [rule(number) for number in range(count)],
    }


def steps(count: int) -> Object:
    """Time both reviews of a creation without an API server: decoding and all steps of tenancy."""
    plain = {"metadata": {"name": "t", "uid": "u", "generation": 1}, "spec": spec(count)}
    owner = msgspec.convert(plain, tenant.Tenant, strict=False)
    view = directory.NamespaceView(
        name="n", uid="n", resource_version="1", labels={}, annotations={}, tenant="t",
        tenant_uid="u", terminating=False, raw=b"{}",
    )  # fmt: skip
    book = compiling.Book()
    began = time.process_time()
    policy = book.of(owner, view)
    compiled = time.process_time() - began
    known = evidence.Evidence(
        requester=identity.Requester("owner"),
        requester_class=identity.Class.CAPSULE,
        config=configuration.CapsuleConfigurationSpec(),
        tenants={},
        owners_of=lambda _: (),
        tenant_name="t",
        policy=policy,
    )
    body = pod()
    for part in ("initContainers", "containers"):
        for container in body["spec"][part]:
            container["imagePullPolicy"] = "IfNotPresent"
    raw = msgspec.json.encode(body)
    times = []
    for _ in range(SAMPLES):
        began = time.process_time()
        for chain in (webhook.MUTATING, webhook.VALIDATING):
            review = admission.Review(
                uid="r", operation="CREATE", resource="pods", kind="Pod", namespace="n", name="p",
                object=msgspec.json.decode(raw),
            )  # fmt: skip
            fresh = dataclasses.replace(known, work=engine.Work())
            if not admission.run(chain, review, fresh).allowed:
                raise RuntimeError("the pod was refused")
        times.append((time.process_time() - began) * 1000)
    hundredths = statistics.quantiles(times, n=100)
    return {
        "compile_ms": round(compiled * 1000, 2),
        "cpu_p50_ms": round(hundredths[49], 3),
        "cpu_p99_ms": round(hundredths[98], 3),
    }


async def prepare(client: kube.Client) -> None:
    """Make a namespace for each number of rules, and wait until pods can be made there."""
    for count in RULES:
        labels = {}
        if count is not None:
            body = {"metadata": {"name": f"rules-{count}"}, "spec": spec(count)}
            await client.create(capsule.TENANTS, body)
            labels = {constants.TENANT_LABEL: f"rules-{count}"}
        name = where(count)
        acting = client if count is None else client.as_user("owner", [constants.USER_GROUP])
        await acting.create(resources.NAMESPACES, {"metadata": {"name": name, "labels": labels}})
        await _account(client, name)


async def _account(client: kube.Client, name: str) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            await client.get(resources.SERVICE_ACCOUNTS, "default", name)
        except errors.NotFound:
            await asyncio.sleep(0.05)
        else:
            return
    raise TimeoutError(f"no default ServiceAccount in {name}")


def where(count: int | None) -> str:
    """Return the namespace for a number of rules."""
    return "no-tenant" if count is None else f"rules-{count}-a"


async def latency(client: kube.Client, count: int | None) -> Object:
    """Time single creations, one after the other."""
    body = pod()
    body["metadata"]["namespace"] = where(count)
    times = []
    for number in range(SAMPLES + 20):
        began = time.monotonic()
        await client.create(resources.PODS, body, dry_run=True)
        if number >= 20:
            times.append((time.monotonic() - began) * 1000)
    hundredths = statistics.quantiles(times, n=100)
    return {"p50_ms": round(hundredths[49], 2), "p99_ms": round(hundredths[98], 2)}


async def bulk(bench: first_slice.Bench, count: int | None) -> Object:
    """Count what the webhook uses for many creations at once."""
    body = pod()
    body["metadata"]["namespace"] = where(count)
    async with first_slice.clients(bench) as given:

        async def make(worker: int, _: int) -> None:
            await given[worker].create(resources.PODS, body, dry_run=True)

        pids = bench.pids("webhook")
        before = {name: measuring.usage(pid) for name, pid in pids.items()}
        since, began = measuring.now_rfc3339(), time.monotonic()
        await first_slice.in_parallel(bench.connections, make, BULK)
        seconds = time.monotonic() - began
        (used,) = measuring.used(pids, before).values()
    result: Object = {
        "creations_per_second": round(BULK / seconds),
        "webhook_cpu_seconds": used["cpu_seconds"],
        "webhook_peak_mib": used["peak_mib"],
    }
    if count is not None:
        result["reviews_per_cpu_second"] = round(
            BULK * REVIEWS_EACH / max(used["cpu_seconds"], 0.01)
        )
        await asyncio.sleep(1)  # the audit log is written behind
        result["calls_of_the_webhook"] = _calls(bench, since)
    return result


def _calls(bench: first_slice.Bench, since: str) -> dict[str, int]:
    """Return what the webhook asked the API server, besides its watches and its lease."""
    events = measuring.audited(bench.platform.paths.logs)
    found = measuring.calls(events, since)
    mine = [calls for user, calls in found.items() if user.endswith(":tenantry-webhook")]
    return {
        call: number
        for calls in mine
        for call, number in calls.items()
        if not call.startswith("watch ")
    }


async def measure(bench: first_slice.Bench) -> Object:
    """Measure all numbers of rules."""
    async with kube.Client(bench.config(), connections=1) as client:
        await prepare(client)
        found: Object = {}
        for count in RULES:
            name = "baseline" if count is None else f"{count} rules"
            found[name] = {
                **await latency(client, count),
                **await bulk(bench, count),
            }
        return found


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--steps", action="store_true", help="measure without an API server")
    given = parser.parse_args()
    machine = measuring.machine()
    alone = {f"{count} rules": steps(count) for count in (0, 1, 10, 100, 500)}
    if given.steps:
        print(json.dumps(alone, indent=1))
        return
    with first_slice.home() as environ:
        platform = platforms.Platform("bench", environ=environ)
        bench = first_slice.Bench(platform, 0, CONNECTIONS)
        try:
            first_slice.tenantry(environ, "local", "up", "--name", "bench")
            found = asyncio.run(measure(bench))
        finally:
            if platform.exists:
                platform.destroy(progress.Silent())
    base = found["baseline"]
    result = {
        "machine": machine,
        "load_after": [round(value, 2) for value in os.getloadavg()],
        "pods": found,
        "steps_alone": alone,
        "p50_of_baseline": {
            name: round(one["p50_ms"] / base["p50_ms"], 2)
            for name, one in found.items()
            if name != "baseline"
        },
    }
    text = json.dumps(result, indent=1) + "\n"
    print(text)
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(text)


if __name__ == "__main__":
    main()
