"""Keep the RuleStatus of each namespace, and the labels and annotations that rules keep on objects.

Admission does the same to whatever is written, so objects are gone through only when what they
shall carry has changed, and once more a little later: a replica that had not heard of the change
may have let something through meanwhile. What is kept is on record in the RuleStatus before any
object is touched, so that it can be taken away again by whoever comes after a crash. That all were
gone through is on record as well, so that a new leader does not begin from the start.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tenantry.api import meta, resources
from tenantry.api.capsule import constants, tenant
from tenantry.api.capsule import resources as capsule
from tenantry.core import clock
from tenantry.directory import state as directory
from tenantry.kube import discovery, errors, reads
from tenantry.runtime import apply, cluster, controller, informer, permissions, store, views
from tenantry.tenancy import markings, rule_status, state, status
from tenantry.tenancy.controllers import namespaces
from tenantry.tenancy.policy import compiling

Object = dict[str, Any]
Parts = dict[str, dict[str, str]]

logger = logging.getLogger(__name__)

#: Kinds whose objects can be marked without further ado. For another one, an administrator adds a
#: ClusterRole with the label of aggregation to the controller.
MARKED = (
    resources.CONFIG_MAPS,
    resources.CRON_JOBS,
    resources.DAEMON_SETS,
    resources.DEPLOYMENTS,
    resources.ENDPOINTS,
    resources.ENDPOINT_SLICES,
    resources.INGRESSES,
    resources.JOBS,
    resources.PERSISTENT_VOLUME_CLAIMS,
    resources.PODS,
    resources.REPLICA_SETS,
    resources.SERVICES,
    resources.STATEFUL_SETS,
)

NEEDS = (
    permissions.Need(capsule.RULE_STATUSES, (*permissions.READ, *permissions.APPLY, "delete")),
    permissions.Need(capsule.RULE_STATUSES, ("patch",), subresource="status"),
    *(permissions.Need(resource, ("list", "patch")) for resource in MARKED),
)

#: Seconds until objects are gone through once more.
AGAIN = 5.0
#: Seconds until somebody looks again for a kind that the cluster does not have.
LOOK = 60.0
_ROUNDS = 2
_PAGE = 500

FORBIDDEN = (
    f"to let rules keep metadata of {{what}}, give a ClusterRole with the verbs list and patch the "
    f"label {constants.AGGREGATE_LABEL}={constants.TRUE}: {{problem}}"
)
UNKNOWN = "kinds: Invalid value: {kind!r}: the cluster has no such namespaced kind in group {group}"


@dataclass(frozen=True, slots=True)
class _Rounds:
    """How often a namespace's objects were gone through, for which marks, and when last."""

    kept: tuple[markings.Marks, ...]
    wanted: markings.Marks
    number: int
    at: float


class RuleController:
    """Reconciles one namespace by name."""

    def __init__(
        self,
        source: cluster.Cluster,
        known: state.State,
        *,
        again: float = AGAIN,
        now: clock.Clock = clock.wall,
    ) -> None:
        """Build the controller.

        :param again: seconds until objects are gone through a second time
        """
        self._client = source.client
        self._known = known
        self._now = now
        self._again = again
        self._book = compiling.Book()
        self._applier = apply.Applier(source.client, constants.FIELD_MANAGER, timing=source.timing)
        self._timing = source.timing
        self._rounds: dict[str, _Rounds] = {}
        self._kinds = _Kinds(source)
        self._observed: informer.Informer[bytes] = source.informer(
            capsule.RULE_STATUSES, views.as_bytes, label_selector=state.MANAGED_SELECTOR
        )
        self.controller: controller.Controller[str] = (
            controller.Controller(
                "rulestatus",
                self.reconcile,
                concurrency=4,
                timing=source.timing,
                registry=source.metrics,
            )
            .watches(known.namespaces, self._of_namespace)
            .watches(known.tenants, known.namespaces_of_tenant)
            .watches(self._observed, lambda event: [event.key[0]], debounce=source.timing.debounce)
        )

    def _of_namespace(self, event: store.Event[directory.NamespaceView]) -> list[str]:
        if event.new is None:
            self._rounds.pop(event.key[1], None)
            self._book.namespace_gone(event.key[1])
        return [event.key[1]]

    async def reconcile(self, name: str) -> controller.Result | None:
        """Make a namespace's RuleStatus and the metadata of its objects as its tenant says."""
        view = self._known.directory.namespace(name)
        raw = self._observed.get(constants.RULE_STATUS_NAME, name)
        observed: Object | None = msgspec.json.decode(raw) if raw is not None else None
        if view is None or view.terminating:
            return None
        owner = self._known.directory.tenant_named(view.tenant or "")
        if owner is not None and owner.metadata.uid != view.tenant_uid:
            return None  # Whose it is, an administrator must say first.
        try:
            if owner is not None and rule_status.is_needed(owner):
                return await self._keep(owner, view, observed)
            return await self._clear(view, observed) if observed is not None else None
        except errors.KubeError as problem:
            if namespaces.is_going(problem):
                return None
            raise

    async def _keep(
        self, owner: tenant.Tenant, view: directory.NamespaceView, observed: Object | None
    ) -> controller.Result | None:
        stored = self._known.tenants.get(owner.metadata.name)
        spec = msgspec.json.decode(stored.raw).get("spec") or {} if stored is not None else {}
        filled = rule_status.filled(owner, spec, view)
        wanted = markings.wanted(self._book.of(owner, view))
        record = markings.on_record(wanted, rule_status.record_of(observed), view.uid)
        settled = markings.settled(wanted, view.uid)
        written = await self._write(owner, view, filled.rules, record, observed)
        problems, more = await self._pass(view.name, record, wanted)
        if not problems and not more and record != settled:
            # All carry what they shall, and nothing of what was kept before.
            written = await self._write(owner, view, filled.rules, settled, written)
        told = [one for one in (filled.problem, *problems) if one]
        await self._tell(view.name, filled.rules, "; ".join(told), written)
        if problems:
            return controller.Result(requeue_after=LOOK)
        return controller.Result(requeue_after=self._again) if more else None

    async def _write(
        self,
        owner: tenant.Tenant,
        view: directory.NamespaceView,
        rules: list[Object],
        record: markings.Record,
        observed: Object | None,
    ) -> Object:
        desired = rule_status.desired(owner, view.name, rules, record)
        outcome = await self._applier.apply(capsule.RULE_STATUSES, desired, observed)
        return outcome.object

    async def _tell(
        self, namespace: str, rules: list[Object], problem: str, observed: Object
    ) -> None:
        before = (observed.get("status") or {}).get("conditions") or []
        generation = observed["metadata"].get("generation") or 0
        conditions = status.ready_only(
            msgspec.convert(before, list[meta.Condition]), problem, generation, self._now()
        )
        desired = {
            "apiVersion": constants.API_VERSION,
            "kind": capsule.RULE_STATUSES.kind,
            "metadata": {"name": constants.RULE_STATUS_NAME, "namespace": namespace},
            "status": {
                "conditions": conditions,
                "observedGeneration": generation,
                **({"rules": rules} if rules else {}),
            },
        }
        await self._applier.apply_status(capsule.RULE_STATUSES, desired, observed)

    async def _clear(
        self, view: directory.NamespaceView, observed: Object
    ) -> controller.Result | None:
        """Take away what was kept in a namespace where nothing is any more."""
        record = markings.on_record({}, rule_status.record_of(observed), view.uid)
        problems, more = await self._pass(view.name, record, {})
        if problems:
            logger.warning("marks_remain", extra={"namespace": view.name, "why": problems[0]})
            return controller.Result(requeue_after=LOOK)
        if more:
            return controller.Result(requeue_after=self._again)
        key = (view.name, constants.RULE_STATUS_NAME)
        await self._applier.delete(
            capsule.RULE_STATUSES, key, uid=observed["metadata"].get("uid") or ""
        )
        return None

    # ---- the objects ------------------------------------------------------------------------

    async def _pass(
        self, namespace: str, record: markings.Record, wanted: markings.Marks
    ) -> tuple[list[str], bool]:
        """Go through the objects if need be; return problems, and whether to do so once more."""
        kept = record.kept
        if record.passed or not kept:
            self._rounds.pop(namespace, None)
            return [], False
        done = self._rounds.get(namespace)
        if done is None or (done.kept, done.wanted) != (kept, wanted):
            done = _Rounds(kept, wanted, 0, 0.0)
        if done.number >= _ROUNDS:
            return [], False
        if done.number and clock.monotonic() - done.at < self._again:
            return [], True
        problems = []
        for group, kind in sorted({place for marks in kept for place in marks}):
            found = await self._kinds.find(group, kind)
            if not found:
                problems.append(UNKNOWN.format(kind=kind, group=group or "(core)"))
            for resource in found:
                old = [markings.by_place(marks, resource.group, kind) for marks in kept]
                new = markings.by_place(wanted, resource.group, kind)
                try:
                    await self._go_through(resource, namespace, old, new)
                except errors.Forbidden as problem:
                    what = resource.group_resource
                    problems.append(FORBIDDEN.format(what=what, problem=problem.message))
        if not problems:
            done = _Rounds(kept, wanted, done.number + 1, clock.monotonic())
            self._rounds[namespace] = done
        return problems, done.number < _ROUNDS

    async def _go_through(
        self,
        resource: resources.Resource,
        namespace: str,
        before: Sequence[Parts],
        wanted: Parts,
    ) -> None:
        listed = await self._client.list(
            resource, namespace, limit=_PAGE, accept=reads.METADATA_LIST, timeout=self._timing.write
        )
        for raw in listed.items:
            obj = msgspec.json.decode(raw)
            if markings.is_let_be(obj):
                continue
            name = obj["metadata"]["name"]
            try:
                await self._put_right(resource, namespace, name, obj, before, wanted)
            except (errors.NotFound, errors.Conflict):
                continue  # It is gone.
            except errors.Invalid as problem:
                # Somebody changed just that key, or a webhook of others minds.
                logger.info("mark_refused", extra={"object": name, "why": str(problem)})

    async def _put_right(  # noqa: PLR0917 - one object, what it was to carry, what it shall
        self,
        resource: resources.Resource,
        namespace: str,
        name: str,
        obj: Object,
        before: Sequence[Parts],
        wanted: Parts,
    ) -> None:
        gone = markings.leftover(obj, before, wanted)
        if gone:
            await self._applier.patch_json(resource, (namespace, name), gone)
        lacking = markings.lacking(obj, wanted)
        if lacking:
            body: Object = {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    # Else one deleted meanwhile would be made anew.
                    "uid": obj["metadata"]["uid"],
                    **lacking,
                },
            }
            await self._client.apply(
                resource,
                body,
                field_manager=rule_status.manager(namespace),
                force=True,
                timeout=self._timing.write,
            )


class _Kinds:
    """Where kinds live that rules name; asked for anew when one is not known."""

    def __init__(self, source: cluster.Cluster) -> None:
        self._client = source.client
        self._served: list[resources.Resource] = list(MARKED)
        self._asked = float("-inf")

    async def find(self, group: str, kind: str) -> list[resources.Resource]:
        """Return the resources of a kind, of one group or ("*") of any."""
        found = self._of(group, kind)
        if (not found or group == "*") and clock.monotonic() - self._asked > LOOK:
            self._served = [
                one.resource
                for one in (await discovery.discover(self._client)).served
                if one.preferred and {"list", "patch"} <= set(one.verbs)
            ]
            self._asked = clock.monotonic()
            found = self._of(group, kind)
        return found

    def _of(self, group: str, kind: str) -> list[resources.Resource]:
        return [
            one
            for one in self._served
            if one.kind == kind and one.namespaced and group in {"*", one.group}
        ]
