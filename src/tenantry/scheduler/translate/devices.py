"""Device classes, resource slices and claims (dynamic resource allocation)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from tenantry.core import quantity
from tenantry.scheduler.engine import device_specs, observed, resources, specs
from tenantry.scheduler.translate import amounts, terms, typed

Json = Mapping[str, Any]
Each = Callable[[str, Callable[[Json], None]], None]
GPU_DRIVERS = ("gpu.nvidia.com", "nvidia.com/gpu")
#: Owner kind of a claim that was made from a template.
_POD = "Pod"


def fold(seen: observed.Observed, each: Each) -> None:
    """Fold the classes, slices and claims of a snapshot.

    :param each: calls a function with every object of a kind, and skips those that it cannot read
    """
    each("deviceClasses", lambda item: seen.put_class(typed.checked(device_class(item))))
    each("resourceSlices", lambda item: seen.put_slice(typed.checked(device_slice(item))))
    each("resourceClaims", lambda item: seen.put_claim(typed.checked(claim(item))))


def with_extended(seen: observed.Observed, task: specs.Task) -> specs.Task:
    """Return a pod that claims what it asks for by the extended name of a device class.

    As kube-scheduler does: the claim is the pod's own. What some node offers by itself stays a plain
    resource.
    """
    wanted = {name: amount for name, amount in task.requests.items() if amount}
    if task.gpus:
        wanted["gpu"] = task.gpus
    requests = tuple(
        (
            device_specs.DeviceRequest(
                name=f"request-{number}", device_class=kind.name, count=amount // resources.MILLI
            ),
        )
        for number, (name, amount) in enumerate(sorted(wanted.items()))
        if (kind := _behind(seen, name)) is not None
    )
    if not requests:
        return task
    claim = device_specs.Claim(
        namespace=task.namespace,
        name=f"{task.name}-extended-resources",
        requests=requests,
        template=True,
    )
    seen.put_claim(claim)
    rest = {name: a for name, a in task.requests.items() if _behind(seen, name) is None}
    names = (*task.constraints.claims, claim.name)
    return dataclasses.replace(
        task,
        requests=rest,
        gpus=task.gpus if _behind(seen, "gpu") is None else 0,
        constraints=dataclasses.replace(task.constraints, claims=names),
    )


def _behind(seen: observed.Observed, name: str) -> device_specs.DeviceClass | None:
    """Return the class behind an extended resource that no node offers by itself."""
    full = amounts.GPU if name == "gpu" else name
    kinds = [kind for kind in seen.device_classes.values() if kind.extended == full]
    nodes = seen.tables.nodes
    if not kinds or any(nodes.specs[row].allocatable.get(name) for row in nodes.by_name.values()):
        return None
    return min(kinds, key=lambda kind: kind.name)


def is_gpu(name: str, selectors: tuple[str, ...] = ()) -> bool:
    """Tell whether a driver, or a class with these selectors, offers GPUs."""
    return name in GPU_DRIVERS or any(
        driver in text for driver in GPU_DRIVERS for text in selectors
    )


def device_class(item: Json) -> device_specs.DeviceClass:
    """Translate a DeviceClass."""
    name, spec = item["metadata"]["name"], item.get("spec") or {}
    selectors = _selectors(spec)
    return device_specs.DeviceClass(
        name=name,
        selectors=selectors,
        extended=spec.get("extendedResourceName") or "",
        gpu=is_gpu(name, selectors),
    )


def device_slice(item: Json) -> device_specs.DeviceSlice:
    """Translate a ResourceSlice, of v1 or the betas before it."""
    spec = item["spec"]
    driver, pool = spec["driver"], spec["pool"]
    return device_specs.DeviceSlice(
        name=item["metadata"]["name"],
        driver=driver,
        pool=pool["name"],
        node=spec.get("nodeName") or "",
        selector=_node_terms(spec.get("nodeSelector")),
        all_nodes=bool(spec.get("allNodes")),
        devices=tuple(_device(device, driver) for device in spec.get("devices") or ()),
        counters=tuple(
            (shared["name"], name, _milli(counter, name))
            for shared in spec.get("sharedCounters") or ()
            for name, counter in (shared.get("counters") or {}).items()
        ),
        generation=int(pool.get("generation", 0)),
        of_slices=int(pool.get("resourceSliceCount", 1)),
        gpu=is_gpu(driver),
    )


def _device(item: Json, driver: str) -> device_specs.Device:
    # v1beta1 has everything but the name under `basic`.
    body = item.get("basic") or item
    attributes: dict[str, dict[str, Any]] = {}
    for name, value in (body.get("attributes") or {}).items():
        domain, short = _qualified(name, driver)
        (attributes.setdefault(domain, {})[short],) = value.values()
    capacity: dict[str, dict[str, int]] = {}
    for name, value in (body.get("capacity") or {}).items():
        domain, short = _qualified(name, driver)
        capacity.setdefault(domain, {})[short] = _milli(value, name)
    return device_specs.Device(
        name=item["name"],
        attributes=attributes,
        capacity=capacity,
        counters=tuple(
            (used["counterSet"], name, _milli(counter, name))
            for used in body.get("consumesCounters") or ()
            for name, counter in (used.get("counters") or {}).items()
        ),
        node=body.get("nodeName") or "",
        selector=_node_terms(body.get("nodeSelector")),
        all_nodes=bool(body.get("allNodes")),
        taints=tuple(
            specs.Taint(
                key=taint.get("key", ""),
                value=taint.get("value", "") or "",
                effect=taint.get("effect", ""),
            )
            for taint in body.get("taints") or ()
        ),
        shareable=bool(body.get("allowMultipleAllocations")),
        policies={
            "/".join(_qualified(name, driver)): _policy(value["requestPolicy"], name)
            for name, value in (body.get("capacity") or {}).items()
            if isinstance(value, Mapping) and value.get("requestPolicy")
        },
    )


def _policy(item: Json, name: str) -> device_specs.CapacityPolicy:
    within = item.get("validRange") or {}

    def amount(value: Any) -> int | None:
        return None if value is None else _milli(value, name)

    return device_specs.CapacityPolicy(
        default=amount(item.get("default")),
        values=tuple(sorted(_milli(value, name) for value in item.get("validValues") or ())),
        least=amount(within.get("min")),
        most=amount(within.get("max")),
        step=amount(within.get("step")),
    )


def claim(item: Json) -> device_specs.Claim:
    """Translate a ResourceClaim."""
    meta, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    asked = spec.get("devices") or {}
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    return device_specs.Claim(
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        requests=tuple(_options(request) for request in asked.get("requests") or ()),
        match=tuple(
            (constraint["matchAttribute"], tuple(constraint.get("requests") or ()))
            for constraint in asked.get("constraints") or ()
            if constraint.get("matchAttribute")
        ),
        differ=tuple(
            (constraint["distinctAttribute"], tuple(constraint.get("requests") or ()))
            for constraint in asked.get("constraints") or ()
            if constraint.get("distinctAttribute")
        ),
        labels=meta.get("labels") or {},
        template=any(o.get("kind") == _POD for o in meta.get("ownerReferences") or ()),
        allocated=tuple(
            device_specs.Allocated(
                result["driver"],
                result["pool"],
                result["device"],
                result.get("request", ""),
                bool(result.get("adminAccess")),
                tuple(
                    ("/".join(_qualified(name, result["driver"])), _milli(amount, name))
                    for name, amount in sorted((result.get("consumedCapacity") or {}).items())
                ),
            )
            for result in results
        ),
        reserved_for=tuple(user["name"] for user in status.get("reservedFor") or ()),
    )


def _options(request: Json) -> tuple[device_specs.DeviceRequest, ...]:
    name = request["name"]
    if request.get("firstAvailable"):
        return tuple(_request(sub, f"{name}/{sub['name']}") for sub in request["firstAvailable"])
    return (_request(request.get("exactly") or request, name),)


def _request(item: Json, name: str) -> device_specs.DeviceRequest:
    return device_specs.DeviceRequest(
        name=name,
        device_class=item["deviceClassName"],
        count=int(item.get("count") or 1),
        every=item.get("allocationMode") == "All",
        selectors=_selectors(item),
        admin=bool(item.get("adminAccess")),
        tolerations=tuple(terms.toleration(t) for t in item.get("tolerations") or ()),
        capacity=tuple(
            (name, _milli(amount, name))
            for name, amount in sorted(((item.get("capacity") or {}).get("requests") or {}).items())
        ),
    )


def _selectors(item: Json) -> tuple[str, ...]:
    found = item.get("selectors") or ()
    return tuple(selector["cel"]["expression"] for selector in found if selector.get("cel"))


def _node_terms(selector: Json | None) -> Any:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": selector or {}}
    return terms.node_terms({"nodeAffinity": required})


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, _, short = name.rpartition("/")
    return domain or driver, short


def _milli(value: Any, name: str) -> int:
    given = value.get("value") if isinstance(value, Mapping) else value
    return quantity.parse(str(given), name).milli
