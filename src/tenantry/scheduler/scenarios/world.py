"""Write small clusters by hand: for tests of plugins and actions, and for measurements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.scheduler.engine import config, cycle, decisions, observed, session, specs, status
from tenantry.scheduler.simulation import replay

NOW = 2_000_000_000.0
GIB = 1 << 30
ROOT = "default"


class World:
    """A cluster with one root queue; amounts of GPUs are given as people say them."""

    def __init__(self, settings: config.Config | None = None) -> None:
        self.seen = observed.Observed()
        self.engine = cycle.Engine(settings)
        unbound = specs.Bound(quota=-1, limit=-1, weight=1)
        self.seen.put_queue(
            specs.Queue(name=ROOT, resources=dict.fromkeys(("cpu", "memory", "gpu"), unbound))
        )

    def node(
        self,
        name: str,
        *,
        gpus: int = 8,
        cpu: int = 128_000,
        memory: int = 1024 * GIB,
        pods: int = 110,
        labels: Mapping[str, str] | None = None,
        gpu_memory: int = 80_000,
        more: Mapping[str, int] | None = None,
        **fields: Any,
    ) -> None:
        """Add a node."""
        amounts = {"cpu": cpu, "memory": memory, "pods": pods, "gpu": gpus * 1000, **(more or {})}
        self.seen.put_node(
            specs.Node(
                name=name,
                allocatable=amounts,
                labels={"kubernetes.io/hostname": name, **(labels or {})},
                gpu_memory=gpu_memory,
                gpu_count=gpus,
                **fields,
            )
        )

    def queue(
        self,
        name: str,
        gpus: float = 0,
        *,
        limit: float = -1,
        weight: float = 1,
        parent: str = ROOT,
        resources: Mapping[str, specs.Bound] | None = None,
        **fields: Any,
    ) -> None:
        """Add a queue with a quota of GPUs; CPU and memory are unbounded unless given."""
        unbound = specs.Bound(quota=-1, limit=-1, weight=1)
        bound = specs.Bound(
            quota=-1 if gpus < 0 else round(gpus * 1000),
            limit=-1 if limit < 0 else round(limit * 1000),
            weight=weight,
        )
        given = {"cpu": unbound, "memory": unbound, "gpu": bound, **(resources or {})}
        self.seen.put_queue(specs.Queue(name=name, parent=parent, resources=given, **fields))

    def job(
        self,
        name: str,
        queue: str,
        *,
        pods: int = 1,
        gpus: float = 1,
        minimum: int | None = None,
        on: str = "",
        cpu: int = 1000,
        memory: int = GIB,
        devices: int = 1,
        gpu_memory: int = 0,
        constraints: specs.Constraints = specs.FREE,
        labels: Mapping[str, str] | None = None,
        groups: tuple[str, ...] = (),
        subgroup_of: Mapping[int, str] | None = None,
        more: Mapping[str, int] | None = None,
        namespace: str = "ns",
        guaranteed: bool = False,
        **fields: Any,
    ) -> None:
        """Add a job of equal pods, running on a node when one is given."""
        fields.setdefault("created", 1.0)
        if on:
            fields.setdefault("started", 2.0)
        if "subgroups" not in fields:
            fields["min_member"] = pods if minimum is None else minimum
        self.seen.put_job(specs.Job(namespace=namespace, name=name, queue=queue, **fields))
        whole = gpus == int(gpus)
        for index in range(pods):
            self.seen.put_task(
                specs.Task(
                    namespace=namespace,
                    name=f"{name}-{index}",
                    uid=f"{namespace}/{name}-{index}",
                    job=(namespace, name),
                    subgroup=(subgroup_of or {}).get(index, ""),
                    status=status.RUNNING if on else status.PENDING,
                    node=on,
                    requests={"cpu": cpu, "memory": memory, **(more or {})},
                    gpus=round(gpus * 1000) if whole and not gpu_memory else 0,
                    portion=0 if whole or gpu_memory else round(gpus * 1_000_000),
                    gpu_memory=gpu_memory,
                    devices=devices,
                    groups=groups,
                    created=float(index),
                    labels=labels or {},
                    constraints=constraints,
                    guaranteed=guaranteed,
                )
            )

    def run(self, *, now: float = NOW) -> decisions.Decisions:
        """Run one cycle."""
        return self.engine.run(self.seen, now=now)

    @property
    def session(self) -> session.Session:
        """Return the session of the last cycle."""
        assert self.engine.last is not None
        return self.engine.last

    def where(self) -> dict[str, str]:
        """Return the node of each task that runs or is planned, by task name."""
        state = self.session.state
        return {
            task.name: state.nodes.names[state.node[row]]
            for row, task in enumerate(state.tasks)
            if task is not None and state.node[row] >= 0 and status.IS_ACTIVE[state.status[row]]
        }

    def apply(self, made: decisions.Decisions) -> None:
        """Carry out decisions as the cluster would: binds run, evicted pods come back pending."""
        replay.carry_out(self.seen, made)
