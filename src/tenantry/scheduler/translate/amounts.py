"""Quantities and resource lists in the engine's units."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from tenantry.core import quantity
from tenantry.scheduler.engine import resources

GPU = resources.GPU_RESOURCE


@functools.lru_cache(maxsize=4096)
def parsed(name: str, text: str) -> int:
    """Return one quantity: CPU and extended resources in milli, memory and the like in bytes."""
    value = quantity.parse(text, name)
    if name in ("memory", "pods", "ephemeral-storage") or name.startswith("hugepages-"):
        return value.value
    return value.milli


def resource_list(given: Mapping[str, Any] | None) -> dict[str, int]:
    """Return a resource list with `gpu` for whole GPUs."""
    found = {}
    for name, amount in (given or {}).items():
        key = "gpu" if name == GPU else name
        found[key] = parsed(name, str(amount))
    return found


def add(total: dict[str, int], more: Mapping[str, int]) -> None:
    """Add a list onto another."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def largest(total: dict[str, int], other: Mapping[str, int]) -> None:
    """Keep the larger of two lists, name by name."""
    for name, amount in other.items():
        if amount > total.get(name, 0):
            total[name] = amount
