"""Write amounts of accounted resources as people read them."""

from __future__ import annotations

_TITLES = {"cpu": "CPU cores", "memory": "memory", "gpu": "GPUs"}


def title(resource: str) -> str:
    """Return the name of a resource in a sentence."""
    return _TITLES.get(resource, resource)


def amount(resource: str, value: float) -> str:
    """Return an amount with its unit: milli GPUs and cores as decimals, memory in GB."""
    if value == -1:
        return "unlimited"
    if resource == "memory":
        return f"{_number(value / 1e9)} GB"
    if resource in ("cpu", "gpu"):
        return f"{_number(value / 1000)} {_TITLES[resource]}"
    if resource.startswith("gpu:"):
        return f"{_number(value / 1000)} {resource[4:]} GPUs"
    return f"{_number(value / 1000)} {resource}"


def _number(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")
