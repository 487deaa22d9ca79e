"""Verbs of the Kubernetes API.

A `Client` belongs to who made it and is closed by them (`async with`); `as_user` views share its
connections and need no closing. Reads raise `errors.ApiError` or `errors.Unreachable`; of a write
that raises, `error.outcome` says whether it surely did not happen.

Objects are dicts; `decode` of `get` gives something smaller. `timeout` is in seconds, spans all
tries of a call, and defaults to the client's.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any, Literal, Self

import msgspec

from tenantry.api import resources
from tenantry.core import errors as core_errors
from tenantry.kube import calls, reads, retry, transport
from tenantry.kube import config as configs

Object = dict[str, Any]
PatchKind = Literal["json", "merge", "strategic"]
Propagation = Literal["Background", "Foreground", "Orphan"]

_PATCH_TYPES: dict[str, str] = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
# A YAML type; JSON is YAML.
_APPLY_TYPE = "application/apply-patch+yaml"


class Client(reads.Reads):
    """Speak to one API server as one identity.

    :param connections: at most this many for calls; watches have connections of their own
    :param timeout: seconds per call, all tries included
    :param observer: called after each try, for metrics; must not raise
    :param on_warning: called with each warning of the API server; by default new ones are logged
    """

    def __init__(
        self,
        config: configs.Config,
        *,
        user_agent: str = "",
        connections: int = 64,
        timeout: float = 30.0,
        longest_answer: int = transport.LONGEST_ANSWER,
        policy: retry.Policy | None = None,
        observer: calls.Observer | None = None,
        on_warning: calls.Warn | None = None,
    ) -> None:
        self.config = config
        self._caller = calls.Caller(
            transport.Transport(config, connections=connections, longest_answer=longest_answer),
            impersonate=config.impersonate,
            user_agent=user_agent or default_user_agent(),
            timeout=timeout,
            policy=policy or retry.Policy(),
            observer=observer,
            warn=on_warning,
        )
        self._owner = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; a view has none of its own, so closing it does nothing."""
        if self._owner:
            await self._caller.pools.close()

    def as_user(
        self,
        name: str,
        groups: Sequence[str] = (),
        uid: str = "",
        extra: Mapping[str, Sequence[str]] | None = None,
    ) -> Client:
        """Give a view that impersonates; nothing of this client's own impersonation remains."""
        impersonate = configs.Impersonate(
            user=name,
            groups=tuple(groups),
            uid=uid,
            extra={key: tuple(values) for key, values in (extra or {}).items()},
        )
        view = object.__new__(Client)
        view.config = dataclasses.replace(self.config, impersonate=impersonate)
        view._caller = self._caller.view(impersonate)
        view._owner = False
        return view

    async def create(
        self,
        resource: resources.Resource,
        obj: Mapping[str, Any],
        *,
        subresource: str = "",
        dry_run: bool = False,
        field_manager: str = "",
        effect: retry.Effect | None = None,
        timeout: float | None = None,
    ) -> Object:
        """Create an object in the namespace that its metadata names.

        :param subresource: post `obj` (of a kind of its own, such as Eviction) below the object of
            `resource` that its metadata names
        :param effect: "none" for reviews, which are answered and not stored
        """
        namespace = resources.metadata_of(obj).get("namespace") or ""
        return await self._write(
            "POST",
            resource.path_of(obj, subresource) if subresource else resource.path(namespace),
            _typed(resource, obj),
            query=_options(dry_run, field_manager),
            effect="none" if dry_run else effect,
            timeout=timeout,
        )

    async def apply(
        self,
        resource: resources.Resource,
        obj: Mapping[str, Any],
        *,
        field_manager: str,
        force: bool = True,
        subresource: str = "",
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> Object:
        """Apply server-side: afterwards `field_manager` owns exactly the fields in `obj`.

        :raises Conflict: without `force`, when others own some; `error.fields` lists them
        """
        return await self._write(
            "PATCH",
            resource.path_of(obj, subresource),
            _typed(resource, obj),
            query={**_options(dry_run, field_manager), "force": "true" if force else ""},
            content_type=_APPLY_TYPE,
            effect="none" if dry_run else "repeatable",
            timeout=timeout,
        )

    async def patch(
        self,
        resource: resources.Resource,
        name: str,
        namespace: str = "",
        *,
        kind: PatchKind,
        body: Any,
        subresource: str = "",
        field_manager: str = "",
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> Object:
        """Patch; `body` is a list of operations for "json", else a partial object."""
        return await self._write(
            "PATCH",
            resource.path(namespace, reads.named(name), subresource),
            body,
            query=_options(dry_run, field_manager),
            content_type=_PATCH_TYPES[kind],
            effect="none" if dry_run else None,
            timeout=timeout,
        )

    async def replace(
        self,
        resource: resources.Resource,
        obj: Mapping[str, Any],
        *,
        subresource: str = "",
        field_manager: str = "",
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> Object:
        """Replace the whole object if it still has the resourceVersion in `obj`.

        :raises InvalidValueError: without a resourceVersion, as that would overwrite others' work
        :raises Conflict: when it changed meanwhile
        """
        if not resources.metadata_of(obj).get("resourceVersion"):
            raise core_errors.InvalidValueError(
                "metadata.resourceVersion", "", "a replace needs the version it was read at"
            )
        return await self._write(
            "PUT",
            resource.path_of(obj, subresource),
            _typed(resource, obj),
            query=_options(dry_run, field_manager),
            effect="none" if dry_run else None,
            timeout=timeout,
        )

    async def delete(
        self,
        resource: resources.Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: Propagation = "Background",
        grace_seconds: int | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> Object:
        """Delete one object; gives its last state, or a Status when it is gone at once.

        :param uid: delete only this incarnation
        :param resource_version: delete only if unchanged
        :raises NotFound: when there is none
        :raises Conflict: when a precondition does not hold
        """
        options = _delete_options(
            {"uid": uid, "resourceVersion": resource_version}, propagation, grace_seconds, dry_run
        )
        return await self._write(
            "DELETE",
            resource.path(namespace, reads.named(name)),
            options,
            query={},
            effect="none" if dry_run else None,
            timeout=timeout,
        )

    async def delete_collection(
        self,
        resource: resources.Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        propagation: Propagation = "Background",
        grace_seconds: int | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Delete all that the selectors match, one by one inside the API server.

        It is not atomic: after an error some may be gone. Deleting again is harmless.

        :raises InvalidValueError: without any selector, and for all namespaces at once: too easily
            that is a mistake
        """
        if not (label_selector or field_selector) or (resource.namespaced and not namespace):
            raise core_errors.InvalidValueError(
                "selector",
                label_selector,
                "a selector is needed, and a namespace if the kind has one",
            )
        await self._write(
            "DELETE",
            resource.path(namespace),
            _delete_options({}, propagation, grace_seconds, dry_run),
            query={"labelSelector": label_selector, "fieldSelector": field_selector},
            effect="none" if dry_run else "repeatable",
            timeout=timeout,
        )

    async def _write(
        self,
        method: str,
        path: str,
        body: Any,
        *,
        query: Mapping[str, str],
        content_type: str = reads.JSON,
        effect: retry.Effect | None,
        timeout: float | None,
    ) -> Object:
        response = await self.request(
            method,
            path,
            query=query,
            body=msgspec.json.encode(body),
            content_type=content_type,
            effect=effect,
            timeout=timeout,
        )
        return reads.to_dict(response.body)


def _options(dry_run: bool, field_manager: str) -> dict[str, str]:
    return {"dryRun": "All" if dry_run else "", "fieldManager": field_manager}


def _delete_options(
    preconditions: Mapping[str, str], propagation: str, grace_seconds: int | None, dry_run: bool
) -> Object:
    options: Object = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": propagation,
    }
    if held := {key: value for key, value in preconditions.items() if value}:
        options["preconditions"] = held
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    if dry_run:
        # Beside a body, the server ignores the query of a delete.
        options["dryRun"] = ["All"]
    return options


def _typed(resource: resources.Resource, obj: Mapping[str, Any]) -> Object:
    """Add what the resource implies, so that desired objects need not repeat it."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


@functools.cache
def default_user_agent() -> str:
    """Give "tenantry/<version>"."""
    try:
        return f"tenantry/{metadata.version('tenantry')}"
    except metadata.PackageNotFoundError:  # run from a source tree
        return "tenantry/unknown"
