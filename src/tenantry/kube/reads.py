"""Reading: any request, get, list, watch; the half of a client that changes nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, TypeVar, overload

import msgspec

from tenantry.api import resources
from tenantry.core import errors as core_errors
from tenantry.kube import calls, errors, retry, streams, transport

T = TypeVar("T")
Object = dict[str, Any]

JSON = "application/json"
#: `Accept` values for answers without spec and status, or as the columns that kubectl prints.
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


class ListMeta(msgspec.Struct, rename="camel", gc=False):
    """Where a list stands in history."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")
    remaining_item_count: int | None = None


class _ListBody(msgspec.Struct, gc=False):
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


_LIST = msgspec.json.Decoder(_ListBody)
_DICT = msgspec.json.Decoder(dict[str, Any])


@dataclasses.dataclass(frozen=True)
class List:
    """A list, or one page of it.

    Items of built-in kinds carry no `kind` and `apiVersion`. An item's bytes keep its whole page in
    memory: `.copy()` what is kept.
    """

    items: list[msgspec.Raw]
    resource_version: str


def to_dict(body: bytes) -> Object:
    """Decode a JSON object."""
    return _DICT.decode(body)


class Reads:
    """What a client can do without changing anything."""

    _caller: calls.Caller

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        headers: Iterable[tuple[str, str]] = (),
        effect: retry.Effect | None = None,
        timeout: float | None = None,
    ) -> transport.Response:
        """Make any request; `path` is percent-encoded already, as `Resource.path` gives it.

        :param effect: what repeating it would do; by default reads none, others "once"
        """
        sent = [("Accept", accept), *headers]
        if body is not None:
            sent.append(("Content-Type", content_type))
        return await self._caller.call(
            transport.Request(
                method=method, target=streams.target(path, query), headers=sent, body=body
            ),
            effect=effect or retry.effect_of(method),
            timeout=timeout,
        )

    @overload
    async def get(
        self,
        resource: resources.Resource,
        name: str,
        namespace: str = "",
        *,
        subresource: str = "",
        resource_version: str = "",
        accept: str = JSON,
        timeout: float | None = None,
    ) -> Object: ...

    @overload
    async def get(
        self,
        resource: resources.Resource,
        name: str,
        namespace: str = "",
        *,
        decode: Callable[[bytes], T],
        subresource: str = "",
        resource_version: str = "",
        accept: str = JSON,
        timeout: float | None = None,
    ) -> T: ...

    async def get(
        self,
        resource: resources.Resource,
        name: str,
        namespace: str = "",
        *,
        decode: Callable[[bytes], Any] = to_dict,
        subresource: str = "",
        resource_version: str = "",
        accept: str = JSON,
        timeout: float | None = None,
    ) -> Any:
        """Read one object, by quorum unless `resource_version` is "0" (the server's cache)."""
        response = await self.request(
            "GET",
            resource.path(namespace, named(name), subresource),
            query={"resourceVersion": resource_version},
            accept=accept,
            timeout=timeout,
        )
        return decode(response.body)

    async def list(
        self,
        resource: resources.Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        limit: int = 500,
        accept: str = JSON,
        timeout: float | None = None,
    ) -> List:
        """Read all pages into one consistent list.

        When the server forgets the version between pages (410), the list is read anew: once more
        in pages, then in one piece, which cannot expire.

        :param resource_version: "" by quorum, "0" anything the server has in memory, else at least
            this one
        :param limit: objects per page; 0 for one piece
        :param timeout: seconds per page
        """
        for size in (limit, limit, 0):
            items: list[msgspec.Raw] = []
            page = List(items, "")
            try:
                async for page in self.pages(
                    resource,
                    namespace,
                    label_selector=label_selector,
                    field_selector=field_selector,
                    resource_version=resource_version,
                    limit=size,
                    accept=accept,
                    timeout=timeout,
                ):
                    items += page.items
            except errors.Gone:
                if size == 0 or not items:
                    raise
            else:
                return List(items, page.resource_version)
        raise AssertionError("unreachable: the last round returns or raises")

    async def pages(
        self,
        resource: resources.Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        limit: int = 500,
        accept: str = JSON,
        timeout: float | None = None,
    ) -> AsyncIterator[List]:
        """Read page by page; all have the version of the first.

        Pages that are too large to be taken are asked for in a quarter of their length.

        :raises Gone: between pages: what came so far is a part of a list that cannot be completed
        :raises AnswerTooLarge: when even one object is, or `limit` is 0
        """
        first = {
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "limit": str(limit) if limit else "",
        }
        query = {
            **first,
            "resourceVersion": resource_version,
            # Without it, a version together with a limit would mean exactly that version.
            "resourceVersionMatch": "NotOlderThan" if resource_version else "",
        }
        path = resource.path(namespace)
        while True:
            try:
                response = await self.request(
                    "GET", path, query=query, accept=accept, timeout=timeout
                )
            except errors.AnswerTooLarge:
                if limit <= 1:
                    raise
                limit = max(1, limit // 4)
                first["limit"] = query["limit"] = str(limit)
                continue
            body = _LIST.decode(response.body)
            yield List(body.items or [], body.metadata.resource_version)
            if not body.metadata.continue_:
                return
            query = {**first, "continue": body.metadata.continue_}

    def watch(
        self,
        resource: resources.Resource,
        namespace: str = "",
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 0,
        send_initial_events: bool = False,
        accept: str = JSON,
        inactivity: float | None = None,
    ) -> streams.Watch:
        """Give a watch to enter (`async with`) and iterate over: raw lines, see `watch.decode`.

        :param timeout_seconds: the server ends the stream after so long; 0 leaves it the choice
        :param send_initial_events: start with the present state (WatchList), ended by a bookmark
            that `watch.ends_initial_events` recognises
        :param inactivity: seconds without a byte after which the stream counts as cut
        :raises Gone: on entering, or as an ERROR event: list again
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "timeoutSeconds": str(timeout_seconds) if timeout_seconds else "",
            "sendInitialEvents": "true" if send_initial_events else "",
            "resourceVersionMatch": "NotOlderThan" if send_initial_events else "",
        }
        return streams.Watch(
            self._caller,
            transport.Request(
                method="GET",
                target=streams.target(resource.path(namespace), query),
                headers=[("Accept", accept)],
            ),
            inactivity=inactivity,
        )


def named(name: str) -> str:
    # An empty name would address the collection: a delete of everything.
    if not name:
        raise core_errors.InvalidValueError("name", name, "a name is needed")
    return name
