"""Apply objects of any kind in an order in which each finds what it depends on.

Definitions come first, and are waited for; then namespaces; then everything else at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any

from tenantry.api import resources
from tenantry.core import clock
from tenantry.kube import client as clients
from tenantry.kube import discovery, errors

#: Objects in flight at once.
PARALLEL = 16
#: Seconds until what a definition defines must be served; it takes less than one.
SERVED_TIMEOUT = 60.0
_POLL = 0.05
_FIRST = (resources.CRDS, resources.NAMESPACES)
_BUILT_IN = {
    (found.api_version, found.kind): found
    for found in vars(resources).values()
    if isinstance(found, resources.Resource)
}

Object = Mapping[str, Any]
#: apiVersion and kind.
Kind = tuple[str, str]


async def apply(
    client: clients.Client, objects: Sequence[Object], *, field_manager: str
) -> list[resources.Resource]:
    """Apply objects in any order, and return the resource of each.

    Namespaces and service accounts that exist stay as they are.

    :raises NotServed: when the API server does not know a kind, and no given definition defines it
    """
    deadline = clock.monotonic() + SERVED_TIMEOUT
    kinds = [_BUILT_IN.get(_kind(obj)) for obj in objects]
    for first in _FIRST:
        chosen = [obj for obj, kind in zip(objects, kinds, strict=True) if kind == first]
        await in_parallel(_apply(client, first, obj, field_manager) for obj in chosen)
        if first == resources.CRDS:
            await in_parallel(_established(client, obj, deadline) for obj in chosen)
    served: Mapping[Kind, resources.Resource] = _BUILT_IN
    if None in kinds:
        served = await _served(client, objects, deadline)
    found = [kind or served[_kind(obj)] for obj, kind in zip(objects, kinds, strict=True)]
    await in_parallel(
        _apply(client, kind, obj, field_manager)
        for obj, kind in zip(objects, found, strict=True)
        if kind not in _FIRST
    )
    return found


async def in_parallel(writes: Iterable[Awaitable[Any]]) -> None:
    """Await all, some at a time."""
    limit = asyncio.Semaphore(PARALLEL)

    async def one(write: Awaitable[Any]) -> None:
        async with limit:
            await write

    await asyncio.gather(*(one(write) for write in writes))


def _kind(obj: Object) -> Kind:
    return str(obj.get("apiVersion")), str(obj.get("kind"))


async def _apply(
    client: clients.Client, resource: resources.Resource, obj: Object, field_manager: str
) -> None:
    metadata = obj["metadata"]
    if resource in {resources.NAMESPACES, resources.SERVICE_ACCOUNTS}:
        # There is nothing to change in them, and Tenantry's own webhooks, which guard namespaces,
        # are not up yet when a platform starts again.
        try:
            await client.get(resource, metadata["name"], metadata.get("namespace", ""))
        except errors.NotFound:
            pass
        else:
            return
    await client.apply(resource, obj, field_manager=field_manager)


async def _established(client: clients.Client, definition: Object, deadline: float) -> None:
    name = definition["metadata"]["name"]
    while True:
        crd = await client.get(resources.CRDS, name)
        conditions = crd.get("status", {}).get("conditions") or []
        if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
            return
        if clock.monotonic() > deadline:
            why = "; ".join(c.get("message", "") for c in conditions if c["status"] == "False")
            raise errors.NotServed(f"{name} is not established: {why or 'no reason given'}")
        await asyncio.sleep(_POLL)


async def _served(
    client: clients.Client, objects: Sequence[Object], deadline: float
) -> dict[Kind, resources.Resource]:
    """Ask which kinds there are, until those that were just defined are among them."""
    wanted = {_kind(obj) for obj in objects}
    definitions = [obj for obj in objects if _BUILT_IN.get(_kind(obj)) == resources.CRDS]
    coming = {kind for definition in definitions for kind in _defined(definition)}
    while True:
        found = {(r.api_version, r.kind): r for r in await discovery.resources(client)}
        missing = wanted - found.keys() - _BUILT_IN.keys()
        if not missing:
            return found
        if not missing <= coming or clock.monotonic() > deadline:
            version, kind = min(missing - coming or missing)
            raise errors.NotServed(f"the API server does not serve {kind} of {version}")
        await asyncio.sleep(_POLL)


def _defined(definition: Object) -> Iterable[Kind]:
    spec = definition["spec"]
    for version in spec["versions"]:
        if version.get("served"):
            yield f"{spec['group']}/{version['name']}", spec["names"]["kind"]
