"""What `tenantry nodes` does: read a cluster once, decide by the functions of `nodes`, write."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, TypeVar

import msgspec

from tenantry.api import resources
from tenantry.api.tenantry import constants, node_pool
from tenantry.api.tenantry import resources as tenantry
from tenantry.core import clock
from tenantry.core import errors as core_errors
from tenantry.directory import state as directory
from tenantry.kube import client as clients
from tenantry.kube import errors
from tenantry.nodes import apiservers, daemonsets, listing, repair, taints, views

T = TypeVar("T")
Object = dict[str, Any]

_TIMEOUT = 30.0
_POLL = 0.3
#: How often a change is tried of what others change at the same time.
_TRIES = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A cluster at one moment."""

    nodes: list[views.NodeView]
    pools: list[node_pool.TenantNodePool]
    daemon_sets: list[daemonsets.View] = dataclasses.field(default_factory=list)
    ready: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    """uid of a DaemonSet -> nodes on which it has a pod that is ready"""
    namespaces: dict[str, directory.NamespaceView] = dataclasses.field(default_factory=dict)

    @property
    def keys(self) -> frozenset[str]:
        """Return the keys of the taints that give nodes to tenants."""
        return frozenset({constants.TAINT_KEY, *(one.spec.taint_key for one in self.pools)})

    def tenant_of(self, namespace: str) -> str | None:
        """Return the tenant of a namespace."""
        view = self.namespaces.get(namespace)
        return view.tenant if view is not None else None

    def lines(self) -> list[str]:
        """Return the dedicated nodes as seed 000 lists them."""
        return listing.lines(self.nodes, self.keys)

    def audit(self, *, tenants_too: bool = False) -> list[daemonsets.Audit]:
        """Audit the system's DaemonSets."""
        found = [
            one for one in self.daemon_sets if tenants_too or self.tenant_of(one.namespace) is None
        ]
        index = daemonsets.Nodes(self.nodes, self.keys)
        return daemonsets.audit(found, index, lambda one: self.ready.get(one.uid, ()))

    def annotated(self) -> list[str]:
        """Return namespaces outside of tenants whose selector keeps DaemonSets' pods pending."""
        with_sets = {one.namespace for one in self.daemon_sets}
        return sorted(
            name
            for name, view in self.namespaces.items()
            if name in with_sets
            and view.tenant is None
            and view.annotations.get(apiservers.ANNOTATION)
        )

    def repairs(
        self,
        *,
        allow: Collection[str],
        anyway: bool,
        only: Collection[str] = (),
    ) -> list[repair.Repair]:
        """Decide about every DaemonSet that is blocked, or about those named."""
        by_name = {node.name: node for node in self.nodes}
        views_by_key = {one.key: one for one in self.daemon_sets}
        result = []
        for one in self.audit(tenants_too=True):
            key = f"{one.namespace}/{one.name}"
            if only and key not in only:
                continue
            needed = {
                taint
                for node in one.blocked
                for taint in by_name[node].taints
                if taint.key in self.keys and taint.effect in taints.HARD
            }
            if not needed and not only:
                continue
            result.append(
                repair.plan(
                    views_by_key[key],
                    needed=sorted(needed, key=str),
                    tenant=self.tenant_of(one.namespace),
                    allow={*allow, *(e for p in self.pools for e in p.spec.repair.allow)},
                    anyway=anyway,
                )
            )
        return result


async def read(client: clients.Client, *, whole: bool = False) -> Snapshot:
    """Read a cluster.

    :param whole: also its DaemonSets, pods and namespaces
    """

    async def listed(resource: resources.Resource, view: Callable[[bytes], T]) -> list[T]:
        try:
            found = await client.list(resource, timeout=_TIMEOUT)
        except errors.NotFound:
            return []  # the cluster does not have the kind
        return [view(bytes(raw)) for raw in found.items]

    nodes, pools = await asyncio.gather(
        listed(resources.NODES, views.node_view), listed(tenantry.NODE_POOLS, views.pool_view)
    )
    if not whole:
        return Snapshot(nodes=nodes, pools=pools)
    sets, pods, namespaces = await asyncio.gather(
        listed(resources.DAEMON_SETS, daemonsets.view),
        listed(resources.PODS, views.pod_view),
        listed(resources.NAMESPACES, directory.namespace_view),
    )
    ready: dict[str, list[str]] = {}
    for pod in pods:
        if pod.ready and pod.owner_kind == "DaemonSet":
            ready.setdefault(pod.owner_uid, []).append(pod.node)
    return Snapshot(
        nodes=nodes,
        pools=pools,
        daemon_sets=sets,
        ready=ready,
        namespaces={view.name: view for view in namespaces},
    )


async def apply_repairs(client: clients.Client, found: Sequence[repair.Repair]) -> int:
    """Send the patches; return how many were sent."""
    sent = 0
    for one in found:
        if one.action == "patch":
            await client.patch(
                resources.DAEMON_SETS,
                one.name,
                one.namespace,
                kind="json",
                body=list(one.operations),
                field_manager=constants.NODES_MANAGER,
            )
            sent += 1
    return sent


async def undo_repairs(
    client: clients.Client, found: Snapshot, only: Collection[str], *, dry_run: bool
) -> list[str]:
    """Take repairs back; return the DaemonSets concerned."""
    done = []
    for one in sorted(found.daemon_sets, key=lambda item: item.key):
        operations = repair.undo(one, found.keys)
        if not operations or (only and one.key not in only):
            continue
        await client.patch(
            resources.DAEMON_SETS,
            one.name,
            one.namespace,
            kind="json",
            body=operations,
            field_manager=constants.NODES_MANAGER,
            dry_run=dry_run,
        )
        done.append(one.key)
    return done


async def dedicate(
    client: clients.Client, pool: str, names: Sequence[str], **spec: Any
) -> node_pool.TenantNodePool:
    """Add nodes to a pool, which is made if there is none.

    :raises InvalidValueError: when the pool is another tenant's
    """
    return await _retried(lambda: _dedicated(client, pool, names, **spec))


async def _retried(work: Callable[[], Awaitable[T]]) -> T:
    """Do again, from the read on, what fails because its object changed; a pool's status does so."""
    for _ in range(_TRIES - 1):
        with contextlib.suppress(errors.Conflict):
            return await work()
    return await work()


async def _dedicated(
    client: clients.Client, pool: str, names: Sequence[str], **spec: Any
) -> node_pool.TenantNodePool:
    known = {node.name for node in (await read(client)).nodes}
    for name in names:
        if name not in known:
            raise core_errors.InvalidValueError("node", name, "there is no such node")
    try:
        before = await client.get(tenantry.NODE_POOLS, pool, decode=views.pool_view)
    except errors.NotFound:
        body = {"metadata": {"name": pool}, "spec": {**spec, "nodes": list(names)}}
        return _pool(await client.create(tenantry.NODE_POOLS, body))
    if before.spec.tenant != spec["tenant"]:
        raise core_errors.InvalidValueError(
            "tenant", spec["tenant"], f'pool "{pool}" is of tenant "{before.spec.tenant}"'
        )
    listed = list(dict.fromkeys([*before.spec.nodes, *names]))
    # What was not asked for stays as it is.
    change = {key: value for key, value in spec.items() if value}
    return _pool(
        await client.patch(
            tenantry.NODE_POOLS,
            pool,
            kind="merge",
            body={
                "metadata": {"resourceVersion": before.metadata.resource_version},
                "spec": {**change, "nodes": listed},
            },
        )
    )


async def release(client: clients.Client, names: Sequence[str]) -> list[str]:
    """Take nodes out of their pools; a pool that is left without any goes. Return the pools.

    :raises InvalidValueError: when a node is in no pool by its name
    """
    pools = (await read(client)).pools
    listed = {name for pool in pools for name in pool.spec.nodes}
    for name in names:
        if name not in listed:
            raise core_errors.InvalidValueError(
                "node", name, "no TenantNodePool names it; change the selector of its pool instead"
            )
    touched = [pool.metadata.name for pool in pools if set(names).intersection(pool.spec.nodes)]
    for pool in touched:
        await _retried(functools.partial(_without, client, pool, names))
    return touched


async def _without(client: clients.Client, name: str, names: Collection[str]) -> None:
    try:
        pool = await client.get(tenantry.NODE_POOLS, name, decode=views.pool_view)
    except errors.NotFound:
        return
    version = pool.metadata.resource_version
    kept = [node for node in pool.spec.nodes if node not in names]
    if kept == pool.spec.nodes:
        return
    if not kept and pool.spec.selector is None:
        await client.delete(tenantry.NODE_POOLS, name, resource_version=version)
        return
    body = {"metadata": {"resourceVersion": version}, "spec": {"nodes": kept}}
    await client.patch(tenantry.NODE_POOLS, name, kind="merge", body=body)


async def settled(
    client: clients.Client, pool: str, names: Collection[str], timeout: float
) -> list[node_pool.NodeStatus]:
    """Wait until nodes of a pool are dedicated, or refused; return what each is.

    Of those that wait because the pool as a whole is wrong, it says so.
    """
    deadline = clock.monotonic() + timeout
    while True:
        found = await client.get(tenantry.NODE_POOLS, pool, decode=views.pool_view)
        entries = [one for one in found.status.nodes if one.name in names]
        current = found.status.observed_generation == found.metadata.generation
        waiting = [one for one in entries if one.reason in ("Pending", "Draining")]
        done = current and len(entries) == len(set(names)) and not waiting
        if done or clock.monotonic() > deadline:
            return [_explained(one, found) for one in entries]
        await asyncio.sleep(_POLL)


def _explained(entry: node_pool.NodeStatus, pool: node_pool.TenantNodePool) -> node_pool.NodeStatus:
    for one in pool.status.conditions:
        if one.type == constants.READY and one.status == "False" and entry.reason == "Pending":
            return msgspec.structs.replace(entry, reason=one.reason, message=one.message)
    return entry


def _pool(raw: Object) -> node_pool.TenantNodePool:
    return msgspec.convert(raw, node_pool.TenantNodePool, strict=False)
