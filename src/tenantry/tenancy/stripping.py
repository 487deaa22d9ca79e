"""Take finalizers off what is left in a namespace that is going; only for tenants that ask for it.

A finalizer stands for work outside of the cluster, such as a load balancer to be removed; without
it that is left behind for good. So a tenant says so by an annotation, what may be stripped is given
to the controller by whoever runs the cluster, and only objects that are being deleted are touched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from tenantry.api import meta
from tenantry.api.capsule import constants, tenant
from tenantry.core import clock
from tenantry.kube import client as kube
from tenantry.kube import discovery, errors

#: Seconds without pods after which a namespace's deletion is helped, and between two tries.
PATIENCE = 10.0
#: Kinds looked at at once.
PARALLEL = 4
#: Names of kinds in a message.
_NAMED = 3

#: What is stripped by nobody: pods are a kubelet's to end, and RoleBindings of ours go last, since
#: owners clean up by them. The rest is short-lived or no object of its own.
_LEFT_ALONE = {
    ("", "pods"),
    ("", "events"),
    ("events.k8s.io", "events"),
    ("rbac.authorization.k8s.io", "rolebindings"),
}


class _Item(msgspec.Struct):
    metadata: meta.ObjectMeta


_ITEM = msgspec.json.Decoder(_Item)


def asked_for(owner: tenant.Tenant) -> bool:
    """Tell whether a tenant wants it; pure."""
    return owner.metadata.annotations.get(constants.STRIP_ANNOTATION) == constants.TRUE


def kinds(served: Iterable[discovery.Served]) -> list[discovery.Served]:
    """Return the kinds that can hold a namespace back; pure."""
    return [
        one
        for one in served
        if one.preferred
        and one.resource.namespaced
        and {"list", "patch", "delete"} <= set(one.verbs)
        and (one.resource.group, one.resource.plural) not in _LEFT_ALONE
    ]


def operations(found: meta.ObjectMeta) -> list[dict[str, Any]]:
    """Return the patch that takes all finalizers off an object that is going; pure."""
    if found.deletion_timestamp is None or not found.finalizers:
        return []
    return [
        {"op": "test", "path": "/metadata/uid", "value": found.uid},
        {"op": "test", "path": "/metadata/finalizers", "value": list(found.finalizers)},
        {"op": "remove", "path": "/metadata/finalizers"},
    ]


def message(forbidden: Iterable[str]) -> str:
    """Say what could not be looked at for lack of rights; pure."""
    names = sorted(forbidden)
    if not names:
        return ""
    more = f" and {len(names) - _NAMED} more kinds" if len(names) > _NAMED else ""
    return (
        f"; finalizers are taken off, but not from {', '.join(names[:_NAMED])}{more}: give list and "
        f"patch by a ClusterRole with the label {constants.AGGREGATE_LABEL}=true"
    )


class Waits:
    """Remembers since when namespaces are without pods; no I/O."""

    def __init__(self, now: clock.Clock) -> None:
        self._now = now
        self._since: dict[str, float] = {}

    def due(self, name: str, *, pods: bool) -> bool:
        """Tell whether a namespace has waited for long enough; then it waits anew."""
        if pods:
            self._since.pop(name, None)
            return False
        began = self._since.setdefault(name, self._now())
        if self._now() - began < PATIENCE:
            return False
        self._since[name] = self._now()
        return True

    def forget(self, name: str) -> None:
        """Forget a namespace that is gone."""
        self._since.pop(name, None)


class Stripper:
    """Looks through one namespace and takes finalizers off."""

    def __init__(
        self, client: kube.Client, field_manager: str, *, deadline: float,
        tell: Callable[[str, Mapping[str, object]], None],
    ) -> None:  # fmt: skip
        self._client = client
        self._manager = field_manager
        self._deadline = deadline
        self._tell = tell

    async def strip(self, namespace: str) -> str:
        """Do it once; return what to add to the namespace's message."""
        found = kinds((await discovery.discover(self._client)).served)
        limit = asyncio.Semaphore(PARALLEL)
        forbidden: list[str] = []

        async def one(served: discovery.Served) -> None:
            async with limit:
                try:
                    await self._kind(served, namespace)
                except errors.Forbidden:
                    forbidden.append(served.resource.group_resource)
                except errors.ApiError:
                    # A kind that goes, or whose server is down: the next try is soon.
                    return

        await asyncio.gather(*(one(served) for served in found))
        return message(forbidden)

    async def _kind(self, served: discovery.Served, namespace: str) -> None:
        listed = await self._client.list(served.resource, namespace)
        for raw in listed.items:
            metadata = _ITEM.decode(raw).metadata
            ops = operations(metadata)
            if not ops:
                continue
            await self._client.patch(
                served.resource,
                metadata.name,
                namespace,
                kind="json",
                body=ops,
                field_manager=self._manager,
                timeout=self._deadline,
            )
            self._tell(
                "finalizers_stripped",
                {
                    "kind": served.resource.group_resource,
                    "namespace": namespace,
                    "object": metadata.name,
                    "finalizers": ",".join(metadata.finalizers),
                },
            )
