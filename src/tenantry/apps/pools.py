"""The part of the controller role that keeps pools of nodes."""

from __future__ import annotations

from collections.abc import Callable

from tenantry.api.tenantry import node_pool
from tenantry.directory import state as directory
from tenantry.nodes import state
from tenantry.nodes.controllers import daemonsets, nodes, pools
from tenantry.runtime import events, manager, store
from tenantry.tenancy import state as tenancy

NEEDS = (*state.NEEDS, *nodes.NEEDS, *pools.NEEDS, *daemonsets.NEEDS)


def add(
    part: manager.Manager,
    tenants: tenancy.State,
    recorder: events.Recorder,
    *,
    namespace_changed: Callable[[str], None],
) -> None:
    """Add the controllers of pools to a process.

    :param namespace_changed: called with each namespace whose node selector may be another now
    """
    source = part.cluster
    known = state.State(source, tenants.directory)
    pool = pools.PoolController(source, known, recorder)
    node = nodes.NodeController(source, known, on_outcome=pool.note)
    pool.on_called = node.controller.enqueue

    def all_again() -> None:
        node.look_again()
        for one in known.pools.list():
            pool.note(one.metadata.name)

    def tenant_changed(event: store.Event[tenancy.TenantView]) -> None:
        # That one comes or goes matters, nothing else of it.
        if event.old is None or event.new is None:
            all_again()

    def namespace_moved(event: store.Event[directory.NamespaceView]) -> None:
        before = event.old.tenant if event.old is not None else None
        after = event.new.tenant if event.new is not None else None
        if before != after and len(known.pools):
            all_again()

    def pool_changed(event: store.Event[node_pool.TenantNodePool]) -> None:
        if not state.specified(event):
            return
        for one in (event.old, event.new):
            if one is not None:
                for view in tenants.directory.namespaces_of(one.spec.tenant):
                    namespace_changed(view.name)

    tenants.tenants.subscribe(tenant_changed)
    tenants.namespaces.subscribe(namespace_moved)
    known.pools.subscribe(pool_changed)
    for built in (node.controller, pool.controller):
        part.add_controller(built)
    part.add_controller(daemonsets.DaemonSetController(source, known).controller)
