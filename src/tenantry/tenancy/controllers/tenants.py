"""Keep a tenant's status and finalizer, and take it down when it is deleted.

The unit of work is one tenant, but only its own object: namespaces are reconciled one by one
beside this, and their outcomes are gathered here, debounced.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from tenantry.api import resources
from tenantry.api.capsule import constants, tenant
from tenantry.api.capsule import resources as capsule
from tenantry.core import clock
from tenantry.directory import state as directory
from tenantry.runtime import apply, cluster, controller, events, permissions, store
from tenantry.tenancy import gathering, promotions, state, status, stripping, takeover

logger = logging.getLogger(__name__)

#: Seconds between two looks at the namespaces of a tenant that is being deleted.
DELETION_POLL = 2.0

#: Seconds that a new namespace gets to be looked at before its tenant is said not to be ready.
PENDING_GRACE = 1.0

#: How many times the usual debounce a tenant waits for more news of its namespaces: who makes one
#: often makes some, and each report is a write.
GATHERED = 5


NEEDS = (
    permissions.Need(capsule.TENANTS, ("patch",)),
    permissions.Need(capsule.TENANTS, ("patch",), subresource="status"),
    permissions.Need(resources.NAMESPACES, ("delete",)),
    permissions.Need(resources.PODS, ("list",)),
    permissions.Need(resources.EVENTS, permissions.APPLY),
)


class TenantController:
    """Reconciles one tenant by name."""

    def __init__(
        self,
        source: cluster.Cluster,
        known: state.State,
        recorder: events.Recorder,
        *,
        classes: Callable[[tenant.Tenant], Mapping[str, Sequence[str]]] = lambda _: {},
        concurrency: int = 4,
        now: clock.Clock = clock.wall,
        elapsed: clock.Clock = clock.monotonic,
    ) -> None:
        self._known = known
        self._recorder = recorder
        self._classes = classes
        self._client = source.client
        self._debounce = source.timing.debounce
        self._deadline = source.timing.write
        self._now = now
        self._elapsed = elapsed
        self._applier = apply.Applier(source.client, constants.FIELD_MANAGER, timing=source.timing)
        self._waiting: dict[str, str] = {}
        self._waits = stripping.Waits(elapsed)
        self._stripper = stripping.Stripper(
            source.client,
            constants.FIELD_MANAGER,
            deadline=self._deadline,
            tell=lambda event, about: logger.warning(event, extra=dict(about)),
        )
        #: Tenant -> since when one of its namespaces was not looked at.
        self._pending: dict[str, float] = {}
        self._gathering = gathering.Gathering(2 * GATHERED * self._debounce, elapsed())
        self.controller: controller.Controller[str] = (
            controller.Controller(
                "tenant",
                self.reconcile,
                concurrency=concurrency,
                timing=source.timing,
                registry=source.metrics,
            )
            .watches(known.tenants, lambda event: [event.key[1]] if _is_urgent(event) else [])
            # Status and finalizer are mostly our own writes; what else arrives is gathered. Of what
            # a new leader finds, the namespaces are looked at first, and reported with it.
            .watches(
                known.tenants,
                lambda event: [] if _is_urgent(event) else [event.key[1]],
                debounce=GATHERED * self._debounce,
            )
            # The finalizer comes at once: without it a tenant could go before its namespaces.
            .watches(known.namespaces, self._unheld)
            .watches(
                known.namespaces, known.tenants_of_namespace, debounce=GATHERED * self._debounce
            )
            .watches(known.tenant_owners, known.tenants_of_owner, debounce=self._debounce)
            .watches(known.configurations, known.tenants_of_configuration, debounce=self._debounce)
            .watches(known.promotions, self._of_promotion, debounce=self._debounce)
            .watches(known.promoted, self._of_promotion, debounce=self._debounce)
        )

    def _unheld(self, event: store.Event[directory.NamespaceView]) -> list[str]:
        """Return the tenant of a namespace while nothing keeps it from going before it."""
        name = event.new.tenant if event.new is not None else None
        view = self._known.tenants.get(name) if name is not None else None
        if name is None or view is None:
            return []
        return [] if constants.FINALIZER in view.tenant.metadata.finalizers else [name]

    def _of_promotion(self, event: store.Event[Any]) -> list[str]:
        name = self._known.directory.tenant_of(event.key[0])
        return [name] if name is not None else []

    def note(self, name: str) -> None:
        """Look at a tenant again soon: the outcome of one of its namespaces changed."""
        self.controller.enqueue(name, after=GATHERED * self._debounce)

    async def reconcile(self, name: str) -> controller.Result | None:
        """Bring one tenant's own object up to date."""
        view = self._known.tenants.get(name)
        if view is None:
            self._pending.pop(name, None)
            self._gathering.forget(name)
            return None
        observed = msgspec.json.decode(view.raw)
        members = self._known.directory.namespaces_of(name)
        deleting = view.tenant.metadata.deletion_timestamp is not None
        held = ""
        if deleting and not members:
            # The cache may be behind; what is still there would lose its tenant for ever.
            listed = await self._client.list(
                resources.NAMESPACES, label_selector=f"{constants.TENANT_LABEL}={name}"
            )
            found = [directory.namespace_view(raw) for raw in listed.items]
            if not found:
                await self._applier.remove_finalizer(capsule.TENANTS, observed, constants.FINALIZER)
                return None
            held = status.held(name, [one.name for one in found if one.tenant is None])
        elif deleting:
            await self._take_down(view.tenant, members)
        elif members:
            await self._applier.add_finalizer(capsule.TENANTS, observed, constants.FINALIZER)
        else:
            await self._applier.remove_finalizer(capsule.TENANTS, observed, constants.FINALIZER)
        await self._name(view)
        spaces = self._spaces(view, members)
        grace = self._grace(name, spaces)
        if grace > 0 and not deleting:
            # Its controller tells when it has looked, which is usually at once.
            return controller.Result(requeue_after=grace)
        report = self._report(view, observed, spaces, held)
        if takeover.is_settled(report, observed, subresource="status"):
            # Nothing to gather; a new leader finds most tenants so.
            self._gathering.forget(name)
            return controller.Result(requeue_after=DELETION_POLL) if deleting else None
        patience = 0.0 if deleting else self._gathering.patience(name, self._elapsed())
        if patience > 0:
            return controller.Result(requeue_after=patience)
        await takeover.adopt(self._applier, capsule.TENANTS, observed, subresource="status")
        done = await self._applier.apply_status(capsule.TENANTS, report, observed)
        if done.sent:
            self._tell(view.tenant, report["status"])
        return controller.Result(requeue_after=DELETION_POLL) if deleting else None

    async def _name(self, view: state.TenantView) -> None:
        """Let selectors find a tenant by its name, also one that no webhook has seen."""
        name = view.tenant.metadata.name
        if view.tenant.metadata.labels.get(constants.NAME_LABEL) == name:
            return
        body = {"metadata": {"labels": {constants.NAME_LABEL: name}}}
        await self._client.patch(
            capsule.TENANTS,
            name,
            kind="merge",
            body=body,
            field_manager=constants.FIELD_MANAGER,
            timeout=self._deadline,
        )

    def _grace(self, name: str, spaces: list[status.Space]) -> float:
        """Return for how long the report of a tenant can wait."""
        if not any(space.pending for space in spaces):
            self._pending.pop(name, None)
            return 0.0
        now = self._elapsed()
        return self._pending.setdefault(name, now) + PENDING_GRACE - now

    async def _take_down(
        self, owner: tenant.Tenant, members: list[directory.NamespaceView]
    ) -> None:
        """Delete the namespaces and find out what each still waits for."""
        for member in members:
            if not member.terminating:
                await self._applier.delete(resources.NAMESPACES, ("", member.name), uid=member.uid)
            pods = await self._client.list(resources.PODS, member.name, limit=1)
            waiting = status.WAITING_FOR_PODS if pods.items else status.WAITING_FOR_NAMESPACE
            if not stripping.asked_for(owner):
                self._waiting[member.name] = waiting
            elif self._waits.due(member.name, pods=bool(pods.items)):
                self._waiting[member.name] = waiting + await self._stripper.strip(member.name)
            elif pods.items or not self._waiting.get(member.name, "").startswith(waiting):
                self._waiting[member.name] = waiting

    def _spaces(
        self, view: state.TenantView, members: list[directory.NamespaceView]
    ) -> list[status.Space]:
        """Return what is known of each namespace."""
        known = self._known
        spaces = []
        before = {space.uid: space for space in view.tenant.status.spaces}
        for member in members:
            space = known.spaces.get(member.name)
            if space is None or space.uid != member.uid:
                # Not reconciled yet: its controller tells when it is, and this runs again.
                cordoned = member.labels.get(constants.CORDONED_LABEL) == constants.TRUE
                entry = before.get(member.uid) or tenant.Space(name=member.name, uid=member.uid)
                space = status.remembered(entry, cordoned=cordoned)
            waiting = self._waiting.get(member.name, "") if member.terminating else ""
            spaces.append(dataclasses.replace(space, waiting=waiting))
        for gone in [n for n in self._waiting if known.directory.namespace(n) is None]:
            del self._waiting[gone]
            self._waits.forget(gone)
        return spaces

    def _report(
        self,
        view: state.TenantView,
        observed: dict[str, object],
        spaces: list[status.Space],
        error: str,
    ) -> dict[str, Any]:
        """Return the tenant with the status that it is to have."""
        raw_spec = observed.get("spec")
        wanted = status.desired(
            view.tenant,
            spec=raw_spec if isinstance(raw_spec, dict) else {},
            entries=self._known.directory.owners_of(view.tenant),
            spaces=spaces,
            error=error,
            classes=self._classes(view.tenant),
            promoted=promotions.reported(self._known.grants(view.tenant)),
            now=self._now(),
        )
        return {
            "apiVersion": constants.API_VERSION,
            "kind": capsule.TENANTS.kind,
            "metadata": {"name": view.tenant.metadata.name},
            "status": wanted,
        }

    def _tell(self, before: tenant.Tenant, after: dict[str, Any]) -> None:
        """Tell of a tenant that was frozen, or is free again."""
        was, is_ = before.status.state, after["state"]
        frozen = is_ == constants.CORDONED_REASON
        if was == is_ or not (frozen or was == constants.CORDONED_REASON):
            return
        self._recorder.event(
            {
                "apiVersion": constants.API_VERSION,
                "kind": capsule.TENANTS.kind,
                "name": before.metadata.name,
                "uid": before.metadata.uid,
            },
            "Normal",
            constants.CORDONED_EVENT if frozen else constants.UNCORDONED_EVENT,
            constants.CORDONED_ACTION if frozen else constants.UNCORDONED_ACTION,
            "Tenant has been cordoned" if frozen else "Tenant has been uncordoned",
            labels={constants.MANAGED_TENANT_LABEL: before.metadata.name},
        )


def _is_urgent(event: store.Event[state.TenantView]) -> bool:
    return not event.initial and state.is_news(event)
