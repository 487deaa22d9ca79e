"""Give each namespace of a tenant its RoleBindings and metadata.

The unit of work is one namespace. New bindings are written before stale ones go, so that access
never flickers, and they stay for as long as the namespace exists, so that owners can clean up
what blocks its deletion.
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from tenantry.api import resources
from tenantry.api.capsule import constants, tenant
from tenantry.api.capsule import resources as capsule
from tenantry.directory import state as directory
from tenantry.kube import errors
from tenantry.runtime import (
    apply,
    cluster,
    controller,
    informer,
    jsonpatch,
    permissions,
    store,
    versions,
    views,
)
from tenantry.tenancy import (
    bindings,
    metadata,
    promotions,
    rule_status,
    state,
    status,
    takeover,
)
from tenantry.tenancy.policy import keys

Object = dict[str, Any]

STALE_REFERENCE = (
    "its ownerReference names an earlier tenant of that name (uid {found}, now {wanted}); "
    "an administrator can tie it again by removing the ownerReference"
)
NOT_OURS_TO_GIVE = (
    'ClusterRole "{role}" is not one that the controller may hand out; to allow it, label it '
    f"{constants.AGGREGATE_LABEL}={constants.TRUE}: {{problem}}"
)


#: ClusterRoles that tenants get by default. To hand out another, label it for aggregation to the
#: controller (`projectcapsule.dev/aggregate-to-controller`), which then holds what it gives.
HANDED_OUT = (
    "admin",
    constants.DELETER_ROLE,
    constants.PROVISIONER_ROLE,
    "edit",
    "view",
)

NEEDS = (
    permissions.Need(resources.ROLE_BINDINGS, (*permissions.READ, *permissions.APPLY, "delete")),
    permissions.Need(resources.CLUSTER_ROLES, ("bind",), names=HANDED_OUT),
    permissions.Need(resources.NAMESPACES, ("patch",)),
    # Objects that point at their tenant with blockOwnerDeletion.
    permissions.Need(capsule.TENANTS, ("update",), subresource="finalizers"),
)


#: How many earlier states of a tenant are remembered.
FORMER = 8


@dataclass(frozen=True, slots=True)
class Former:
    """What a tenant said, and the resource version at which that ended."""

    until: str
    owner: tenant.Tenant


class NamespaceController:
    """Reconciles one namespace by name."""

    def __init__(
        self,
        source: cluster.Cluster,
        known: state.State,
        *,
        on_outcome: Callable[[str], None],
        concurrency: int = 8,
    ) -> None:
        """Build the controller.

        :param on_outcome: called with the tenant's name when a namespace's outcome changed
        """
        self._on_outcome = on_outcome
        self._known = known
        #: Tenant -> its latest words that do not hold any more.
        self._former: dict[str, collections.deque[Former]] = {}
        self._applier = apply.Applier(source.client, constants.FIELD_MANAGER, timing=source.timing)
        self._bindings: informer.Informer[bytes] = source.informer(
            # Those of Capsule 0.11 say of nobody that he manages them, but have this label, too.
            resources.ROLE_BINDINGS,
            views.as_bytes,
            label_selector=constants.ROLE_BINDING_LABEL,
        )
        self.controller: controller.Controller[str] = (
            controller.Controller(
                "namespace",
                self.reconcile,
                concurrency=concurrency,
                timing=source.timing,
                registry=source.metrics,
            )
            .watches(known.namespaces, lambda event: [event.key[1]])
            .watches(known.tenants, self._told)
            # Mostly our own writes; at once, each would be looked at before the next is seen.
            .watches(self._bindings, lambda event: [event.key[0]], debounce=source.timing.debounce)
            .watches(
                known.tenant_owners, lambda event: known.members(known.tenants_of_owner(event))
            )
            .watches(
                known.configurations,
                lambda event: known.members(known.tenants_of_configuration(event)),
            )
            .watches(known.promotions, lambda event: self._siblings(event.key[0]))
            .watches(known.promoted, lambda event: self._siblings(event.key[0]))
            .watches(known.namespaces, self._relabelled)
        )

    def _told(self, event: store.Event[state.TenantView]) -> Iterable[str]:
        """Return a tenant's namespaces, and remember what it said until now."""
        old, new, name = event.old, event.new, event.key[1]
        if new is None:
            self._former.pop(name, None)
        elif old is not None and state.is_news(event):
            said = Former(event.resource_version, self._known.directory.effective(old.tenant))
            self._former.setdefault(name, collections.deque(maxlen=FORMER)).append(said)
        return self._known.namespaces_of_tenant(event)

    def _relabelled(self, event: store.Event[directory.NamespaceView]) -> list[str]:
        """Return the namespaces where accounts of this one are bound by rules that select it."""
        old, new = event.old, event.new
        same = old is not None and new is not None and old.labels == new.labels
        if same or not self._known.promoted.list(event.key[1]):
            return []
        return self._siblings(event.key[1])

    def _siblings(self, namespace: str) -> list[str]:
        name = self._known.directory.tenant_of(namespace)
        return self._known.members([name]) if name is not None else []

    async def reconcile(self, name: str) -> None:
        """Make one namespace as its tenant wants it."""
        view = self._known.directory.namespace(name)
        owner = self._known.directory.tenant_named(view.tenant or "") if view else None
        if view is None or owner is None or view.tenant is None:
            if view is not None and view.tenant is None:
                await self._prune(name, self._observed(name), {})
            return
        owner = self._known.directory.effective(owner)
        if view.tenant_uid != owner.metadata.uid:
            problem = STALE_REFERENCE.format(found=view.tenant_uid, wanted=owner.metadata.uid)
            self._note(view, owner, error=problem)
            return
        if view.terminating:
            self._note(view, owner)
            return
        problems: list[errors.KubeError] = []
        # One that fails keeps the other from nothing: a revoked owner goes all the same.
        for work in (self._bind, self._label):
            try:
                await work(view, owner)
            except errors.KubeError as problem:
                problems.append(problem)
        if any(is_going(problem) for problem in problems):
            self._note(view, owner)
            return
        told = [*map(str, problems), rule_status.problem(owner, view)]
        self._note(view, owner, error="; ".join(filter(None, told)))
        if problems:
            raise problems[0]

    async def _bind(self, view: directory.NamespaceView, owner: tenant.Tenant) -> None:
        wanted = bindings.desired(
            owner,
            view.name,
            view.labels,
            self._known.directory.owners_of(owner),
            promotions.bindings(self._known.grants(owner), view.name),
        )
        there = self._observed(view.name)
        observed = {found["metadata"]["name"]: found for found in there}
        # Mostly all are in order, which needs no tasks to find out.
        open_ = [
            (binding, found)
            for name, binding in wanted.items()
            if not takeover.is_settled(binding, found := observed.get(name))
        ]
        done = await asyncio.gather(
            *(self._grant(binding, found) for binding, found in open_), return_exceptions=True
        )
        await self._prune(view.name, there, wanted)
        for (binding, _), outcome in zip(open_, done, strict=True):
            if isinstance(outcome, BaseException):
                raise worded(outcome, binding["roleRef"]["name"])

    async def _grant(self, binding: Object, observed: Object | None) -> None:
        """Write one binding; where somebody was first to use its name, ours replaces theirs."""
        name, namespace = binding["metadata"]["name"], binding["metadata"]["namespace"]
        await takeover.adopt(self._applier, resources.ROLE_BINDINGS, observed)
        try:
            await self._applier.apply(resources.ROLE_BINDINGS, binding, observed)
        except errors.Invalid as problem:
            if not squatted(problem):
                raise
            # What a binding grants cannot be changed, and a name says what it grants. Left
            # alone, an owner could keep anybody out of a namespace by using names in advance.
            key = (namespace, name)
            free = [{"op": "add", "path": "/metadata/finalizers", "value": []}]
            found = await self._applier.patch_json(resources.ROLE_BINDINGS, key, free)
            if found["roleRef"] != binding["roleRef"]:
                uid = found["metadata"]["uid"]
                await self._applier.delete(resources.ROLE_BINDINGS, key, uid=uid)
            await self._applier.apply(resources.ROLE_BINDINGS, binding, None)

    def _observed(self, namespace: str) -> list[Object]:
        return [msgspec.json.decode(raw) for raw in self._bindings.list(namespace)]

    async def _prune(
        self, namespace: str, observed: Iterable[Object], wanted: dict[str, Object]
    ) -> None:
        """Delete the bindings we made that are not wanted any more, and only those."""
        ours = [
            one
            for one in observed
            if bindings.is_ours(one["metadata"]["name"], keys.of(one, keys.LABELS))
        ]
        keep = {(namespace, name) for name in wanted}
        await self._applier.prune(resources.ROLE_BINDINGS, ours, keep)

    async def _label(self, view: directory.NamespaceView, owner: tenant.Tenant) -> None:
        observed = msgspec.json.decode(view.raw)
        wanted = metadata.desired(
            owner, view.name, metadata.Metadata(view.labels, view.annotations)
        )
        desired: Object = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": view.name, "labels": dict(wanted.labels)},
        }
        if wanted.annotations:
            desired["metadata"]["annotations"] = dict(wanted.annotations)
        options = owner.spec.namespace_options
        only = options is not None and options.managed_metadata_only
        former = outdated(observed, view.name, self._former.get(owner.metadata.name, ()))
        stale = stale_keys(observed, wanted, recorded(owner, view.name), former, only=only)
        if stale:
            # Whoever created the namespace owns these keys too, by our own mutation of the
            # request, so giving up our share would leave them.
            await self._applier.patch_json(resources.NAMESPACES, ("", view.name), stale)
            return
        await self._applier.apply(resources.NAMESPACES, desired, observed)

    def _note(
        self, view: directory.NamespaceView, owner: tenant.Tenant, *, error: str = ""
    ) -> None:
        found = metadata.Metadata(view.labels, view.annotations)
        outcome = status.Space(
            name=view.name,
            uid=view.uid,
            error=error,
            cordoned=view.labels.get(constants.CORDONED_LABEL) == constants.TRUE,
            managed=metadata.desired(owner, view.name, found),
        )
        if self._known.spaces.get(view.name) != outcome:
            self._known.spaces[view.name] = outcome
            self._on_outcome(owner.metadata.name)


def recorded(owner: tenant.Tenant, namespace: str) -> metadata.Metadata:
    """Return what a tenant's status says that was put on one of its namespaces; pure."""
    entry = next((space for space in owner.status.spaces if space.name == namespace), None)
    if entry is None or entry.metadata is None:
        return metadata.Metadata()
    return metadata.Metadata(entry.metadata.labels, entry.metadata.annotations)


def outdated(observed: Object, namespace: str, said: Iterable[Former]) -> list[metadata.Metadata]:
    """Return what admission may have put on a namespace when it was written last; pure.

    It writes in the name of whoever asks. Where the tenant changed before we came to own what was
    written, no other record of that is left.
    """
    written = observed["metadata"]["resourceVersion"]
    found = metadata.of(observed)
    return [
        metadata.desired(former.owner, namespace, found)
        for former in said
        if versions.older(written, former.until)
    ]


def stale_keys(
    observed: Object,
    wanted: metadata.Metadata,
    before: metadata.Metadata,
    former: Iterable[metadata.Metadata] = (),
    *,
    only: bool = False,
) -> list[jsonpatch.Operation]:
    """Return the patch that removes what was once managed and is no longer wanted; pure.

    :param before: what is on record as managed
    :param former: what may be there without being on record; its values tell it from others'
    :param only: there shall be nothing else, whoever wrote it
    """
    labels, annotations = takeover.managed_keys(observed, before)
    found = metadata.of(observed)
    for past in former:
        labels |= {key for key, _ in past.labels.items() & found.labels.items()}
        annotations |= {key for key, _ in past.annotations.items() & found.annotations.items()}
    if only:
        labels, annotations = set(found.labels), set(found.annotations)
    operations: list[jsonpatch.Operation] = []
    for part, managed, present, keep in (
        ("labels", labels, found.labels, wanted.labels),
        ("annotations", annotations, found.annotations, wanted.annotations),
    ):
        for key in sorted(managed):
            if key in keep or key not in present:
                continue
            path = jsonpatch.pointer("metadata", part, key)
            operations += [
                {"op": "test", "path": path, "value": present[key]},
                {"op": "remove", "path": path},
            ]
    return operations


def worded(problem: BaseException, role: str) -> BaseException:
    """Say of a refused grant which role it was about, and what an administrator can do; pure."""
    if isinstance(problem, errors.Forbidden) and "not currently held" in problem.message:
        message = NOT_OURS_TO_GIVE.format(role=role, problem=problem.message)
        return errors.Forbidden(problem.code, problem.reason, message)
    if isinstance(problem, errors.NotFound) and not is_going(problem):
        message = f'cannot hand out ClusterRole "{role}": {problem.message}'
        return errors.NotFound(problem.code, problem.reason, message, problem.details)
    return problem


def squatted(problem: errors.Invalid) -> bool:
    """Tell whether a binding was refused because one of its name grants another role; pure."""
    return any(cause.field == "roleRef" for cause in problem.causes)


def is_going(problem: errors.KubeError) -> bool:
    """Tell whether a write failed because its namespace is being deleted, which is no failure."""
    if isinstance(problem, errors.NotFound):
        return problem.details.kind == resources.NAMESPACES.plural
    return "because it is being terminated" in str(problem)
