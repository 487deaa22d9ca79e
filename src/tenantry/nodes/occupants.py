"""Whose pods are on a node; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tenantry.nodes import taints, views

TenantOf = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class Occupants:
    """The pods of a node by whose they are; those of the system are left out."""

    own: tuple[views.PodView, ...] = ()
    foreign: tuple[views.PodView, ...] = ()


def of(
    pods: Iterable[views.PodView], tenant: str, taint_key: str, tenant_of: TenantOf
) -> Occupants:
    """Tell the tenant's own pods from those of others.

    The system's are: static pods, which no taint keeps away; pods of DaemonSets outside of
    tenants, which is how the system comes to a node; and pods outside of tenants that tolerate
    the taint, which only the platform's people can write.
    """
    own, foreign = [], []
    taint = taints.Taint(taint_key, tenant)
    for pod in pods:
        if not pod.running:
            continue
        whose = tenant_of(pod.namespace)
        if whose == tenant:
            own.append(pod)
        elif not is_system(pod, whose, taint):
            foreign.append(pod)
    key = _key
    return Occupants(tuple(sorted(own, key=key)), tuple(sorted(foreign, key=key)))


def is_system(pod: views.PodView, tenant: str | None, taint: taints.Taint) -> bool:
    """Tell whether a pod is part of the platform on a node with this taint."""
    if pod.mirror and (tenant is None or pod.owner_kind == "Node"):
        return True
    if tenant is not None:
        return False
    return pod.owner_kind == "DaemonSet" or any(one.tolerates(taint) for one in pod.tolerations)


def _key(pod: views.PodView) -> tuple[str, str]:
    return pod.namespace, pod.name


def named(pods: Iterable[views.PodView], limit: int = 3) -> str:
    """Name the first of some pods, and how many there are besides."""
    listed = [f"{pod.namespace}/{pod.name}" for pod in pods]
    more = f" and {len(listed) - limit} more" if len(listed) > limit else ""
    return ", ".join(listed[:limit]) + more
