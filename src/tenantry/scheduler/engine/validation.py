"""Refuse what cannot be scheduled as written, before it can spoil sums.

One bad object sets aside itself and nothing else; the text says what would be accepted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tenantry.scheduler.engine import errors, resources, shapes, specs

PREEMPTIBLE_BELOW = 100


def node(spec: specs.Node) -> None:
    """Refuse a node with negative or absurd amounts."""
    _amounts(spec.allocatable, "InvalidNode", f"node {spec.name}")
    if spec.gpu_memory < 0:
        raise errors.SetAside("InvalidNode", f"node {spec.name}: GPU memory is {spec.gpu_memory}")


def queue(spec: specs.Queue) -> None:
    """Refuse a queue whose numbers no division can use."""
    for name, bound in spec.resources.items():
        for field, value in (
            ("quota", bound.quota),
            ("limit", bound.limit),
            ("overQuotaWeight", bound.weight),
            ("lendingLimit", bound.lending_limit),
            ("borrowingLimit", bound.borrowing_limit),
        ):
            if not math.isfinite(value):
                raise errors.SetAside(
                    "InvalidQueue", f"{name}.{field} is {value}; accepted is a finite number"
                )
            if value < -1 and not (name == "memory" and field in ("quota", "limit")):
                raise errors.SetAside(
                    "InvalidQueue",
                    f"{name}.{field} is {value}; accepted is -1 (unlimited) or 0 and more",
                )


def task(spec: specs.Task) -> None:
    """Refuse a task with negative, absurd or contradictory requests."""
    name = f"pod {spec.namespace}/{spec.name}"
    _amounts(spec.requests, "InvalidPod", name)
    _amounts({"gpu": spec.gpus, "gpu-memory": spec.gpu_memory}, "InvalidPod", name)
    if not 0 <= spec.portion <= shapes.MILLION:
        raise errors.SetAside(
            "InvalidPod",
            f"{name}: GPU fraction is {spec.portion / shapes.MILLION}; accepted is 0 to 1",
        )
    if spec.devices < 1 or spec.devices > 1024:
        raise errors.SetAside("InvalidPod", f"{name}: asks for {spec.devices} shared devices")
    if sum(bool(kind) for kind in (spec.gpus, spec.portion, spec.gpu_memory)) > 1:
        raise errors.SetAside(
            "InvalidPod", f"{name}: whole GPUs, a fraction and GPU memory exclude each other"
        )


def job(spec: specs.Job) -> None:
    """Refuse a job whose numbers make no sense; the shape of its gang is checked elsewhere."""
    for field, value in (
        ("preemptionDelay", spec.preemption_delay),
        ("creation", spec.created),
    ):
        if math.isnan(value):
            raise errors.SetAside("InvalidPodGroup", f"{field} is not a number")


def is_preemptible(spec: specs.Job) -> bool:
    """Tell whether a job's pods may be evicted; unsaid, its priority decides."""
    if spec.preemptible is None:
        return spec.priority < PREEMPTIBLE_BELOW
    return spec.preemptible


def _amounts(amounts: Mapping[str, int], reason: str, what: str) -> None:
    for name, amount in amounts.items():
        if not 0 <= amount <= resources.ABSURD:
            raise errors.SetAside(
                reason, f"{what}: {name} is {amount}; accepted is 0 to {resources.ABSURD}"
            )
