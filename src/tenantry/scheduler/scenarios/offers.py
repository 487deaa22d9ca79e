"""Translate the devices and claims of a scenario into what the engine is told."""

from __future__ import annotations

from typing import Any

from tenantry.scheduler.engine import device_specs, observed, specs
from tenantry.scheduler.translate import terms

Json = dict[str, Any]
_GPU_CLASS = "nvidia.com/gpu"


def fold(seen: observed.Observed, dra: Json, templates: set[str]) -> None:
    """Fold classes, slices and claims; a class means the devices of slices that name it."""
    for name in dra.get("device_classes", ()):
        seen.put_class(
            device_specs.DeviceClass(
                name=name,
                selectors=(f'device.attributes["scenario"].class == "{name}"',),
                gpu=name == _GPU_CLASS,
            )
        )
    for piece in dra.get("resource_slices", ()):
        attributes = {"scenario": {"class": piece.get("device_class", _GPU_CLASS)}}
        node = piece.get("node", "")
        seen.put_slice(
            device_specs.DeviceSlice(
                name=piece["name"],
                driver=_GPU_CLASS,
                pool=node or piece["name"],
                node=node,
                selector=_selector(piece.get("node_selector")),
                all_nodes=bool(piece.get("all_nodes")),
                devices=tuple(
                    device_specs.Device(name=str(index), attributes=attributes)
                    for index in range(int(piece["count"]))
                ),
            )
        )
    for claim in dra.get("resource_claims", ()):
        seen.put_claim(_claim(claim, template=claim["name"] in templates))


def _selector(given: Any) -> specs.Terms:
    """Return a node selector, written as labels or as the API has it."""
    if not isinstance(given, dict):
        return ()
    if "nodeSelectorTerms" in given:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": given}
        return terms.node_terms({"nodeAffinity": required})
    return (
        tuple(
            specs.Requirement(key=key, operator="In", values=(str(value),))
            for key, value in given.items()
        ),
    )


def _claim(claim: Json, *, template: bool) -> device_specs.Claim:
    state = claim.get("status") or {}
    results = ((state.get("allocation") or {}).get("devices") or {}).get("results", ())
    request = device_specs.DeviceRequest(
        name="request", device_class=claim["device_class"], count=claim["count"]
    )
    return device_specs.Claim(
        namespace=claim.get("namespace", ""),
        name=claim["name"],
        requests=((request,),),
        labels=claim.get("labels", {}),
        template=template,
        allocated=tuple(
            device_specs.Allocated(
                result.get("driver", _GPU_CLASS), result["pool"], result["device"], "request"
            )
            for result in results
        ),
        reserved_for=tuple(user["name"] for user in state.get("reservedFor", ())),
    )
