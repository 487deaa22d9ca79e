"""Keep repaired DaemonSets repaired, also after an upgrade of theirs."""

from __future__ import annotations

from collections.abc import Iterable

from tenantry.api import resources
from tenantry.api.tenantry import constants, node_pool
from tenantry.kube import errors
from tenantry.nodes import daemonsets, repair, state, taints
from tenantry.runtime import apply, cluster, controller, permissions, store

NEEDS = (permissions.Need(resources.DAEMON_SETS, ("patch",)),)

Key = tuple[str, str]


class DaemonSetController:
    """Reconciles one DaemonSet by namespace and name."""

    def __init__(self, source: cluster.Cluster, known: state.State) -> None:
        self._known = known
        self._applier = apply.Applier(source.client, constants.NODES_MANAGER, timing=source.timing)
        self.controller: controller.Controller[Key] = (
            controller.Controller(
                "daemonset", self.reconcile, timing=source.timing, registry=source.metrics
            )
            .watches(known.daemon_sets, _changed, debounce=source.timing.debounce)
            .watches(known.pools, self._all, debounce=source.timing.debounce)
        )

    def _all(self, event: store.Event[node_pool.TenantNodePool]) -> Iterable[Key]:
        if event.old is not None and event.new is not None and event.old.spec == event.new.spec:
            return ()
        return [(one.namespace, one.name) for one in self._known.daemon_sets.list()]

    async def reconcile(self, key: Key) -> None:
        """Append what is missing, where the platform's people said so."""
        found = self._known.daemon_sets.get(key[1], key[0])
        if found is None:
            return
        pools = [pool for pool in self._known.pools.list() if pool.spec.mode != "shared"]
        healed = constants.REPAIR_ANNOTATION in found.annotations
        allow = {entry for pool in pools for entry in pool.spec.repair.allow}
        if not healed and not repair.allowed(found, allow):
            return
        decided = repair.plan(
            found,
            needed=needed(pools),
            tenant=self._known.index.tenant_of(found.namespace),
            allow={*allow, *([found.key] if healed else ())},
            # Somebody said once that it shall be patched whoever else writes it.
            anyway=healed,
        )
        if decided.action != "patch":
            return
        try:
            await self._applier.patch_json(resources.DAEMON_SETS, key, list(decided.operations))
        except errors.NotFound:
            return
        except errors.Invalid as problem:
            raise errors.Conflict(problem.code, problem.reason, problem.message) from problem


def needed(pools: Iterable[node_pool.TenantNodePool]) -> list[taints.Taint]:
    """Return the taints of the nodes of these pools; pure."""
    return [
        taints.Taint(pool.spec.taint_key, pool.spec.tenant, effect)
        for pool in pools
        for effect in (taints.HARD if pool.spec.no_execute else taints.HARD[:1])
    ]


def _changed(event: store.Event[daemonsets.View]) -> list[Key]:
    before, after = event.old, event.new
    if before is not None and after is not None:
        if before.template == after.template and before.annotations == after.annotations:
            return []
    return [event.key]
