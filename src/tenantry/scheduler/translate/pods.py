"""Pods: what they ask for, where they may go, and in which state they are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tenantry.core import clock, errors
from tenantry.scheduler.engine import specs, status
from tenantry.scheduler.translate import amounts, terms

Json = Mapping[str, Any]
SCHEDULER = "kai-scheduler"
RESERVATION_NAMESPACE = "kai-resource-reservation"
GROUP_LABEL = "runai-gpu-group"
MILLION = 1_000_000

#: Resources that can be asked for by the pod as a whole.
_BY_POD = ("cpu", "memory")
#: Names the config maps that a binder makes for shared GPUs: they come later than the pod.
_SHARED_MAPS = "runai/shared-gpu-configmap"
_OBSERVED = "kai.scheduler/numa-placement-observed"
_PREDICTED = "kai.scheduler/numa-placement-predicted"
_JOB_ROLE = "training.kubeflow.org/job-role"
_RAY_TYPE = "ray.io/node-type"


class Bound(NamedTuple):
    """Where a bind request puts a pod."""

    node: str
    groups: tuple[str, ...] = ()


UNBOUND = Bound("")


class Translator:
    """Translates pods; equal constraints of many pods become one object."""

    def __init__(self, *, scheduler: str = SCHEDULER, stuck_after: float = 120.0) -> None:
        self._scheduler = scheduler
        self._stuck_after = stuck_after
        self._constraints: dict[str, specs.Constraints] = {}
        self._times: dict[str, float] = {}
        self._requests: dict[str, dict[str, int]] = {}

    def task(
        self, item: Json, *, now: float, bound_to: str = "", groups: tuple[str, ...] = ()
    ) -> specs.Task:
        """Translate a Pod.

        :param bound_to: the node of a live BindRequest for it
        :param groups: the shared GPUs that the request names
        """
        meta, spec, state = item["metadata"], item.get("spec") or {}, item.get("status") or {}
        labels: dict[str, str] = meta.get("labels") or {}
        notes: dict[str, str] = meta.get("annotations") or {}
        namespace = meta.get("namespace", "")
        reservation = namespace == RESERVATION_NAMESPACE
        group = notes.get("pod-group-name")
        ours = spec.get("schedulerName") == self._scheduler and not reservation and bool(group)
        requests = dict(self.requests(spec))
        gpus = requests.pop("gpu", 0)
        portion, memory, devices = _fraction(notes)
        return specs.Task(
            namespace=namespace,
            name=meta["name"],
            uid=meta.get("uid") or f"{namespace}/{meta['name']}",
            job=(namespace, group) if ours and group else None,
            subgroup=labels.get("kai.scheduler/subgroup-name", ""),
            status=self._status(meta, spec, state, now, bound_to),
            node=spec.get("nodeName") or bound_to,
            requests=requests,
            gpus=0 if portion or memory else gpus,
            portion=portion,
            gpu_memory=memory,
            devices=devices,
            groups=gpu_groups(labels) or groups,
            created=self._time(meta.get("creationTimestamp")),
            priority=_priority(labels),
            leader=_leader(labels),
            labels=labels,
            constraints=self.constraints(spec, notes, state, labels, name=meta["name"]),
            foreign=not ours,
            reservation=reservation,
            guaranteed=_guaranteed(spec),
            numa=numa_placement(notes),
            containers=_containers(spec),
        )

    def requests(self, spec: Json) -> dict[str, int]:
        """Return what a pod asks for: containers and sidecars, or a higher peak of init."""
        key = json.dumps(
            [
                [c.get("resources"), c.get("restartPolicy")]
                for kind in ("initContainers", "containers")
                for c in spec.get(kind) or ()
            ]
            + [len(spec.get("initContainers") or ()), spec.get("overhead"), spec.get("resources")]
        )
        found = self._requests.get(key)
        if found is None:
            found = self._requests[key] = _requests(spec)
        return found

    def constraints(
        self,
        spec: Json,
        notes: Json,
        state: Json,
        labels: Mapping[str, str] = specs.NOTHING,
        *,
        name: str = "",
    ) -> specs.Constraints:
        """Return where a pod may go."""
        parts = {
            field: spec[field]
            for field in ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints")
            if spec.get(field)
        }
        ports = [
            specs.HostPort(port.get("protocol", "TCP"), int(port["hostPort"]), _address(port))
            for container in _lasting(spec)
            for port in container.get("ports") or ()
            if port.get("hostPort")
        ]
        volumes = _volumes(spec, name)
        maps = _config_maps(spec, notes.get(_SHARED_MAPS, ""))
        nominated = state.get("nominatedNodeName", "")
        legacy = any(note.startswith("nvidia.com/mig-") for note in notes)
        placement = notes.get("tenantry.io/placement", "")
        claims = _claims(spec, state)
        rest = [ports, volumes, maps, nominated, legacy, placement, claims]
        if not parts and not any(rest):
            return specs.FREE
        own = terms.named_labels(parts, labels)
        key = json.dumps([parts, rest, own], sort_keys=True)
        found = self._constraints.get(key)
        if found is None:
            affinity = parts.get("affinity") or {}
            found = self._constraints[key] = specs.Constraints(
                selector=tuple(sorted((parts.get("nodeSelector") or {}).items())),
                affinity=terms.node_terms(affinity),
                preferred=terms.preferred(affinity),
                tolerations=tuple(terms.toleration(t) for t in parts.get("tolerations") or ()),
                nominated=nominated,
                ports=tuple(ports),
                pod_affinity=terms.pod_terms(affinity.get("podAffinity")),
                pod_anti_affinity=terms.pod_terms(affinity.get("podAntiAffinity")),
                spread=terms.spread(parts.get("topologySpreadConstraints") or (), own),
                claims=tuple(claims),
                volumes=tuple(volumes),
                config_maps=tuple(maps),
                legacy_mig=legacy,
                placement=placement,
            )
        return found

    def _status(self, meta: Json, spec: Json, state: Json, now: float, bound_to: str) -> int:
        phase = state.get("phase", "Pending")
        leaving = meta.get("deletionTimestamp")
        if phase in ("Running", "Pending") and leaving:
            late = now - self._time(leaving) > self._stuck_after
            return status.STUCK if late and phase == "Running" else status.RELEASING
        if phase == "Running":
            return status.RUNNING
        if phase == "Pending":
            if spec.get("nodeName"):
                return status.BOUND
            if bound_to:
                return status.BINDING
            return status.GATED if spec.get("schedulingGates") else status.PENDING
        return {"Succeeded": status.SUCCEEDED, "Failed": status.FAILED}.get(phase, status.UNKNOWN)

    def _time(self, text: str | None) -> float:
        if not text:
            return 0.0
        found = self._times.get(text)
        if found is None:
            found = self._times[text] = clock.parse_rfc3339(text)
        return found


def numa_placement(
    notes: Mapping[str, str],
) -> tuple[tuple[str, tuple[tuple[str, int], ...]], ...]:
    """Return where a pod sits by zone, as observed, else as predicted; nothing if unreadable."""
    text = notes.get(_OBSERVED) or notes.get(_PREDICTED)
    if not text:
        return ()
    try:
        return tuple(
            (entry["zone"], tuple(sorted(amounts.resource_list(entry["amount"]).items())))
            for entry in json.loads(text)
        )
    except (ValueError, KeyError, TypeError, errors.TenantryError):
        return ()


def gpu_groups(labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the shared devices of a pod, from the one label or from one label per device."""
    single = labels.get(GROUP_LABEL)
    if single:
        return (single,)
    return tuple(
        sorted(value for key, value in labels.items() if key.startswith(f"{GROUP_LABEL}/"))
    )


def _requests(spec: Json) -> dict[str, int]:
    total: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        asked = _of(container)
        if container.get("restartPolicy") == "Always":
            amounts.add(sidecars, asked)
            amounts.largest(peak, sidecars)
        else:
            amounts.add(asked, sidecars)
            amounts.largest(peak, asked)
    for container in spec.get("containers") or ():
        amounts.add(total, _of(container))
    amounts.add(total, sidecars)
    amounts.largest(total, peak)
    # What is said for the pod as a whole counts instead of the sum.
    whole = _of(spec)
    total.update({n: a for n, a in whole.items() if n in _BY_POD or n.startswith("hugepages-")})
    amounts.add(total, amounts.resource_list(spec.get("overhead")))
    return total


def _of(container: Json) -> dict[str, int]:
    resources = container.get("resources") or {}
    asked = amounts.resource_list(resources.get("limits"))
    asked.update(amounts.resource_list(resources.get("requests")))
    return asked


def _containers(spec: Json) -> tuple[tuple[tuple[str, int], ...], ...]:
    """Return the requests of single containers, where there are several to be aligned."""
    containers = spec.get("containers") or ()
    if len(containers) < 2:
        return ()
    return tuple(tuple(sorted(_of(container).items())) for container in containers)


def _fraction(notes: Mapping[str, str]) -> tuple[int, int, int]:
    portion = memory = 0
    devices = 1
    try:
        if "gpu-fraction" in notes:
            portion = round(float(notes["gpu-fraction"]) * MILLION)
        if "gpu-memory" in notes:
            memory = int(notes["gpu-memory"])
        if "gpu-fraction-num-devices" in notes:
            devices = int(notes["gpu-fraction-num-devices"])
    except (ValueError, OverflowError):
        return MILLION + 1, 0, 1  # refused by the engine, with the pod's name
    return portion, memory, devices


def _priority(labels: Mapping[str, str]) -> int | None:
    text = labels.get("kai.scheduler/task-priority")
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def _leader(labels: Mapping[str, str]) -> int:
    if labels.get(_JOB_ROLE) in ("master", "launcher"):
        return 1
    return 2 if labels.get(_RAY_TYPE) == "head" else 0


def _guaranteed(spec: Json) -> bool:
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    if not containers:
        return False
    for container in containers:
        resources = container.get("resources") or {}
        limits = resources.get("limits") or {}
        requests = {**limits, **(resources.get("requests") or {})}
        for name in ("cpu", "memory"):
            if name not in limits or str(requests.get(name)) != str(limits[name]):
                return False
    return True


def _volumes(spec: Json, pod: str) -> list[str]:
    """Return the volume claims of a pod; ephemeral ones are named after it."""
    claims = []
    for volume in spec.get("volumes") or ():
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if volume.get("ephemeral"):
            claim = f"{pod}-{volume['name']}"
        if claim:
            claims.append(claim)
    return claims


def _config_maps(spec: Json, later: str) -> list[str]:
    """Return the config maps that must exist for a pod to run.

    :param later: prefix of names that somebody makes when the pod is bound
    """
    sources: list[Json] = []
    for volume in spec.get("volumes") or ():
        sources.append(volume.get("configMap") or {})
        parts = (volume.get("projected") or {}).get("sources") or ()
        sources += [part.get("configMap") or {} for part in parts]
    for kind in ("initContainers", "containers"):
        for container in spec.get(kind) or ():
            sources += [s.get("configMapRef") or {} for s in container.get("envFrom") or ()]
            values = [e.get("valueFrom") or {} for e in container.get("env") or ()]
            sources += [value.get("configMapKeyRef") or {} for value in values]
    names = [s["name"] for s in sources if s.get("name") and not s.get("optional")]
    return [n for n in dict.fromkeys(names) if not (later and n.startswith(f"{later}-"))]


def _claims(spec: Json, state: Json) -> list[str]:
    """Return the claims of a pod: named by it, or made for it from templates."""
    made = {
        entry.get("name"): entry.get("resourceClaimName")
        for entry in state.get("resourceClaimStatuses") or ()
    }
    names = []
    for entry in spec.get("resourceClaims") or ():
        # Not made yet: a name that no claim has, so that the pod waits for it.
        name = entry.get("resourceClaimName") or made.get(entry["name"], f"<{entry['name']}>")
        if name:
            names.append(name)
    extended = state.get("extendedResourceClaimStatus") or {}
    if extended.get("resourceClaimName"):
        names.append(extended["resourceClaimName"])
    return names


def _address(port: Json) -> str:
    address: str = port.get("hostIP") or ""
    return "" if address in ("0.0.0.0", "::") else address


def _lasting(spec: Json) -> Iterator[Json]:
    """Yield the containers that run as long as the pod: sidecars and ordinary ones."""
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            yield container
    yield from spec.get("containers") or ()
