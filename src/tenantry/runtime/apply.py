"""Writes: server-side apply that sends only differences, status, pruning, take-over, finalizers.

`Applier` belongs to one controller and one field manager. Nothing is sent when the cached object
already has, owned by us, exactly what is wanted, so a settled controller is silent. A write either
returns (applied), raises the API server's refusal (rejected), or raises `OutcomeUnknown`; then the
next reconcile finds out, and since apply is idempotent it may simply be repeated.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from tenantry.api import resources
from tenantry.kube import client as kube_client
from tenantry.kube import errors as kube_errors
from tenantry.runtime import fields, jsonpatch, store
from tenantry.runtime import timing as timings

differs = fields.differs
adopt_fields = fields.adopt_fields

#: How many answers of "nothing changed" an applier remembers.
_REMEMBERED = 4096


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What a write came to: whether anything was sent, and the object as it is now."""

    sent: bool
    object: dict[str, Any]


def key_of(obj: Mapping[str, Any]) -> store.Key:
    """Return an object's key."""
    metadata = obj.get("metadata") or {}
    return metadata.get("namespace") or "", metadata.get("name") or ""


class Applier:
    """Write as one field manager."""

    def __init__(
        self,
        client: kube_client.Client,
        field_manager: str,
        *,
        timing: timings.Timing | None = None,
    ) -> None:
        self._client = client
        self._manager = field_manager
        # A leader's write must not outlive its lease (see `Timing`).
        self._deadline = (timing or timings.Timing()).write
        # (resource, subresource, key) -> what was sent, the version looked at, the version made.
        self._settled: collections.OrderedDict[Any, tuple[bytes, str, str]] = (
            collections.OrderedDict()
        )
        #: Requests sent and avoided, for metrics and tests.
        self.sent = 0
        self.skipped = 0

    @property
    def field_manager(self) -> str:
        """The name under which fields are owned."""
        return self._manager

    async def apply(
        self,
        resource: resources.Resource,
        desired: dict[str, Any],
        observed: Mapping[str, Any] | None,
        *,
        force: bool = True,
    ) -> Outcome:
        """Make the object have what `desired` says; `observed` is the cached one or None."""
        return await self._apply(resource, desired, observed, subresource="", force=force)

    async def apply_status(
        self,
        resource: resources.Resource,
        desired: dict[str, Any],
        observed: Mapping[str, Any] | None,
    ) -> Outcome:
        """Make the status be what `desired` says: identity and `status`, nothing else."""
        return await self._apply(resource, desired, observed, subresource="status", force=True)

    async def _apply(
        self,
        resource: resources.Resource,
        desired: dict[str, Any],
        observed: Mapping[str, Any] | None,
        *,
        subresource: str,
        force: bool,
    ) -> Outcome:
        version = ""
        if observed is not None:
            if not fields.differs(desired, observed, self._manager, subresource=subresource):
                self.skipped += 1
                return Outcome(sent=False, object=dict(observed))
            version = (observed.get("metadata") or {}).get("resourceVersion") or ""
        place = (resource, subresource, key_of(desired))
        encoded = msgspec.json.encode(desired, order="deterministic")
        known = self._settled.get(place)
        if observed is not None and known is not None and known[0] == encoded:
            # At the version made, a difference can only be the server's other words for the same
            # thing ("1000m", "1"). At the version looked at, the cache has not yet seen our write;
            # it will, and that is an event.
            if version and version in known[1:]:
                self.skipped += 1
                return Outcome(sent=False, object=dict(observed))
        self.sent += 1
        result = await self._client.apply(
            resource,
            desired,
            field_manager=self._manager,
            force=force,
            subresource=subresource,
            timeout=self._deadline,
        )
        after = (result.get("metadata") or {}).get("resourceVersion") or ""
        self._settled[place] = (encoded, version, after)
        self._settled.move_to_end(place)
        if len(self._settled) > _REMEMBERED:
            self._settled.popitem(last=False)
        return Outcome(sent=True, object=result)

    async def prune(
        self,
        resource: resources.Resource,
        observed: Iterable[Mapping[str, Any]],
        keep: Collection[store.Key],
    ) -> list[store.Key]:
        """Delete the observed objects that are not to be kept; only these very ones (uid)."""
        pruned: list[store.Key] = []
        for obj in observed:
            key = key_of(obj)
            metadata = obj.get("metadata") or {}
            if key in keep or metadata.get("deletionTimestamp"):
                continue
            await self.delete(resource, key, uid=metadata.get("uid") or "")
            pruned.append(key)
        return pruned

    async def delete(self, resource: resources.Resource, key: store.Key, *, uid: str = "") -> None:
        """Delete one object; that it is gone already, or another of that name, is no error."""
        self.sent += 1
        with contextlib.suppress(kube_errors.NotFound, kube_errors.Conflict):
            await self._client.delete(resource, key[1], key[0], uid=uid, timeout=self._deadline)

    async def patch_json(
        self,
        resource: resources.Resource,
        key: store.Key,
        operations: list[jsonpatch.Operation],
        *,
        subresource: str = "",
    ) -> dict[str, Any]:
        """Send a JSON patch; for finalizers, atomic lists of other owners and key removal."""
        self.sent += 1
        return await self._client.patch(
            resource,
            key[1],
            key[0],
            kind="json",
            body=operations,
            subresource=subresource,
            field_manager=self._manager,
            timeout=self._deadline,
        )

    async def adopt(
        self,
        resource: resources.Resource,
        observed: Mapping[str, Any],
        from_managers: Collection[str],
        *,
        subresource: str = "",
    ) -> bool:
        """Take over the fields of the product that managed this object before us."""
        adopted = fields.adopt_fields(
            observed, from_managers, self._manager, subresource=subresource
        )
        if adopted is None:
            return False
        metadata = observed.get("metadata") or {}
        await self.patch_json(
            resource,
            key_of(observed),
            [
                {
                    "op": "test",
                    "path": "/metadata/resourceVersion",
                    "value": metadata.get("resourceVersion"),
                },
                {"op": "replace", "path": "/metadata/managedFields", "value": adopted},
            ],
        )
        return True

    async def add_finalizer(
        self, resource: resources.Resource, observed: Mapping[str, Any], finalizer: str
    ) -> bool:
        """Add a finalizer, before the first side effect; tell whether it was missing."""
        operations = finalizer_patch(observed, finalizer, present=True)
        if operations:
            await self.patch_json(resource, key_of(observed), operations)
        return bool(operations)

    async def remove_finalizer(
        self, resource: resources.Resource, observed: Mapping[str, Any], finalizer: str
    ) -> bool:
        """Remove a finalizer, after the last side effect; tell whether it was there."""
        operations = finalizer_patch(observed, finalizer, present=False)
        if not operations:
            return False
        try:
            await self.patch_json(resource, key_of(observed), operations)
        except kube_errors.NotFound:
            return False
        return True


def finalizer_patch(
    observed: Mapping[str, Any], finalizer: str, *, present: bool
) -> list[jsonpatch.Operation]:
    """Return the JSON patch that adds or removes one finalizer, guarded by a test; pure."""
    metadata = observed.get("metadata") or {}
    finalizers: list[str] = list(metadata.get("finalizers") or ())
    if (finalizer in finalizers) == present:
        return []
    guard: jsonpatch.Operation = {"op": "test", "path": "/metadata/uid", "value": metadata["uid"]}
    if not present:
        index = finalizers.index(finalizer)
        path = f"/metadata/finalizers/{index}"
        return [
            guard,
            {"op": "test", "path": path, "value": finalizer},
            {"op": "remove", "path": path},
        ]
    if finalizers:
        whole = {"op": "test", "path": "/metadata/finalizers", "value": finalizers}
        return [guard, whole, {"op": "add", "path": "/metadata/finalizers/-", "value": finalizer}]
    # `add` would overwrite a list that somebody else has made meanwhile.
    version = {
        "op": "test",
        "path": "/metadata/resourceVersion",
        "value": metadata["resourceVersion"],
    }
    return [guard, version, {"op": "add", "path": "/metadata/finalizers", "value": [finalizer]}]
