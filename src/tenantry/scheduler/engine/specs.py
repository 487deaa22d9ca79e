"""What the engine is told about the cluster: plain immutable values, in the engine's units.

CPU in milli, memory in bytes, GPUs in milli, other resources in milli units; times in seconds
since the epoch. Loaders translate manifests into these; `observed.Observed` folds them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from tenantry.scheduler.engine import status

Key = tuple[str, str]
NOTHING: Mapping[str, Any] = MappingProxyType({})


def _nothing() -> Mapping[str, Any]:
    return NOTHING


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A taint of a node; NoSchedule and NoExecute keep pods away, PreferNoSchedule if it can."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A toleration of a pod, with the API's field meanings."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def covers(self, taint: Taint) -> bool:
        """Tell whether the taint is tolerated."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or (bool(self.key) and self.value == taint.value)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One expression of a node selector term or a label selector."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


#: Terms are alternatives, the requirements of one term must all hold.
Terms = tuple[tuple[Requirement, ...], ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AffinityTerm:
    """A pod (anti-)affinity term; an empty `selector` matches every pod of its namespaces.

    :param namespaces: by name; without these and a selector for them, the pod's own
    :param of_namespaces: labels of namespaces that are meant too; an empty one means all
    """

    topology_key: str
    selector: tuple[Requirement, ...]
    namespaces: tuple[str, ...] = ()
    of_namespaces: tuple[Requirement, ...] | None = None
    weight: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A topology spread constraint; without `hard` it is `ScheduleAnyway`.

    Nodes that the pod's node affinity (`by_affinity`) or their taints (`by_taints`) keep it off do
    not count as places where it could be.
    """

    topology_key: str
    max_skew: int
    selector: tuple[Requirement, ...]
    hard: bool = True
    #: With fewer domains than this the emptiest counts as empty.
    min_domains: int = 1
    by_affinity: bool = True
    by_taints: bool = False


class HostPort(NamedTuple):
    """A port of the node that a pod takes for itself, on one of its addresses or on all."""

    protocol: str
    port: int
    address: str = ""

    def conflicts(self, other: HostPort) -> bool:
        """Tell whether two pods with these ports cannot share a node."""
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return not self.address or not other.address or self.address == other.address


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """Where a pod may go, apart from amounts; equal ones are evaluated once per node."""

    selector: tuple[tuple[str, str], ...] = ()
    affinity: Terms = ()
    preferred: tuple[tuple[int, tuple[Requirement, ...]], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    node_name: str = ""
    nominated: str = ""
    ports: tuple[HostPort, ...] = ()
    pod_affinity: tuple[AffinityTerm, ...] = ()
    pod_anti_affinity: tuple[AffinityTerm, ...] = ()
    spread: tuple[Spread, ...] = ()
    claims: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    config_maps: tuple[str, ...] = ()
    legacy_mig: bool = False
    #: "binpack" or "spread" for this workload only; empty follows the configuration.
    placement: str = ""


FREE = Constraints()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A pod. `gpus`, `portion` and `gpu_memory` exclude each other.

    :param requests: everything but GPUs, by resource name; `pods` is implied
    :param gpus: whole GPUs in milli
    :param portion: millionths of one GPU, on each of `devices` GPUs
    :param gpu_memory: MiB, on each of `devices` GPUs
    :param groups: identities of the shared GPUs the pod sits on
    """

    namespace: str
    name: str
    uid: str
    job: Key | None
    subgroup: str = ""
    status: int = status.PENDING
    node: str = ""
    requests: Mapping[str, int] = dataclasses.field(default_factory=_nothing)
    gpus: int = 0
    portion: int = 0
    gpu_memory: int = 0
    devices: int = 1
    groups: tuple[str, ...] = ()
    created: float = 0.0
    priority: int | None = None
    leader: int = 0
    labels: Mapping[str, str] = dataclasses.field(default_factory=_nothing)
    constraints: Constraints = FREE
    #: Guaranteed pods are aligned to NUMA zones in all resources.
    guaranteed: bool = False
    #: Where it sits by zone id, as observed or predicted.
    numa: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = ()
    #: Requests of single containers, for container-scoped alignment.
    containers: tuple[tuple[tuple[str, int], ...], ...] = ()
    #: A pod of somebody else: it occupies its node, and is never ours to move.
    foreign: bool = False
    #: Holds a GPU for a shared group; its own GPU must not be counted.
    reservation: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TopologyConstraint:
    """Levels are label keys or aliases of the named topology."""

    topology: str
    required: str = ""
    preferred: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Subgroup:
    """A part of a gang: with `min_member` a leaf of pods, otherwise an inner group."""

    name: str
    parent: str = ""
    min_member: int | None = None
    min_subgroup: int | None = None
    topology: TopologyConstraint | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A pod group.

    :param started: when its first pods were last allocated
    :param stale_since: when it was first seen without its gang's minimum
    :param last_eviction: when it last lost pods; delays count from here
    """

    namespace: str
    name: str
    queue: str
    uid: str = ""
    priority: int = 50
    preemptible: bool | None = None
    min_member: int | None = None
    min_subgroup: int | None = None
    subgroups: tuple[Subgroup, ...] = ()
    topology: TopologyConstraint | None = None
    created: float = 0.0
    started: float | None = None
    stale_since: float | None = None
    last_eviction: float | None = None
    preemption_delay: float = 0.0
    staleness_grace: float | None = None
    expected_runtime: float | None = None
    max_runtime: float | None = None
    user: str = ""
    #: Set by the caller when the group must not run now, with the reason to show.
    held: str = ""

    @property
    def key(self) -> Key:
        """Return namespace and name."""
        return self.namespace, self.name


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Quota, limit and weight of one resource of a queue; -1 is unlimited."""

    quota: int = 0
    limit: int = -1
    weight: float = 1.0
    lending_limit: int = -1
    borrowing_limit: int = -1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue; `resources` by accounted name ("cpu", "memory", "gpu", or any other)."""

    name: str
    uid: str = ""
    parent: str = ""
    title: str = ""
    priority: int = 100
    created: float = 0.0
    resources: Mapping[str, Bound] = dataclasses.field(default_factory=_nothing)
    preempt_min_runtime: float | None = None
    reclaim_min_runtime: float | None = None
    usage: Mapping[str, float] = dataclasses.field(default_factory=_nothing)
    #: Divide fairly between the users of its jobs.
    fair_users: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """A NUMA zone of a node with what it holds in total and has free."""

    name: str
    allocatable: Mapping[str, int]
    available: Mapping[str, int]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Numa:
    """Topology manager settings of a node and its zones."""

    policy: str
    scope: str
    zones: tuple[Zone, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node; amounts in engine units, `gpu_memory` in MiB per device."""

    name: str
    allocatable: Mapping[str, int]
    labels: Mapping[str, str] = dataclasses.field(default_factory=_nothing)
    taints: tuple[Taint, ...] = ()
    usable: bool = True
    gpu_memory: int = 100
    gpu_memory_synced: bool = True
    gpu_count: int = 0
    mig: str = ""
    dra: bool = False
    max_pods: int | None = None
    numa: Numa | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Level labels, broadest first, each with an optional alias."""

    name: str
    levels: tuple[str, ...]
    aliases: Mapping[str, str] = dataclasses.field(default_factory=_nothing)
