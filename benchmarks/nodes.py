"""Dedicated nodes: the audit of a large cluster, and the fence's share of a pod's admission.

    python -m benchmarks.nodes --json benchmarks/results/nodes.json

No cluster is needed: caches are filled from generated objects. CPU seconds are of this process.
The baseline of the audit is the direct way, node by node, on a tenth of the DaemonSets; that of
the fence is a review on which no step has anything to say. That of the claims on nodes, kept up
while nodes are dedicated one after the other, is to divide all nodes anew at each change.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
from benchmarks import measuring

from tenantry.api.tenantry import node_pool
from tenantry.nodes import claims as dividing
from tenantry.nodes import daemonsets, evidence, fence, occupants, records, taints, views
from tenantry.nodes.admission import pods
from tenantry.runtime import admission

NODES, DEDICATED, SETS, REVIEWS, POOLS = 5000, 500, 200, 5000, 20
TENANTS = {f"tenant-{number}" for number in range(10)}
Object = dict[str, Any]


def cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def node(number: int) -> views.NodeView:
    name, tenant = f"node-{number}", f"tenant-{number % 10}"
    dedicated = number < DEDICATED
    return views.NodeView(
        name=name,
        labels={
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "gpu": str(number % 2),
            "zone": f"z{number % 7}",
            "rack": f"r{number // 40}",
            **({"give": str(number % POOLS)} if dedicated else {}),
        },
        taints=(taints.Taint("tenant-dedicated", tenant),) if dedicated else (),
    )


def daemon_set(number: int) -> daemonsets.View:
    zones = {"key": "zone", "operator": "NotIn", "values": [f"z{number % 7}"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [zones]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    template: Object = {"containers": [{"image": f"vendor/agent-{number}"}]}
    if number % 2:
        template["nodeSelector"] = {"kubernetes.io/os": "linux", "gpu": "1"}
    if number % 3:
        template["affinity"] = {"nodeAffinity": required}
    if number % 4 == 0:
        template["tolerations"] = [{"operator": "Exists"}]
    return daemonsets.View(
        namespace="system",
        name=f"agent-{number}",
        uid=str(number),
        resource_version="1",
        labels={},
        annotations={},
        owner="",
        template=template,
    )


def audit(nodes: list[views.NodeView], sets: list[daemonsets.View]) -> list[daemonsets.Audit]:
    index = daemonsets.Nodes(nodes, {"tenant-dedicated"})
    everywhere = [one.name for one in nodes]
    return daemonsets.audit(sets, index, lambda _: everywhere)


def direct(nodes: list[views.NodeView], sets: list[daemonsets.View]) -> int:
    """Count blocked pairs, one node and DaemonSet after the other."""
    blocked = 0
    for one in sets:
        given = daemonsets.given(one.template)
        for each in nodes:
            alone = daemonsets.Nodes([each], {"tenant-dedicated"})
            if alone.selected(one.template) and not taints.tolerated(each.taints, given):
                blocked += 1
    return blocked


def pools() -> list[node_pool.TenantNodePool]:
    return [
        msgspec.convert(
            {
                "metadata": {"name": f"pool-{number}"},
                "spec": {
                    "tenant": f"tenant-{number % 10}",
                    "selector": {"matchLabels": {"give": str(number)}},
                    "adopt": True,
                },
            },
            node_pool.TenantNodePool,
            strict=False,
        )
        for number in range(POOLS)
    ]


def anew(nodes: Iterable[views.NodeView]) -> dividing.Division:
    """Divide all nodes from nothing."""
    division = dividing.Division()
    for one in pools():
        division.pool_changed(one.metadata.name, one)
    for node in nodes:
        division.node_changed(node.name, node)
    division.claims(TENANTS)
    return division


def dedicate(nodes: Iterable[views.NodeView]) -> list[views.NodeView]:
    """Return the nodes that pools get, each with the record of its own."""
    found = []
    by_name = {one.metadata.name: one for one in pools()}
    pool_of = anew(nodes).claims(TENANTS).pool_of
    for node in nodes:
        if node.name in pool_of:
            wanted = records.wanted(by_name[pool_of[node.name]], tainted=True)
            record = records.Record(pool=wanted.pool, tenant=wanted.tenant, marks=wanted.marks)
            text = msgspec.json.encode(record).decode()
            found.append(msgspec.structs.replace(node, record=text))
    return found


def claims(nodes: list[views.NodeView]) -> Object:
    """Dedicate nodes one after the other, and look at the division after each."""
    anew_cpu, division = cpu(lambda: anew(nodes))
    changed = dedicate(nodes)

    def work() -> None:
        for one in changed:
            division.node_changed(one.name, one)
            division.claims(TENANTS)

    changes_cpu, _ = cpu(work)
    after = {one.name: one for one in (*nodes, *changed)}
    found = division.claims(TENANTS)
    assert found == anew(after.values()).claims(TENANTS), "both ways find the same"
    return {
        "pools": POOLS,
        "nodes": NODES,
        "changes": len(changed),
        "held": len(found.pool_of),
        "anew_cpu_seconds": round(anew_cpu, 3),
        "cpu_seconds": round(changes_cpu, 4),
        "anew_each_time_cpu_seconds": round(anew_cpu * len(changed), 1),
        "ratio": round(changes_cpu / (anew_cpu * len(changed)), 6),
    }


def review() -> admission.Review:
    pod = {
        "metadata": {"name": "trainer", "namespace": "team"},
        "spec": {
            "containers": [{"name": f"c{number}", "image": "a/b:c"} for number in range(3)],
            "tolerations": [
                {
                    "key": "node.kubernetes.io/not-ready",
                    "operator": "Exists",
                    "effect": "NoExecute",
                },
                {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            ],
            "volumes": [{"name": f"v{number}", "emptyDir": {}} for number in range(5)],
        },
    }
    return admission.Review(
        uid="u", operation="CREATE", resource="pods", kind="Pod", namespace="team", name="trainer",
        object=pod,
    )  # fmt: skip


def admitted(known: evidence.Evidence) -> Callable[[], None]:
    asked = review()

    def work() -> None:
        for _ in range(REVIEWS):
            verdict = admission.run(pods.MUTATING, asked, known)
            if known.around is not None:
                assert verdict.patch
            admission.run(pods.VALIDATING, asked, evidence.Evidence())

    return work


def fenced(around: fence.Fence) -> Callable[[], None]:
    """Measure both sides: the mutation, and the validation of what came out."""
    asked, known = review(), evidence.Evidence(around=around)
    assert asked.object is not None
    spec = fence.fenced(asked.object["spec"], around)
    final = {**asked.object, "spec": spec}
    after = dataclasses.replace(asked, object=final)

    def work() -> None:
        for _ in range(REVIEWS):
            admission.run(pods.MUTATING, asked, known)
            assert admission.run(pods.VALIDATING, after, known).allowed

    return work


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    machine = measuring.machine()
    nodes = [node(number) for number in range(NODES)]
    sets = [daemon_set(number) for number in range(SETS)]
    audit_cpu, found = cpu(lambda: audit(nodes, sets))
    tenth_cpu, pairs = cpu(lambda: direct(nodes, sets[: SETS // 10]))
    assert pairs == sum(len(one.blocked) for one in audit(nodes, sets[: SETS // 10])), (
        "both ways find the same"
    )
    several = pools()
    around = fence.fence(several, "tenant-1")
    nothing_cpu, _ = cpu(admitted(evidence.Evidence()))
    fence_cpu, _ = cpu(fenced(around))
    step_cpu, _ = cpu(
        lambda: [
            records.patch(one, records.wanted(several[0], tainted=True))
            and occupants.of((), "tenant-0", "tenant-dedicated", lambda _: None)
            for one in nodes
        ]
    )
    result = {
        "machine": machine,
        "audit": {
            "nodes": NODES,
            "daemon_sets": SETS,
            "blocked_pairs": sum(len(one.blocked) for one in found),
            "cpu_seconds": round(audit_cpu, 3),
            "target_cpu_seconds": 1.0,
            "direct_way_cpu_seconds": round(tenth_cpu * 10, 1),
            "ratio": round(audit_cpu / (tenth_cpu * 10), 4),
        },
        "claims": claims(nodes),
        "fence": {
            "reviews": REVIEWS,
            "ms_per_pod": round(1000 * fence_cpu / REVIEWS, 4),
            "target_ms": 0.2,
            "baseline_ms_per_pod": round(1000 * nothing_cpu / REVIEWS, 4),
        },
        "step": {"ms_per_node": round(1000 * step_cpu / NODES, 4)},
        "peak_mib": round(measuring.usage(os.getpid()).peak_mib, 1),
    }
    text = json.dumps(result, indent=2)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
