"""Read what the check judges: get and list, nothing else.

Lists come in pages, of which only what is judged is kept; of kinds that do not need more, the
metadata is all that is asked for. What cannot be read is noted, and the rest is judged.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from tenantry.api import meta, resources
from tenantry.api.capsule import configuration, constants
from tenantry.api.capsule import resources as capsule
from tenantry.apps import certificates, roles
from tenantry.apps.switching import projections, snapshot
from tenantry.core import clock
from tenantry.core import errors as core_errors
from tenantry.kube import client as clients
from tenantry.kube import errors, reads
from tenantry.tenancy import families, promotions, state
from tenantry.tenancy.checking import views

T = TypeVar("T")
Object = dict[str, Any]

_TIMEOUT = 30.0
#: Reads under way at a time.
_AT_ONCE = 4
#: How often a list is begun anew that the server forgot between two pages.
_ROUNDS = 3

_CONFIGURATION = msgspec.json.Decoder(configuration.CapsuleConfiguration, strict=False)
_META = msgspec.json.Decoder(meta.PartialObject, strict=False)


class _Reader:
    """Asks, and notes what it was not told."""

    def __init__(self, client: clients.Client) -> None:
        self.client = client
        self.problems: dict[str, str] = {}
        self._gate = asyncio.Semaphore(_AT_ONCE)

    async def ask(self, what: str, question: Awaitable[T]) -> T | None:
        """Return the answer; None when there is none."""
        try:
            async with self._gate:
                return await question
        except (errors.KubeError, core_errors.TenantryError, msgspec.MsgspecError) as problem:
            self.problems[what] = str(problem)
            return None

    async def one(
        self, resource: resources.Resource, name: str, namespace: str = "", *, whole: bool = True
    ) -> Object | None:
        """Return an object; None when it does not exist."""
        accept = reads.JSON if whole else reads.METADATA
        try:
            return await self.client.get(resource, name, namespace, accept=accept, timeout=_TIMEOUT)
        except errors.NotFound:
            return None

    async def all(
        self,
        resource: resources.Resource,
        view: Callable[[bytes], T | None],
        *,
        namespace: str = "",
        labels: str = "",
        whole: bool = True,
    ) -> list[T]:
        """Return what a view keeps of all objects; of a kind that is not served, nothing."""
        for left in reversed(range(_ROUNDS)):
            kept: list[T] = []
            try:
                async for page in self.client.pages(
                    resource,
                    namespace,
                    label_selector=labels,
                    accept=reads.JSON if whole else reads.METADATA_LIST,
                    timeout=_TIMEOUT,
                ):
                    # Bytes of an item keep its page in memory, and so would a view of them.
                    kept += [found for raw in page.items if (found := view(bytes(raw))) is not None]
            except errors.NotFound:
                return []
            except errors.Gone:
                if not left:
                    raise
            else:
                return kept
        raise AssertionError("unreachable: the last round returns or raises")


async def gather(
    client: clients.Client,
    wanted: Iterable[Object],
    *,
    namespace: str = constants.CONTROLLER_NAMESPACE,
    configuration_name: str = constants.CONFIGURATION_NAME,
    wall: clock.Clock = clock.wall,
) -> snapshot.Snapshot:
    """Find out everything.

    :param wanted: CustomResourceDefinitions as this release has them
    :raises Unreachable: when there is no server to ask
    """
    reader = _Reader(client)
    with contextlib.suppress(errors.ApiError):  # It may be hidden from us; the rest is not.
        await client.request("GET", "/version", timeout=_TIMEOUT)
    ours = {one.name: one for one in map(projections.definition, wanted)}
    found = snapshot.Snapshot(
        namespace=namespace, configuration_name=configuration_name, wanted=ours
    )
    found = await _settings(reader, found)
    kinds = _kinds(reader, ours)
    parts = await asyncio.gather(
        _workloads(reader, namespace),
        reader.ask("leases", _lease(reader, namespace, wall)),
        _hooks(reader),
        kinds,
        reader.ask("clusterrolebindings", _almighty(reader, namespace)),
        _tenancy(reader, found),
    )
    workloads, lease, hooks, (definitions, objects), almighty, tenancy = parts
    return dataclasses.replace(
        found,
        problems=dict(sorted(reader.problems.items())),
        workloads=workloads,
        lease=lease,
        hooks=hooks,
        definitions=definitions,
        objects=objects,
        almighty=almighty,
        tenancy=dataclasses.replace(tenancy, almighty=bool(almighty)),
    )


async def _settings(reader: _Reader, found: snapshot.Snapshot) -> snapshot.Snapshot:
    name = found.configuration_name
    what = f"{capsule.CONFIGURATIONS.group_resource} {name}"
    read = await reader.ask(what, reader.one(capsule.CONFIGURATIONS, name))
    if what in reader.problems:
        return found
    if read is None:
        return dataclasses.replace(found, configured=False)
    try:
        config = _CONFIGURATION.decode(msgspec.json.encode(read))
    except msgspec.MsgspecError as problem:
        return dataclasses.replace(found, configured=True, broken=str(problem))
    secret = config.spec.overrides.tls_secret_name
    kept = await reader.ask(
        f"secret {found.namespace}/{secret}",
        reader.one(resources.SECRETS, secret, found.namespace, whole=False),
    )
    return dataclasses.replace(
        found, configured=True, configuration=config, secret=_secret(secret, kept)
    )


def _secret(name: str, found: Object | None) -> snapshot.Secret | None:
    if found is None:
        return None
    labels = found["metadata"].get("labels") or {}
    return snapshot.Secret(name=name, ours=certificates.OURS.items() <= labels.items())


async def _workloads(reader: _Reader, namespace: str) -> list[snapshot.Workload] | None:
    found: list[snapshot.Workload] = []
    complete = True
    for resource in (resources.DEPLOYMENTS, resources.DAEMON_SETS):
        some = await reader.ask(
            resource.group_resource,
            reader.all(
                resource,
                functools.partial(projections.workload, resource.kind),
                namespace=namespace,
            ),
        )
        complete = complete and some is not None
        found += some or ()
    return found if complete else None


async def _lease(reader: _Reader, namespace: str, wall: clock.Clock) -> snapshot.Lease | None:
    found = await reader.one(resources.LEASES, roles.LEASE, namespace)
    spec = (found or {}).get("spec") or {}
    if not spec.get("holderIdentity") or not spec.get("renewTime"):
        return None
    ends = clock.parse_rfc3339(spec["renewTime"]) + float(spec.get("leaseDurationSeconds") or 0)
    return snapshot.Lease(holder=spec["holderIdentity"], left=ends - wall())


async def _hooks(reader: _Reader) -> list[snapshot.Hooks] | None:
    found: list[snapshot.Hooks] = []
    for resource in (resources.MUTATING_WEBHOOKS, resources.VALIDATING_WEBHOOKS):
        some = await reader.ask(
            resource.group_resource,
            reader.all(resource, functools.partial(projections.webhooks, resource.kind)),
        )
        if some is None:
            return None
        found += some
    return found


async def _kinds(
    reader: _Reader, ours: Mapping[str, snapshot.Definition]
) -> tuple[list[snapshot.Definition] | None, dict[str, int]]:
    names = await reader.ask(
        resources.CRDS.group_resource,
        reader.all(resources.CRDS, functools.partial(_concerned, ours), whole=False),
    )
    if names is None:
        return None, {}
    found: list[snapshot.Definition] = []
    counts: dict[str, int] = {}
    for name in names:
        crd = await reader.ask(
            f"{resources.CRDS.group_resource} {name}", reader.one(resources.CRDS, name)
        )
        if crd is None:
            continue
        one = projections.definition(crd)
        found.append(one)
        if name not in ours:
            number = await reader.ask(name, _count(reader.client, crd))
            if number is not None:
                counts[name] = number
    unread = {one.name for one in found} - ours.keys() - counts.keys()
    return [one for one in found if one.name not in unread], counts


def _concerned(ours: Collection[str], raw: bytes) -> str | None:
    name = _META.decode(raw).metadata.name
    return name if name in ours or name.endswith(f".{constants.GROUP}") else None


async def _count(client: clients.Client, crd: Object) -> int:
    """Count objects without reading more than one."""
    spec = crd["spec"]
    version = next(each["name"] for each in spec["versions"] if each.get("served"))
    resource = resources.Resource(
        spec["group"], version, spec["names"]["plural"], spec["names"]["kind"],
        namespaced=spec["scope"] == "Namespaced",
    )  # fmt: skip
    answer = await client.request(
        "GET",
        resource.path(),
        query={"limit": "1"},
        accept=reads.METADATA_LIST,
        timeout=_TIMEOUT,
    )
    page: Object = msgspec.json.decode(answer.body)
    listed = page.get("metadata") or {}
    return len(page.get("items") or ()) + (listed.get("remainingItemCount") or 0)


async def _almighty(reader: _Reader, namespace: str) -> list[str]:
    def view(raw: bytes) -> str | None:
        found: Object = msgspec.json.decode(raw)
        if found["roleRef"]["name"] != "cluster-admin":
            return None
        account = ("ServiceAccount", namespace, constants.CONTROLLER_SERVICE_ACCOUNT)
        subjects = found.get("subjects") or ()
        bound = any(
            (one["kind"], one.get("namespace", ""), one["name"]) == account for one in subjects
        )  # fmt: skip
        return str(found["metadata"]["name"]) if bound else None

    return await reader.all(resources.CLUSTER_ROLE_BINDINGS, view)


async def _tenancy(reader: _Reader, found: snapshot.Snapshot) -> views.Tenancy:
    def listed(
        resource: resources.Resource,
        view: Callable[[bytes], T | None],
        *,
        labels: str = "",
        whole: bool = True,
    ) -> Awaitable[list[T] | None]:
        question = reader.all(resource, view, labels=labels, whole=whole)
        return reader.ask(resource.group_resource, question)

    accounts = resources.SERVICE_ACCOUNTS
    known, spaces, owners = await asyncio.gather(
        listed(capsule.TENANTS, views.tenant_view),
        listed(resources.NAMESPACES, views.space_view, whole=False),
        listed(capsule.TENANT_OWNERS, state.tenant_owner_view),
    )
    promoted, granted, bindings, roles_found = await asyncio.gather(
        listed(accounts, state.promotion_view, labels=state.PROMOTED_SELECTOR, whole=False),
        listed(accounts, promotions.view, labels=state.PROMOTED_TO_ROLES_SELECTOR, whole=False),
        listed(resources.ROLE_BINDINGS, views.binding_view, labels=constants.ROLE_BINDING_LABEL),
        listed(resources.CLUSTER_ROLES, views.role_view, whole=False),
    )
    copies = {
        family.resource.plural: await listed(family.resource, views.copy_view, labels=family.label)
        for family in families.ALL
    }
    # Without the configuration nobody knows who the administrators are.
    unsure = found.configured is None or bool(found.broken)
    return views.Tenancy(
        namespace=found.namespace,
        config=snapshot.spec_of(found),
        tenants=known,
        spaces=spaces,
        tenant_owners=None if unsure else owners,
        promoted=promoted,
        accounts=granted,
        bindings=bindings,
        copies=copies,
        roles=roles_found,
    )
