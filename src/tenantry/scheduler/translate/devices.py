"""Resource slices and claims (dynamic resource allocation)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.scheduler.engine import observed, specs

Json = Mapping[str, Any]
GPU_DRIVERS = ("gpu.nvidia.com", "nvidia.com/gpu")


def fold(seen: observed.Observed, raw: Mapping[str, list[Json]], skipped: list[str]) -> None:
    """Fold the slices and claims of a snapshot."""
    for item in raw.get("resourceSlices") or ():
        try:
            piece = device_slice(item)
        except (KeyError, TypeError) as problem:
            skipped.append(f"resourceSlices {(item.get('metadata') or {}).get('name')}: {problem}")
        else:
            if piece is not None:
                seen.put_slice(piece)
    for item in raw.get("resourceClaims") or ():
        try:
            claim, gpu = _claim(item)
            seen.put_claim(claim, gpu=gpu)
        except (KeyError, TypeError, ValueError, IndexError) as problem:
            name = (item.get("metadata") or {}).get("name", "?")
            skipped.append(f"resourceClaims {name}: {problem}")


def device_slice(item: Json) -> specs.DeviceSlice | None:
    """Translate a ResourceSlice; None when its devices are not of one node."""
    spec = item["spec"]
    if not spec.get("nodeName"):
        return None
    driver = spec["driver"]
    return specs.DeviceSlice(
        name=item["metadata"]["name"],
        node=spec["nodeName"],
        pool=spec["pool"]["name"],
        devices=tuple(device["name"] for device in spec.get("devices") or ()),
        device_class=driver,
        gpu=is_gpu(driver),
    )


def _claim(item: Json) -> tuple[specs.Claim, bool]:
    meta, status = item["metadata"], item.get("status") or {}
    request = ((item.get("spec") or {}).get("devices") or {})["requests"][0]
    exact = request.get("exactly") or request
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    claim = specs.Claim(
        namespace=meta.get("namespace", ""),
        name=meta["name"],
        device_class=exact["deviceClassName"],
        count=int(exact.get("count", 1)),
        labels=meta.get("labels") or {},
        template=any(o.get("kind") == "Pod" for o in meta.get("ownerReferences") or ()),
        allocated=tuple((r["pool"], r["device"]) for r in results),
        reserved_for=tuple(user["name"] for user in status.get("reservedFor") or ()),
    )
    return claim, is_gpu(claim.device_class)


def is_gpu(device_class: str) -> bool:
    """Tell whether a device class offers whole GPUs."""
    return device_class in GPU_DRIVERS
