"""Measure the scheduling engine beside the reference's figures.

    python benchmarks/scheduler.py [--json FILE] [--case NAME ...]

CPU seconds of one full cycle over all five actions, the session's snapshot included, on a state
that is folded already; each case runs in a process of its own, so that peak memory is its own. The
snapshots of cases a to e and z are those that the reference was measured with; the others are
generated.
"""

from __future__ import annotations

import argparse
import gc
import json
import pathlib
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from tenantry.scheduler.engine import config, cycle, device_specs, observed, specs, status
from tenantry.scheduler.translate import archive

FIXTURES = pathlib.Path(__file__).parents[1] / "tests" / "fixtures" / "scheduler"
NOW = 2_000_000_000.0
GIB = 1 << 30
Row = dict[str, Any]

#: Case -> reference CPU (or wall) seconds, target CPU seconds, target peak MB.
TARGETS: dict[str, tuple[float | None, float | None, float | None]] = {
    "a": (6.1, 0.5, None),
    "b": (4.3, 0.4, None),
    "c": (0.64, 0.2, None),
    "d": (23.4, 1.2, 200),
    "e": (10.0, 0.8, None),
    "reclaim-4000": (336.0, 8.0, None),
    "reclaim-large": (13.5, 1.5, None),
    "nodes-500": (None, None, None),
    "nodes-5000": (None, 3.0, 400),
    "idle-500": (0.2, 0.005, None),
    "idle-5000": (None, 0.02, None),
    "topology-512": (None, 0.5, None),
    "unschedulable-4000": (None, 0.05, None),
    "claims-4000": (None, None, None),
    "terms-500": (None, None, None),
    "terms-5000": (None, None, None),
}


def cluster(
    nodes: int, *, gpus: int = 8, labels: Callable[[int], dict[str, str]] | None = None
) -> observed.Observed:
    """Return nodes like those of the reference's cases."""
    seen = observed.Observed()
    for index in range(nodes):
        name = f"node-{index:05d}"
        extra = labels(index) if labels else {}
        seen.put_node(
            specs.Node(
                name=name,
                allocatable={
                    "cpu": 128_000,
                    "memory": 1024 * GIB,
                    "pods": 110,
                    "gpu": gpus * 1000,
                },
                labels={"kubernetes.io/hostname": name, **extra},
                gpu_memory=81_900,
                gpu_count=gpus,
            )
        )
    return seen


def queue(seen: observed.Observed, name: str, gpus: int, parent: str = "default") -> None:
    """Add a queue with a quota of GPUs and no other bounds."""
    unbound = specs.Bound(quota=-1, limit=-1, weight=1)
    if "default" not in seen.queues:
        seen.put_queue(
            specs.Queue(name="default", resources=dict.fromkeys(("cpu", "memory", "gpu"), unbound))
        )
    seen.put_queue(
        specs.Queue(
            name=name,
            parent=parent,
            resources={
                "cpu": unbound,
                "memory": unbound,
                "gpu": specs.Bound(quota=gpus * 1000, limit=-1, weight=1),
            },
        )
    )


def job(
    seen: observed.Observed,
    name: str,
    queue_name: str,
    *,
    pods: int = 1,
    gpus: int = 1,
    node: str = "",
    topology: specs.TopologyConstraint | None = None,
    constraints: specs.Constraints = specs.FREE,
    labels: Mapping[str, str] | None = None,
) -> None:
    """Add a job of equal pods, running on a node when one is given."""
    seen.put_job(
        specs.Job(
            namespace="ns",
            name=name,
            queue=queue_name,
            min_member=pods,
            created=1.0,
            started=2.0 if node else None,
            topology=topology,
        )
    )
    for index in range(pods):
        seen.put_task(
            specs.Task(
                namespace="ns",
                name=f"{name}-{index}",
                uid=f"{name}-{index}",
                job=("ns", name),
                status=status.RUNNING if node else status.PENDING,
                node=node,
                requests={"cpu": 1000, "memory": GIB},
                gpus=gpus * 1000,
                created=1.0,
                constraints=constraints,
                labels=labels or {},
            )
        )


def full(seen: observed.Observed, nodes: int, queue_name: str, *, used: int | None = None) -> None:
    """Fill nodes with running one-GPU jobs."""
    count = nodes * 8 if used is None else used
    for index in range(count):
        job(seen, f"r-{index:05d}", queue_name, node=f"node-{index // 8:05d}")


def reclaim_4000() -> observed.Observed:
    """4,000 one-GPU jobs of a queue that is due everything, against 4,000 running ones."""
    seen = cluster(500)
    queue(seen, "queue-a", 0)
    queue(seen, "queue-b", 4000)
    full(seen, 500, "queue-a")
    for index in range(4000):
        job(seen, f"p-{index:05d}", "queue-b")
    return seen


def reclaim_large() -> observed.Observed:
    """One job of 500 pods with 4 GPUs each takes back half of a full cluster."""
    seen = cluster(500)
    queue(seen, "queue-a", 2000)
    queue(seen, "queue-b", 2000)
    full(seen, 500, "queue-a")
    job(seen, "large", "queue-b", pods=500, gpus=4)
    return seen


def many(nodes: int) -> observed.Observed:
    """Six eighths of the GPUs in use, two eighths wanted: at 5,000 nodes 30,000 and 10,000."""
    seen = cluster(nodes)
    queue(seen, "queue-a", nodes * 4)
    queue(seen, "queue-b", nodes * 4)
    for index in range(nodes * 6):
        job(seen, f"r-{index:05d}", "queue-a", node=f"node-{index // 6:05d}")
    for index in range(nodes * 2):
        job(seen, f"p-{index:05d}", "queue-b" if index % 2 else "queue-a")
    return seen


def idle(nodes: int) -> observed.Observed:
    """A full cluster with nothing to do."""
    seen = cluster(nodes)
    queue(seen, "queue-a", nodes * 8)
    full(seen, nodes, "queue-a")
    return seen


def topology_512() -> observed.Observed:
    """A gang of 512 pods that prefers to be in one rack: 4 zones, 8 blocks, 8 racks, 2 nodes."""

    def labels(index: int) -> dict[str, str]:
        return {
            "zone": f"z{index // 128}",
            "block": f"b{index // 16 % 8}",
            "rack": f"r{index // 2 % 8}",
        }

    seen = cluster(500, labels=labels)
    seen.put_topology(specs.Topology(name="dc", levels=("zone", "block", "rack")))
    queue(seen, "queue-a", 4000)
    job(
        seen,
        "gang",
        "queue-a",
        pods=512,
        topology=specs.TopologyConstraint(topology="dc", preferred="rack"),
    )
    return seen


def unschedulable_4000() -> observed.Observed:
    """A gang of 4,000 on 500 nodes where one GPU is in use."""
    seen = cluster(500)
    queue(seen, "queue-a", 8000)
    job(seen, "r", "queue-a", node="node-00000")
    job(seen, "gang", "queue-a", pods=4000)
    return seen


def claims_4000() -> observed.Observed:
    """4,000 pods that claim one device each, on 500 nodes with 8 devices."""
    driver = "gpu.nvidia.com"
    chosen = f'device.attributes["{driver}"].type == "gpu"'
    seen = cluster(500, gpus=0)
    queue(seen, "queue-a", 4000)
    seen.put_class(
        device_specs.DeviceClass(name=driver, selectors=(f'device.driver == "{driver}"',), gpu=True)
    )
    for index in range(500):
        name = f"node-{index:05d}"
        devices = tuple(
            device_specs.Device(
                name=f"gpu-{number}",
                attributes={driver: {"type": "gpu", "uuid": f"{name}-{number}"}},
                capacity={driver: {"memory": 80 * GIB}},
            )
            for number in range(8)
        )
        seen.put_slice(
            device_specs.DeviceSlice(
                name=f"of-{name}", driver=driver, pool=name, node=name, devices=devices
            )
        )
    request = device_specs.DeviceRequest(name="gpu", device_class=driver, selectors=(chosen,))
    for index in range(4000):
        name = f"p-{index:05d}-0"
        seen.put_claim(
            device_specs.Claim(namespace="ns", name=name, template=True, requests=((request,),))
        )
        wanted = specs.Constraints(claims=(name,))
        job(seen, name.removesuffix("-0"), "queue-a", gpus=0, constraints=wanted)
    return seen


def terms(nodes: int) -> observed.Observed:
    """Six eighths of the GPUs in use; waiting are pods of 40 applications, each spread over zones.

    Half of them must keep off nodes with pods of their own.
    """
    seen = cluster(nodes, labels=lambda index: {"zone": f"z{index % 5}"})
    queue(seen, "queue-a", nodes * 8)
    full(seen, nodes, "queue-a", used=nodes * 6)
    for index in range(nodes * 2):
        app = f"app-{index % 40}"
        mine = (specs.Requirement(key="app", operator="In", values=(app,)),)
        over = specs.Spread(topology_key="zone", max_skew=1, selector=mine)
        apart = specs.AffinityTerm(topology_key="kubernetes.io/hostname", selector=mine)
        wanted = specs.Constraints(spread=(over,), pod_anti_affinity=(apart,) if index % 2 else ())
        job(seen, f"p-{index:05d}", "queue-a", labels={"app": app}, constraints=wanted)
    return seen


MADE: dict[str, Callable[[], observed.Observed]] = {
    "reclaim-4000": reclaim_4000,
    "reclaim-large": reclaim_large,
    "nodes-500": lambda: many(500),
    "nodes-5000": lambda: many(5000),
    "idle-500": lambda: idle(500),
    "idle-5000": lambda: idle(5000),
    "topology-512": topology_512,
    "unschedulable-4000": unschedulable_4000,
    "claims-4000": claims_4000,
    "terms-500": lambda: terms(500),
    "terms-5000": lambda: terms(5000),
}


def measure(case: str) -> Row:
    """Run one case in this process."""
    start = time.process_time()
    if case in MADE:
        seen, settings = MADE[case](), config.Config()
    else:
        snapshot = archive.read((FIXTURES / "snapshots" / f"{case}.zip").read_bytes(), now=NOW)
        seen, settings = snapshot.seen, snapshot.settings
    seen.settle()
    fold = time.process_time() - start
    gc.collect()
    # As a process does that keeps its state folded: full collections come between cycles.
    gc.freeze()
    gc.set_threshold(700, 10, 1_000_000)
    engine = cycle.Engine(settings)
    times = []
    for _ in range(3):
        gc.collect()
        start = time.process_time()
        made = engine.run(seen, now=NOW)
        times.append(time.process_time() - start)
    gc.collect()
    # Slices in CPU time: other processes of the machine are not the engine's doing.
    sliced = engine.run(seen, now=NOW, clock=time.process_time)
    reference, target, most = TARGETS.get(case, (None, None, None))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    best = min(times)
    return {
        "case": case,
        "cycle_cpu_s": round(times[0], 4),
        "best_of_3_cpu_s": round(best, 4),
        "fold_cpu_s": round(fold, 3),
        "longest_slice_cpu_s": round(sliced.longest_slice, 4),
        "peak_mb": round(peak),
        "binds": len(made.binds),
        "evictions": len(made.evictions),
        "plans": len(made.plans),
        "actions_s": {t.name: round(t.seconds, 4) for t in made.timings},
        "reference_s": reference,
        "target_s": target,
        "target_mb": most,
        "ratio_to_reference": round(best / reference, 4) if reference else None,
        "met": (target is None or best < target) and (most is None or peak < most),
    }


def main() -> None:
    """Run the cases, each in a process of its own, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--case", action="append")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    cases = given.case or list(TARGETS)
    if given.here:
        print(json.dumps(measure(cases[0])))
        return
    rows: list[Row] = []
    print(f"{'case':20}{'cycle s':>9}{'best s':>9}{'target':>8}{'reference':>10}{'MB':>6}  outcome")
    for case in cases:
        command = [sys.executable, __file__, "--here", "--case", case]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        row = json.loads(done.stdout)
        rows.append(row)
        print(
            f"{case:20}{row['cycle_cpu_s']:9.3f}{row['best_of_3_cpu_s']:9.3f}"
            f"{row['target_s'] or '-':>8}{row['reference_s'] or '-':>10}{row['peak_mb']:6}  "
            f"slice {row['longest_slice_cpu_s'] * 1000:.0f} ms, "
            f"{row['binds']} binds, {row['evictions']} evictions, {row['plans']} plans"
            f"{'' if row['met'] else '  TARGET MISSED'}",
            flush=True,
        )
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
