"""Lists of all of a caller's namespaces, each listed in the caller's own name."""

from __future__ import annotations

from collections.abc import Sequence

from tenantry.gateway import decide, errors, merge, pages, paths, status, streams
from tenantry.httpproxy import exchange, fetch, heads

#: Namespaces that one request lists at a time.
_AT_ONCE = 8


class _AnswerError(Exception):
    """Raised with what the API server said that is an answer to the whole."""

    def __init__(self, answer: exchange.Answer) -> None:
        self.answer = answer
        super().__init__(answer.status)


class _Gathering:
    """One request for a page, or for the whole."""

    def __init__(self, order: streams.Order, target: paths.Target) -> None:
        self._order = order
        # A path anew for each of many namespaces costs more than all else that is done to ask there.
        self._before, _, self._after = target.inside("*").path.rpartition("/*/")
        self._size = 0
        text = order.query.first("continue")
        self._from = pages.read(text) if text else None
        self._limit = pages.limit(order.query)
        self._queries: dict[int, bytes] = {}
        self.head: heads.ResponseHead | None = None
        self.parts: list[merge.Part] = []
        self.more = ""

    @property
    def version(self) -> str:
        begun = self._from.version if self._from is not None else ""
        return merge.oldest([begun, *(part.version for part in self.parts)])

    async def run(self, namespaces: Sequence[str]) -> None:
        """List in each, in order, until the page is full.

        :raises _AnswerError: for anything but a list or "you may not"
        """
        begin = self._from
        names = [name for name in namespaces if begin is None or name >= begin.namespace]
        if not self._limit:
            self.parts = [part for part in await self._each(names, 0) if part is not None]
            return
        left = self._limit
        for index in range(0, len(names), _AT_ONCE):
            batch = names[index : index + _AT_ONCE]
            if left <= 0:
                self._ends_before(batch[0])
                return
            for name, listed in zip(batch, await self._each(batch, left), strict=True):
                part = listed
                if part is not None and left <= 0:
                    self._ends_before(name)
                    return
                if part is not None and part.count > left:
                    # There was room for more when it was asked for.
                    (part,) = await self._each([name], left)
                if part is None:
                    continue
                self.parts.append(part)
                left -= part.count
                if part.more:
                    self._ends_before(name, part.more)
                    return

    def _ends_before(self, namespace: str, inner: str = "") -> None:
        self.more = pages.Token(namespace, inner, self.version).written()

    async def _each(self, names: Sequence[str], limit: int) -> list[merge.Part | None]:
        lines = [self._line(name, limit) for name in names]
        answers = await fetch.several(
            self._order.server,
            lines,
            self._order.headers,
            at_once=_AT_ONCE,
            limit=streams.LIST_LIMIT - self._size,
        )
        return [self._part(head, body) for head, body in answers]

    def _line(self, namespace: str, limit: int) -> bytes:
        begin = self._from
        inner = begin.inner if begin is not None and begin.namespace == namespace else ""
        path = f"{self._before}/{namespace}/{self._after}"
        if not inner:
            query = self._queries.get(limit)
            if query is None:
                add = [("limit", str(limit) if limit else "")]
                query = self._order.parameters(*streams.PAGING, add=add)
                self._queries[limit] = query
            return path.encode() + query
        add = [("limit", str(limit) if limit else ""), ("continue", inner)]
        # A page that goes on says by itself of which version it is.
        drop = (*streams.PAGING, "resourceVersion", "resourceVersionMatch")
        return self._order.line(*drop, path=path, add=add)

    def _part(self, head: heads.ResponseHead, body: bytes) -> merge.Part | None:
        self._size += len(body)
        if head.status == 403:
            return None
        if head.status != 200:
            # A wrong selector, an old version.
            raise _AnswerError(streams.passed_on(head, body))
        self.head = self.head or head
        try:
            return merge.part(body)
        except ValueError:
            raise _AnswerError(status.answer(502, "the API server's answer is no list")) from None


async def gathered(
    order: streams.Order, target: paths.Target, wanted: decide.Fanout, kind: str
) -> exchange.Answer:
    """List in each namespace as the caller, and merge. Where it may not, it sees nothing.

    :param kind: of the list, when there is none to take it from
    """
    try:
        gathering = _Gathering(order, target)
        await gathering.run(wanted.namespaces)
    except errors.Refused as error:
        return status.refusal(error)
    except _AnswerError as found:
        return found.answer
    body = merge.whole(
        gathering.parts,
        kind=kind,
        api_version=f"{target.group}/{target.version}".lstrip("/"),
        version=gathering.version,
        more=gathering.more,
    )
    if gathering.parts and gathering.head is not None:
        return streams.passed_on(gathering.head, body)
    return exchange.Answer(200, body, [status.JSON])
