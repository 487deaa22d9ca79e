"""The quality of service class of a pod, by Kubernetes' own rules.

Source: the Kubernetes documentation of QoS classes, with pod-level resources (KEP-2837): where a
pod has cpu or memory of its own, only these count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tenantry.core import errors, quantity

GUARANTEED = "Guaranteed"
BURSTABLE = "Burstable"
BEST_EFFORT = "BestEffort"

_COUNTED = ("cpu", "memory")

Resources = Mapping[str, Any]


def of(spec: Mapping[str, Any]) -> str:
    """Return the class of a pod with this specification."""
    own = spec.get("resources") or {}
    if any(_amounts(own, part) for part in ("requests", "limits")):
        return _class([own])
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    return _class([container.get("resources") or {} for container in containers])


def _class(all_resources: Iterable[Resources]) -> str:
    anything = False
    guaranteed = True
    for resources in all_resources:
        requests, limits = _amounts(resources, "requests"), _amounts(resources, "limits")
        anything = anything or bool(requests or limits)
        if set(limits) != set(_COUNTED) or any(
            _requested(resources, requests, name, limits[name]) for name in limits
        ):
            guaranteed = False
    if not anything:
        return BEST_EFFORT
    return GUARANTEED if guaranteed else BURSTABLE


def _requested(
    resources: Resources,
    requests: Mapping[str, quantity.Quantity],
    name: str,
    limit: quantity.Quantity,
) -> bool:
    """Tell whether something else than the limit is requested; nothing written means the limit."""
    written = name in (resources.get("requests") or {})
    return written and requests.get(name) != limit


def _amounts(resources: Resources, part: str) -> dict[str, quantity.Quantity]:
    found = {}
    for name in _COUNTED:
        written = (resources.get(part) or {}).get(name)
        if written is None:
            continue
        try:
            amount = quantity.parse(written)
        except errors.InvalidValueError:
            continue  # The API server refuses it.
        if amount:
            found[name] = amount
    return found
