"""What an API server serves: one request for everything, or one per group where it is older.

`parse_aggregated` and `parse_legacy` are pure. Groups served by an extension server that does not
answer are named in `Discovery.failed`; the rest is still there.
"""

from __future__ import annotations

import asyncio
import dataclasses

import msgspec

from tenantry.api import resources as api
from tenantry.kube import client as clients
from tenantry.kube import errors

_AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Served:
    """One served kind and what can be done with it."""

    resource: api.Resource
    verbs: tuple[str, ...] = ()
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    #: Whether this is the version its group prefers for it.
    preferred: bool = True


@dataclasses.dataclass(frozen=True)
class Discovery:
    """All served kinds, and the group versions that could not be asked."""

    served: tuple[Served, ...]
    failed: tuple[str, ...] = ()

    def find(self, word: str) -> Served | None:
        """Find a kind as people name it: plural, singular, short name or kind, also `word.group`.

        The core group and earlier groups win, as with kubectl.
        """
        name, _, group = word.lower().partition(".")
        for served in self.served:
            if not served.preferred or (group and served.resource.group != group):
                continue
            known = (
                served.resource.plural,
                served.singular,
                served.resource.kind.lower(),
                *served.short_names,
            )
            if name and name in known:
                return served
        return None


class Version(msgspec.Struct, rename="camel"):
    """The server's version; `minor` may end in "+"."""

    major: str = ""
    minor: str = ""
    git_version: str = ""

    def at_least(self, major: int, minor: int) -> bool:
        """Compare by number."""
        return (int(self.major or 0), int(self.minor.rstrip("+") or 0)) >= (major, minor)


async def version(client: clients.Client, *, timeout: float | None = None) -> Version:
    """Ask for the server's version."""
    response = await client.request("GET", "/version", timeout=timeout)
    return msgspec.json.decode(response.body, type=Version)


async def resources(client: clients.Client) -> list[api.Resource]:
    """List every served kind in every served version."""
    return [served.resource for served in (await discover(client)).served]


async def discover(client: clients.Client) -> Discovery:
    """Ask what is served; two requests, or about one per group version on older servers."""
    core, groups = await asyncio.gather(
        client.request("GET", "/api", accept=_AGGREGATED),
        client.request("GET", "/apis", accept=_AGGREGATED),
    )
    if all(
        "APIGroupDiscoveryList" in answer.headers.get("Content-Type", "")
        for answer in (core, groups)
    ):
        first, second = parse_aggregated(core.body), parse_aggregated(groups.body)
        return Discovery(first.served + second.served, first.failed + second.failed)
    return await _legacy(client, core.body, groups.body)


class _Subresource(msgspec.Struct):
    subresource: str


class _ResponseKind(msgspec.Struct):
    kind: str = ""


class _Discovered(msgspec.Struct, rename="camel"):
    resource: str
    response_kind: _ResponseKind | None = None
    scope: str = "Namespaced"
    singular_resource: str = ""
    verbs: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[_Subresource, ...] = ()


class _DiscoveredVersion(msgspec.Struct):
    version: str
    resources: tuple[_Discovered, ...] = ()
    freshness: str = "Current"


class _Name(msgspec.Struct):
    name: str = ""


class _DiscoveredGroup(msgspec.Struct):
    metadata: _Name = msgspec.field(default_factory=_Name)
    versions: tuple[_DiscoveredVersion, ...] = ()


class _DiscoveredGroups(msgspec.Struct):
    items: tuple[_DiscoveredGroup, ...] = ()


def parse_aggregated(body: bytes) -> Discovery:
    """Read an APIGroupDiscoveryList (`apidiscovery.k8s.io/v2`)."""
    served: list[Served] = []
    failed: list[str] = []
    for group in msgspec.json.decode(body, type=_DiscoveredGroups).items:
        name = group.metadata.name
        seen: set[str] = set()
        for entry in group.versions:
            if entry.freshness == "Stale":
                failed.append(f"{name}/{entry.version}" if name else entry.version)
            for found in entry.resources:
                kind = found.response_kind.kind if found.response_kind else ""
                if not kind:
                    # A parent that is only there for its subresources.
                    continue
                served.append(
                    Served(
                        resource=api.Resource(
                            name, entry.version, found.resource, kind, found.scope == "Namespaced"
                        ),
                        verbs=found.verbs,
                        singular=found.singular_resource,
                        short_names=found.short_names,
                        categories=found.categories,
                        subresources=tuple(sub.subresource for sub in found.subresources),
                        preferred=found.resource not in seen,
                    )
                )
                seen.add(found.resource)
    return Discovery(tuple(served), tuple(failed))


class _LegacyResource(msgspec.Struct, rename="camel"):
    name: str
    kind: str
    namespaced: bool = False
    singular_name: str = ""
    verbs: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class _LegacyResources(msgspec.Struct):
    resources: tuple[_LegacyResource, ...] = ()


class _LegacyVersions(msgspec.Struct):
    versions: tuple[str, ...] = ()


class _LegacyGroupVersion(msgspec.Struct):
    version: str


class _LegacyGroup(msgspec.Struct):
    name: str
    versions: tuple[_LegacyGroupVersion, ...] = ()


class _LegacyGroups(msgspec.Struct):
    groups: tuple[_LegacyGroup, ...] = ()


def parse_legacy(body: bytes, group: str, version: str, seen: set[str]) -> list[Served]:
    """Read an APIResourceList.

    :param seen: plurals that an earlier, preferred version of the group serves; added to
    """
    entries = msgspec.json.decode(body, type=_LegacyResources).resources
    below: dict[str, list[str]] = {}
    for entry in entries:
        parent, slash, subresource = entry.name.partition("/")
        if slash:
            below.setdefault(parent, []).append(subresource)
    served = [
        Served(
            resource=api.Resource(group, version, entry.name, entry.kind, entry.namespaced),
            verbs=entry.verbs,
            singular=entry.singular_name,
            short_names=entry.short_names,
            categories=entry.categories,
            subresources=tuple(below.get(entry.name, ())),
            preferred=entry.name not in seen,
        )
        for entry in entries
        if "/" not in entry.name
    ]
    seen.update(one.resource.plural for one in served)
    return served


async def _legacy(client: clients.Client, core: bytes, groups: bytes) -> Discovery:
    wanted = [("", version) for version in msgspec.json.decode(core, type=_LegacyVersions).versions]
    wanted += [
        (group.name, entry.version)
        for group in msgspec.json.decode(groups, type=_LegacyGroups).groups
        for entry in group.versions
    ]
    answers = await asyncio.gather(
        *(client.request("GET", _root(group, version)) for group, version in wanted),
        return_exceptions=True,
    )
    served: list[Served] = []
    failed: list[str] = []
    seen: dict[str, set[str]] = {}
    for (group, version), answer in zip(wanted, answers, strict=True):
        if isinstance(answer, errors.KubeError):
            failed.append(f"{group}/{version}" if group else version)
        elif isinstance(answer, BaseException):
            raise answer
        else:
            served += parse_legacy(answer.body, group, version, seen.setdefault(group, set()))
    return Discovery(tuple(served), tuple(failed))


def _root(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"
