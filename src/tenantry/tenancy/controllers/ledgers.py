"""Settle the ledgers of tenants with a namespace quota, so that they end at zero reserved."""

from __future__ import annotations

import msgspec

from tenantry.api.capsule import resources as capsule
from tenantry.core import clock
from tenantry.kube import errors
from tenantry.runtime import cluster, controller, permissions, store
from tenantry.tenancy import reservations, state

#: Seconds that a reservation may stand before somebody looks; its object usually shows at once.
DEBOUNCE = 0.5


NEEDS = (permissions.Need(capsule.QUANTITY_LEDGERS, permissions.READ, own=True),)


class LedgerView(msgspec.Struct, frozen=True, gc=False):
    """What matters of a ledger: whose it is, and whether anything is open."""

    tenant: str
    open: int


def ledger_view(raw: bytes) -> LedgerView:
    """Project one QuantityLedger."""
    found = msgspec.json.decode(raw)
    target = (found.get("spec") or {}).get("targetRef") or {}
    name = target.get("name", "") if target.get("kind") == capsule.TENANTS.kind else ""
    return LedgerView(name, len((found.get("status") or {}).get("reservations") or []))


class LedgerController:
    """Settles one tenant's ledger, by the tenant's name."""

    def __init__(
        self,
        source: cluster.Cluster,
        known: state.State,
        counts: reservations.NamespaceReservations,
        *,
        now: clock.Clock = clock.wall,
    ) -> None:
        self._known = known
        self._counts = counts
        self._now = now
        self._ledgers = source.informer(
            capsule.QUANTITY_LEDGERS, ledger_view, namespace=known.namespace
        )
        self.controller: controller.Controller[str] = controller.Controller(
            "quantityledger", self.reconcile, timing=source.timing, registry=source.metrics
        ).watches(self._ledgers, _open, debounce=DEBOUNCE)

    async def reconcile(self, name: str) -> controller.Result | None:
        """Drop what has been seen; come back when the rest may be dropped."""
        found = self._known.directory.tenant_named(name)
        if found is None:
            return None
        try:
            due = await self._counts.settle(found)
        except errors.Conflict:
            # Somebody reserved meanwhile; that write is an event.
            return controller.Result(requeue_after=DEBOUNCE)
        if due is None:
            return None
        return controller.Result(requeue_after=max(due - self._now(), DEBOUNCE))


def _open(event: store.Event[LedgerView]) -> list[str]:
    view = event.new
    return [view.tenant] if view is not None and view.open and view.tenant else []
