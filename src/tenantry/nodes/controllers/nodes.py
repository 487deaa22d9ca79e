"""Bring each node of a pool one step further, and each node that left one back."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tenantry.api import resources
from tenantry.api.tenantry import constants, node_pool
from tenantry.kube import actions, errors
from tenantry.nodes import claims, lifecycle, occupants, records, state, views
from tenantry.runtime import apply, cluster, controller, permissions, store

#: Seconds until a pod that a disruption budget protects is asked to go once more.
BUDGET_RETRY = 5.0

NEEDS = (
    permissions.Need(resources.NODES, ("patch",)),
    permissions.Need(resources.PODS, ("create",), subresource="eviction"),
)


class NodeController:
    """Reconciles one node by name."""

    def __init__(
        self,
        source: cluster.Cluster,
        known: state.State,
        *,
        on_outcome: Callable[[str], None],
        concurrency: int = 4,
    ) -> None:
        """Build the controller.

        :param on_outcome: called with the name of a pool when one of its nodes got further
        """
        self._known = known
        self._client = source.client
        self._deadline = source.timing.write
        self._on_outcome = on_outcome
        self._applier = apply.Applier(source.client, constants.NODES_MANAGER, timing=source.timing)
        self.controller: controller.Controller[str] = (
            controller.Controller(
                "node",
                self.reconcile,
                concurrency=concurrency,
                timing=source.timing,
                registry=source.metrics,
            )
            .watches(known.nodes, _moved)
            .watches(known.pools, self._of_pool)
            .watches(known.pods, self._of_pod, debounce=source.timing.debounce)
        )

    def _of_pool(self, event: store.Event[node_pool.TenantNodePool]) -> Iterable[str]:
        if not state.specified(event):
            return ()
        tests = [claims.selects(one.spec) for one in (event.old, event.new) if one is not None]
        # A node that the pool no longer selects says itself that it was in it.
        return [
            node.name
            for node in self._known.nodes.list()
            if node.record or any(test(node) for test in tests)
        ]

    def _of_pod(self, event: store.Event[views.PodView]) -> list[str]:
        pods = [pod for pod in (event.old, event.new) if pod is not None]
        return [pod.node for pod in pods if pod.node in self._known.steps]

    def look_again(self) -> None:
        """Look at every node of a pool: a tenant came or went, or a namespace changed hands."""
        self._known.tenants_changed()
        for names in self._known.claims().nodes_of.values():
            for name in names:
                self.controller.enqueue(name)

    async def reconcile(self, name: str) -> controller.Result | None:
        """Make one node as its pool wants it."""
        node = self._known.nodes.get(name)
        if node is None:
            return None
        step = self._step(node)
        if step is None:
            self._known.steps.pop(name, None)
            return None
        if step.operations:
            await self._write(node, step)
        self._note(name, step)
        return await self._evict(step)

    def _step(self, node: views.NodeView) -> lifecycle.Step | None:
        found = self._known.claims()
        pool = self._known.pools.get(found.pool_of.get(node.name, ""))
        if pool is None:
            record = records.read(node)
            if record is not None and (held := found.problems.get(record.pool)) is not None:
                # The pool is there but wrong; what it has stays closed until that is mended.
                if node.name in found.nodes_of.get(record.pool, ()):
                    return lifecycle.Step(
                        pool=record.pool, state="dedicated", reason=held.reason,
                        message=held.message,
                    )  # fmt: skip
            return lifecycle.released(node)
        occupied: occupants.Occupants = self._known.occupants(node.name, pool.spec)
        return lifecycle.advance(node, pool, found=occupied, called=node.name in self._known.called)

    async def _write(self, node: views.NodeView, step: lifecycle.Step) -> None:
        try:
            await self._applier.patch_json(resources.NODES, ("", node.name), list(step.operations))
        except errors.NotFound:
            return  # it went meanwhile
        except errors.Invalid as problem:
            # A `test` that fails: somebody changed the node, and the event about it will come.
            raise errors.Conflict(problem.code, problem.reason, problem.message) from problem

    def _note(self, name: str, step: lifecycle.Step) -> None:
        before = self._known.steps.get(name)
        self._known.steps[name] = step
        if before is None or _told(before) != _told(step):
            for pool in {step.pool, before.pool if before is not None else step.pool}:
                self._on_outcome(pool)

    async def _evict(self, step: lifecycle.Step) -> controller.Result | None:
        held = False
        for pod in step.evict:
            try:
                await actions.evict(
                    self._client, pod.name, pod.namespace, uid=pod.uid, timeout=self._deadline
                )
            except (errors.NotFound, errors.Conflict):
                continue
            except errors.TooManyRequests:
                held = True
        return controller.Result(requeue_after=BUDGET_RETRY) if held else None


def _told(step: lifecycle.Step) -> tuple[str, ...]:
    return step.pool, step.state, step.reason, step.message


def _moved(event: store.Event[views.NodeView]) -> list[str]:
    if event.old is not None and event.new is not None:
        return [event.key[1]] if state.moved(event.old, event.new) else []
    return [event.key[1]]
