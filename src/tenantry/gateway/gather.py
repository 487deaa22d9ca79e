"""Lists of all of a caller's namespaces, each listed in the caller's own name.

The first is asked before the others, which then need be no older than its answer. So the API server
asks etcd once for what is newest, and waits once for its cache to have it, not for each of them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tenantry.gateway import decide, errors, formats, merge, pages, paths, status, streams
from tenantry.httpproxy import exchange, fetch, pipelining

#: Connections over which one request lists.
_AT_ONCE = 8
#: Namespaces of a page that are asked at a time, when there seems to be room for so many.
_MOST_AHEAD = 32
_MATCH = "resourceVersionMatch"
#: What an answer to somebody who did not ask for a version can be.
_EXPECTED = frozenset((200, 403))


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
        self._queries: dict[tuple[int, str], bytes] = {}
        self._asked = 0
        # Whoever asks for a version gets that, and native pages are of the first one's time.
        versioned = order.query.first("resourceVersion") or order.query.first(_MATCH)
        self._pins = not versioned
        self._least = self._from.version if self._from is not None and self._pins else ""
        self.first: pipelining.Answer | None = None
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
        left = self._limit or sys.maxsize
        while names:
            if left <= 0:
                self._ends_before(names[0])
                return
            count = self._ahead(left)
            batch, names = names[:count], names[count:]
            for name, listed in zip(batch, await self._each(batch, left), strict=True):
                part = listed
                if part is not None and left <= 0:
                    self._ends_before(name)
                    return
                if part is not None and part.count > left:
                    # There was room for more when it was asked for.
                    (part,) = await self._each([name], left, pinned=False)
                if part is None:
                    continue
                self.parts.append(part)
                left -= part.count
                if part.more:
                    self._ends_before(name, part.more)
                    return

    def _ahead(self, left: int) -> int:
        """Return how many namespaces to ask next: as many as seem to have room."""
        if self._pins and not self._asked:
            return 1
        if not self._limit:
            return sys.maxsize
        found = self._limit - left
        return min(_MOST_AHEAD, max(_AT_ONCE, left * self._asked // max(1, found)))

    def _ends_before(self, namespace: str, inner: str = "") -> None:
        self.more = pages.Token(namespace, inner, self.version).written()

    async def _each(
        self, names: Sequence[str], left: int, *, pinned: bool = True
    ) -> list[merge.Part | None]:
        limit = left if self._limit else 0
        least = self._least if pinned else ""
        answers = await self._ask([self._line(name, limit, least) for name in names])
        odd = [index for index, one in enumerate(answers) if one.status not in _EXPECTED]
        if odd and least:
            # Nobody but us asked for that version: a server may not have it yet.
            again = await self._ask([self._line(names[index], limit, "") for index in odd])
            for index, answer in zip(odd, again, strict=True):
                answers[index] = answer
        self._asked += len(names)
        parts = [self._part(answer) for answer in answers]
        if self._pins and not self._least:
            version = merge.oldest(part.version for part in parts if part is not None)
            self._least = version if version.isdigit() and version != "0" else ""
        return parts

    async def _ask(self, lines: Sequence[bytes]) -> list[pipelining.Answer]:
        return await fetch.several(
            self._order.server,
            lines,
            self._order.headers,
            at_once=_AT_ONCE,
            limit=streams.LIST_LIMIT - self._size,
        )

    def _line(self, namespace: str, limit: int, least: str) -> bytes:
        begin = self._from
        inner = begin.inner if begin is not None and begin.namespace == namespace else ""
        path = f"{self._before}/{namespace}/{self._after}"
        add = [("limit", str(limit) if limit else "")]
        if inner:
            # A page that goes on says by itself of which version it is.
            drop = (*streams.PAGING, "resourceVersion", _MATCH)
            return self._order.line(*drop, path=path, add=[*add, ("continue", inner)])
        query = self._queries.get((limit, least))
        if query is None:
            if least:
                add += [("resourceVersion", least), (_MATCH, "NotOlderThan")]
            query = self._order.parameters(*streams.PAGING, add=add)
            self._queries[(limit, least)] = query
        return path.encode() + query

    def _part(self, answer: pipelining.Answer) -> merge.Part | None:
        self._size += len(answer.body)
        if answer.status == 403:
            return None
        if answer.status != 200:
            # A wrong selector, an old version.
            raise _AnswerError(streams.passed_on(answer, answer.body))
        self.first = self.first or answer
        try:
            return merge.part(answer.body)
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
    form, version = formats.of_empty(order.headers) if not gathering.parts else ("", "")
    body = merge.whole(
        gathering.parts,
        kind=form or kind,
        api_version=version or f"{target.group}/{target.version}".lstrip("/"),
        version=gathering.version,
        more=gathering.more,
    )
    if gathering.parts and gathering.first is not None:
        return streams.passed_on(gathering.first, body)
    return exchange.Answer(200, body, [status.JSON])
