"""Taints and tolerations as the scheduler compares them; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

#: Effects that keep a pod from a node.
HARD = ("NoSchedule", "NoExecute")


class Taint(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A taint; two are the same taint of a node when key and effect are."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}"


class Toleration(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A toleration; without a key and with operator Exists it tolerates everything."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """Tell whether a pod with this toleration bears the taint."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.operator == "Exists":
            return not self.key or self.key == taint.key
        return self.key == taint.key and self.value == taint.value


def toleration(raw: Mapping[str, Any]) -> Toleration:
    """Read a toleration as an object has it."""
    return Toleration(
        key=raw.get("key") or "",
        operator=raw.get("operator") or "Equal",
        value=raw.get("value") or "",
        effect=raw.get("effect") or "",
    )


def tolerations(spec: Mapping[str, Any]) -> tuple[Toleration, ...]:
    """Read the tolerations of a pod's specification."""
    return tuple(toleration(raw) for raw in spec.get("tolerations") or ())


def tolerated(taints: Iterable[Taint], given: Sequence[Toleration]) -> bool:
    """Tell whether a pod with these tolerations may be scheduled beside all these taints."""
    return all(
        taint.effect not in HARD or any(one.tolerates(taint) for one in given) for taint in taints
    )


def controller_tolerations(*, host_network: bool) -> tuple[Toleration, ...]:
    """Return what the DaemonSet controller adds to each of its pods."""
    added = [
        Toleration("node.kubernetes.io/not-ready", "Exists", "", "NoExecute"),
        Toleration("node.kubernetes.io/unreachable", "Exists", "", "NoExecute"),
        Toleration("node.kubernetes.io/disk-pressure", "Exists", "", "NoSchedule"),
        Toleration("node.kubernetes.io/memory-pressure", "Exists", "", "NoSchedule"),
        Toleration("node.kubernetes.io/pid-pressure", "Exists", "", "NoSchedule"),
        Toleration("node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule"),
    ]
    if host_network:
        added.append(
            Toleration("node.kubernetes.io/network-unavailable", "Exists", "", "NoSchedule")
        )
    return tuple(added)
