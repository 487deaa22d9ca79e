"""What the watches have told of pools, nodes, pods and DaemonSets."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tenantry.api import resources
from tenantry.api.tenantry import constants, node_pool
from tenantry.api.tenantry import resources as tenantry
from tenantry.directory import state as directory
from tenantry.nodes import claims, daemonsets, fence, lifecycle, occupants, views
from tenantry.runtime import cluster, informer, permissions, store

POOL_NEEDS = (permissions.Need(tenantry.NODE_POOLS, permissions.READ),)
NEEDS = (
    *POOL_NEEDS,
    permissions.Need(resources.NODES, permissions.READ),
    permissions.Need(resources.PODS, permissions.READ),
    permissions.Need(resources.DAEMON_SETS, permissions.READ),
)

_BY_NODE = "node"
_BY_NAMESPACE_OF = "owner"


class Pools:
    """The pools, and the fences that follow from them; all that admission needs."""

    def __init__(self, source: cluster.Cluster, index: directory.Directory) -> None:
        self.index = index
        self.pools: informer.Informer[node_pool.TenantNodePool] = source.informer(
            tenantry.NODE_POOLS, views.pool_view
        )
        self._fences: dict[str, fence.Fence] = {}
        self.pools.subscribe(self._changed)

    def _changed(self, event: store.Event[node_pool.TenantNodePool]) -> None:
        if not specified(event):
            return
        self._fences.clear()
        pools = self.pools.list()
        for tenant in {one.spec.tenant for one in (event.old, event.new) if one is not None}:
            self.index.node_selector_changed(tenant, fence.node_selector(pools, tenant))

    def fence_of(self, tenant: str) -> fence.Fence:
        """Return the fence of a tenant, compiled once per change of pools."""
        found = self._fences.get(tenant)
        if found is None:
            found = self._fences[tenant] = fence.fence(self.pools.list(), tenant)
        return found

    def taint_keys(self) -> frozenset[str]:
        """Return the keys of the taints that give nodes to tenants."""
        return frozenset({constants.TAINT_KEY, *(one.spec.taint_key for one in self.pools.list())})


class State(Pools):
    """Everything the controllers read."""

    def __init__(self, source: cluster.Cluster, index: directory.Directory) -> None:
        super().__init__(source, index)
        self.nodes = source.informer(resources.NODES, views.node_view)
        self.pods = source.informer(resources.PODS, views.pod_view)
        self.daemon_sets = source.informer(resources.DAEMON_SETS, daemonsets.view)
        self.pods.add_index(_BY_NODE, lambda pod: [pod.node] if pod.node else [])
        self.pods.add_index(_BY_NAMESPACE_OF, lambda pod: [pod.owner_uid] if pod.owner_uid else [])
        #: Last step of each node that is, or was, in a pool.
        self.steps: dict[str, lifecycle.Step] = {}
        #: Borrowed nodes that their tenant wants back.
        self.called: set[str] = set()
        self._division = claims.Division()
        self.pools.subscribe(self._pool_changed)
        self.nodes.subscribe(self._node_changed)

    def _pool_changed(self, event: store.Event[node_pool.TenantNodePool]) -> None:
        if specified(event):
            self._division.pool_changed(event.key[1], event.new)

    def _node_changed(self, event: store.Event[views.NodeView]) -> None:
        if event.new is None:
            self.steps.pop(event.key[1], None)
            self.called.discard(event.key[1])
        if event.old is None or event.new is None or moved(event.old, event.new):
            self._division.node_changed(event.key[1], event.new)

    def tenants_changed(self) -> None:
        """Divide the nodes anew: a tenant came or went."""
        self._division.tenants_changed()

    def claims(self) -> claims.Claims:
        """Return who has which node, for now: it is not to be kept over an `await`."""
        return self._division.claims(self.index.tenant_names())

    def pods_on(self, node: str) -> list[views.PodView]:
        """Return the pods of a node."""
        return self.pods.by_index(_BY_NODE, node)

    def occupants(self, node: str, spec: node_pool.TenantNodePoolSpec) -> occupants.Occupants:
        """Return whose pods are on a node."""
        return occupants.of(self.pods_on(node), spec.tenant, spec.taint_key, self.index.tenant_of)

    def ready_on(self, found: daemonsets.View) -> Iterable[str]:
        """Return the nodes on which a DaemonSet has a pod that is ready."""
        pods = self.pods.by_index(_BY_NAMESPACE_OF, found.uid)
        return [pod.node for pod in pods if pod.ready and pod.node]

    def system_daemon_sets(self) -> list[daemonsets.View]:
        """Return the DaemonSets outside of tenants."""
        tenant_of: Callable[[str], str | None] = self.index.tenant_of
        return [one for one in self.daemon_sets.list() if tenant_of(one.namespace) is None]


def moved(before: views.NodeView, after: views.NodeView) -> bool:
    """Tell whether a node changed in what pools look at."""
    return (
        before.labels != after.labels
        or before.raw_taints != after.raw_taints
        or before.record != after.record
        or before.unschedulable != after.unschedulable
    )


def specified(event: store.Event[node_pool.TenantNodePool]) -> bool:
    """Tell whether a pool came, went, or wants something else now; its status does not matter."""
    before, after = event.old, event.new
    if before is None or after is None or before.spec != after.spec:
        return True
    return before.metadata.deletion_timestamp != after.metadata.deletion_timestamp
