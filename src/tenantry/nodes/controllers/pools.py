"""Keep the status of pools, and tell of pods where they should not be."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import get_args

from tenantry.api import resources
from tenantry.api.tenantry import constants, node_pool
from tenantry.api.tenantry import resources as tenantry
from tenantry.core import clock
from tenantry.nodes import borrowing, daemonsets, occupants, readiness, state, status, views
from tenantry.runtime import apply, cluster, controller, events, permissions, store
from tenantry.runtime import views as raw_views

NEEDS = (
    permissions.Need(tenantry.NODE_POOLS, ("patch",), subresource="status"),
    permissions.Need(resources.EVENTS, permissions.APPLY),
)

#: How many times the usual debounce a pool waits for more news of its nodes and pods.
GATHERED = 5

_STATES: tuple[node_pool.State, ...] = get_args(node_pool.State)
_KINDS = ("ForeignPod", "PodOutside")


class PoolController:
    """Reconciles one pool's own object by name."""

    def __init__(
        self,
        source: cluster.Cluster,
        known: state.State,
        recorder: events.Recorder,
        *,
        now: clock.Clock = clock.wall,
    ) -> None:
        self._known = known
        self._recorder = recorder
        self._now = now
        self._debounce = GATHERED * source.timing.debounce
        self._raw = source.informer(tenantry.NODE_POOLS, raw_views.as_dict)
        self._applier = apply.Applier(source.client, constants.NODES_MANAGER, timing=source.timing)
        self._told: dict[str, set[tuple[str, ...]]] = {}
        self._nodes_gauge = source.metrics.gauge(
            "tenantry_node_pool_nodes", "Nodes of a pool by state.", ("pool", "state")
        )
        self._wrong_gauge = source.metrics.gauge(
            "tenantry_node_pool_violations", "Pods where they should not be.", ("pool", "kind")
        )
        self._complete_gauge = source.metrics.gauge(
            "tenantry_node_pool_complete_nodes", "Dedicated nodes that lack nothing.", ("pool",)
        )
        self.on_called: Callable[[str], None] = lambda _node: None
        self.controller: controller.Controller[str] = (
            controller.Controller(
                "tenantnodepool", self.reconcile, timing=source.timing, registry=source.metrics
            )
            .watches(known.pools, lambda event: [event.key[1]], debounce=source.timing.debounce)
            .watches(self._raw, lambda event: [event.key[1]], debounce=source.timing.debounce)
            .watches(known.nodes, self._of_node, debounce=self._debounce)
            .watches(known.pods, self._of_pod, debounce=self._debounce)
            .watches(known.daemon_sets, self._of_daemon_set, debounce=self._debounce)
        )

    def note(self, name: str) -> None:
        """Look at a pool again soon."""
        self.controller.enqueue(name, after=self._debounce)

    def _all(self) -> list[str]:
        return [pool.metadata.name for pool in self._known.pools.list()]

    def _of_node(self, event: store.Event[views.NodeView]) -> Iterable[str]:
        if event.old is None or event.new is None:
            return self._all()
        if event.old.labels != event.new.labels:
            return self._all()
        step = self._known.steps.get(event.key[1])
        changed = event.old.allocatable != event.new.allocatable or state.moved(
            event.old, event.new
        )
        return [step.pool] if step is not None and changed else ()

    def _of_pod(self, event: store.Event[views.PodView]) -> Iterable[str]:
        pods = [pod for pod in (event.old, event.new) if pod is not None]
        steps = [self._known.steps.get(pod.node) for pod in pods if pod.node]
        found = {step.pool for step in steps if step is not None}
        tenant = self._known.index.tenant_of(event.key[0])
        if tenant is not None:
            found.update(self._known.fence_of(tenant).pools)
        return found

    def _of_daemon_set(self, event: store.Event[daemonsets.View]) -> Iterable[str]:
        before, after = event.old, event.new
        if before is not None and after is not None and before.template == after.template:
            return ()
        return self._all()

    async def reconcile(self, name: str) -> None:
        """Write one pool's status."""
        pool, raw = self._known.pools.get(name), self._raw.get(name)
        if pool is None or raw is None:
            self._told.pop(name, None)
            self._uncount(name)
            return
        found = self._known.claims()
        selected = sorted(found.nodes_of.get(name, ()))
        occupied = {
            node: self._known.occupants(node, pool.spec)
            for node in selected
            if found.pool_of.get(node) == name
        }
        self._call(pool, occupied)
        entries = status.nodes(
            pool,
            selected,
            self._known.steps,
            refused=found.refused,
            scores=self._scores(pool, occupied),
            known=[one.name for one in pool.status.nodes if self._known.nodes.get(one.name)],
        )
        wrong = self._violations(pool, occupied)
        self._tell(pool, wrong)
        self._count(name, entries, wrong)
        wanted = {
            "apiVersion": constants.API_VERSION,
            "kind": tenantry.NODE_POOLS.kind,
            "metadata": {"name": name},
            "status": status.desired(
                pool, entries, wrong, problem=found.problems.get(name), now=self._now()
            ),
        }
        await self._applier.apply_status(tenantry.NODE_POOLS, wanted, raw)

    def _scores(
        self, pool: node_pool.TenantNodePool, nodes: Iterable[str]
    ) -> dict[str, readiness.Score]:
        dedicated = [
            node
            for node in nodes
            if (step := self._known.steps.get(node)) is not None and step.state == "dedicated"
        ]
        if not dedicated:
            return {}
        expected: dict[str, list[str]] = {node: [] for node in dedicated}
        running: dict[str, set[str]] = {node: set() for node in dedicated}
        known = [view for one in dedicated if (view := self._known.nodes.get(one)) is not None]
        index = daemonsets.Nodes(known, self._known.taint_keys())
        for one in self._known.system_daemon_sets():
            reach = index.tolerated(daemonsets.given(one.template), dedicated=False)
            for node in index.named(index.selected(one.template) & reach):
                expected[node].append(one.key)
            for node in self._known.ready_on(one):
                if node in running:
                    running[node].add(one.key)
        result = {}
        for view in known:
            result[view.name] = readiness.score(
                view,
                pool.spec.readiness,
                expected=expected[view.name],
                running=running[view.name],
            )
        return result

    def _violations(
        self, pool: node_pool.TenantNodePool, occupied: dict[str, occupants.Occupants]
    ) -> list[node_pool.Violation]:
        closed = [
            node
            for node in occupied
            if (step := self._known.steps.get(node)) is not None and step.state == "dedicated"
        ]
        foreign = [pod for node in closed for pod in occupied[node].foreign]
        if pool.spec.mode == "shared":
            return status.violations(foreign, ())
        tenant = pool.spec.tenant
        own = {
            node
            for node, name in self._known.claims().pool_of.items()
            if name in self._known.fence_of(tenant).pools
        }
        outside = [
            pod
            for view in self._known.index.namespaces_of(tenant)
            for pod in self._known.pods.list(view.name)
            if pod.running and not pod.mirror and pod.node not in own
        ]
        return status.violations(foreign, outside)

    def _call(
        self, pool: node_pool.TenantNodePool, occupied: dict[str, occupants.Occupants]
    ) -> None:
        """Call borrowed nodes back as far as the tenant's pods need them."""
        if pool.spec.mode != "borrow":
            return
        waiting = sum(
            pod.unschedulable and not pod.node and not pod.terminating
            for view in self._known.index.namespaces_of(pool.spec.tenant)
            for pod in self._known.pods.list(view.name)
        )
        before = self._known.called & occupied.keys()
        after = borrowing.called(occupied, occupied, waiting=waiting, before=before)
        self._known.called.difference_update(before - after)
        self._known.called.update(after)
        for node in before ^ after:
            self.on_called(node)

    def _tell(self, pool: node_pool.TenantNodePool, wrong: list[node_pool.Violation]) -> None:
        now: set[tuple[str, ...]] = {(one.kind, one.namespace, one.pod, one.node) for one in wrong}
        new = now - self._told.get(pool.metadata.name, set())
        self._told[pool.metadata.name] = now
        about = {
            "apiVersion": constants.API_VERSION,
            "kind": tenantry.NODE_POOLS.kind,
            "name": pool.metadata.name,
            "uid": pool.metadata.uid,
        }
        for kind, namespace, name, node in sorted(new)[: status.MOST_VIOLATIONS]:
            what = "of others runs on" if kind == "ForeignPod" else "of the tenant runs outside, on"
            self._recorder.event(
                about, "Warning", kind, "Audit", f"pod {namespace}/{name} {what} {node}"
            )

    def _count(
        self,
        name: str,
        entries: list[node_pool.NodeStatus],
        wrong: list[node_pool.Violation],
    ) -> None:
        for kept in _STATES:
            self._nodes_gauge.set(sum(one.state == kept for one in entries), name, kept)
        for kind in _KINDS:
            self._wrong_gauge.set(sum(one.kind == kind for one in wrong), name, kind)
        full = sum(one.state == "dedicated" and not one.missing for one in entries)
        self._complete_gauge.set(full, name)

    def _uncount(self, name: str) -> None:
        # What stood there when the pool went would be told for ever.
        for kept in _STATES:
            self._nodes_gauge.remove(name, kept)
        for kind in _KINDS:
            self._wrong_gauge.remove(name, kind)
        self._complete_gauge.remove(name)
