"""Open watches, looked at again whenever something changes on which they rest.

What somebody may see was decided when a watch began. It ends when it would be decided otherwise
now, when the caller is nobody any more (a token or certificate that has run out, too), and when
RBAC does not let the caller watch any more. The client lists again, and sees what is true.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

from tenantry.api import resources
from tenantry.core import clock
from tenantry.gateway import authenticate, decide, errors, identity, snapshot
from tenantry.kube import access
from tenantry.kube import errors as kube_errors
from tenantry.runtime import store

logger = logging.getLogger(__name__)

#: Seconds in which several changes are one, and between two looks at whether callers still are.
_DEBOUNCE, _RECHECK = 0.3, 4.0
#: Seconds for which an answer about a caller must still hold: with the above, ten at most.
_MARGIN = 5.0
#: How often rights are asked about after a change: API servers hear of it at different times.
_ROUNDS = 2
#: Questions at a time.
_AT_ONCE = 16


@dataclasses.dataclass(eq=False, slots=True)
class Watch:
    """One open watch."""

    request: decide.Request
    caller: authenticate.Caller
    who: identity.Identity | None
    """None when nobody had to find out"""
    decision: decide.Decision
    end: Callable[[], None]
    """tells the client to list again, and ends the watch"""
    namespaces: Sequence[str] = ()
    """in which the API server let the caller watch; an empty name stands for all"""
    expires: float = float("inf")

    @property
    def questions(self) -> dict[str, access.Question]:
        """Return by namespace what the API server was asked when the watch began."""
        target = self.request.target
        if target is None:
            return {}
        kind = resources.Resource(target.group, target.version, target.plural, "")
        name = target.name or _named(self.request.query.first("fieldSelector") or "")
        return {
            namespace: access.Question(
                verb="watch",
                resource=kind,
                namespace=namespace,
                name=name,
                subresource=target.subresource,
            )
            for namespace in self.namespaces
        }


def _named(selector: str) -> str:
    """Return the only name that a field selector selects; the API server asks RBAC for it."""
    for part in selector.split(","):
        key, equals, value = part.partition("=")
        if equals and key == "metadata.name":
            return value.removeprefix("=")
    return ""


class Watches:
    """All open ones of a process."""

    def __init__(
        self,
        known: snapshot.Snapshot,
        authenticator: authenticate.Authenticator,
        *,
        wall: clock.Clock = clock.wall,
        fresh: Callable[[], bool] = lambda: True,
    ) -> None:
        """Take what watches rest on.

        :param fresh: whether what is known can be relied on
        """
        self._fresh = fresh
        self._known = known
        self._authenticator = authenticator
        self._wall = wall
        self._open: set[Watch] = set()
        self._changed = asyncio.Event()
        self._rights: dict[str, int] = {}
        known.subscribe(self._changed.set)
        self.ended = 0

    def __len__(self) -> int:
        return len(self._open)

    def add(self, watch: Watch) -> None:
        watch.expires = watch.caller.expires
        self._open.add(watch)

    def remove(self, watch: Watch) -> None:
        self._open.discard(watch)

    def rights_changed(self, event: store.Event[snapshot.RightView]) -> None:
        """Note that RBAC may allow less than it did; what only adds to it takes nothing away."""
        if event.old is not None and self._open:
            self._rights[event.key[0]] = _ROUNDS
            self._changed.set()

    async def run(self) -> None:
        """Look again after changes, and at the callers all the time, until cancelled."""
        due = clock.monotonic() + _RECHECK
        while True:
            try:
                async with asyncio.timeout(max(0.0, due - clock.monotonic())):
                    await self._changed.wait()
                await asyncio.sleep(_DEBOUNCE)
                self._changed.clear()
                self._decide_again()
                await self._authorise_again()
            except TimeoutError:
                pass
            if clock.monotonic() >= due:
                self._expire()
                if not self._fresh():
                    self._end_narrowed()
                await self._identify_again()
                await self._authorise_again()
                due = clock.monotonic() + _RECHECK

    def _end_narrowed(self) -> None:
        for watch in tuple(self._open):
            if not isinstance(watch.decision, decide.Pass):
                self._end(watch)

    def _expire(self) -> None:
        now = self._wall()
        for watch in tuple(self._open):
            if watch.expires <= now:
                self._end(watch)

    def _decide_again(self) -> None:
        for watch in tuple(self._open):
            if watch.who is None:
                continue
            try:
                now = decide.decide(watch.request, watch.who, self._known)
            except errors.Refused:
                now = decide.Pass()
            if now != watch.decision and not isinstance(watch.decision, decide.Pass):
                self._end(watch)

    async def _identify_again(self) -> None:
        """Find out anew who the callers are; those that were passed on are the API server's."""
        by_caller: dict[bytes, list[Watch]] = {}
        for watch in self._open:
            if not isinstance(watch.decision, decide.Pass):
                by_caller.setdefault(watch.caller.key, []).append(watch)

        async def again(found: list[Watch]) -> None:
            try:
                who = await self._authenticator.identify(found[0].caller, margin=_MARGIN)
            except errors.Refused as error:
                # Only an answer ends a watch, not that there was none.
                if error.code < 500:
                    self._end_each(found)
            else:
                self._end_each(watch for watch in found if _differs(watch.who, who))

        await _bounded(functools.partial(again, found) for found in by_caller.values())

    async def _authorise_again(self) -> None:
        """Ask RBAC again about what was watched where it has changed."""
        if not self._rights:
            return
        changed = frozenset(self._rights)
        self._rights = {name: left - 1 for name, left in self._rights.items() if left > 1}
        asked: dict[tuple[bytes, access.Question], list[Watch]] = {}
        for watch in self._open:
            for namespace, question in watch.questions.items():
                if "" in changed or namespace in changed:
                    asked.setdefault((watch.caller.key, question), []).append(watch)

        async def again(question: access.Question, found: list[Watch]) -> None:
            try:
                who = found[0].who or await self._authenticator.identify(found[0].caller)
                allowed = await self._authenticator.may(who, question)
            except errors.Refused as error:
                allowed = error.code >= 500
            except kube_errors.KubeError:
                allowed = True
            if not allowed:
                self._end_each(found)

        await _bounded(functools.partial(again, key[1], found) for key, found in asked.items())

    def _end_each(self, found: Iterable[Watch]) -> None:
        for watch in tuple(found):
            self._end(watch)

    def _end(self, watch: Watch) -> None:
        if watch in self._open:
            self._open.discard(watch)
            self.ended += 1
            watch.end()


def _differs(one: identity.Identity | None, other: identity.Identity) -> bool:
    """Tell whether decisions could differ; who is told here and there has more or less extra."""
    return one is None or (one.user, set(one.groups)) != (other.user, set(other.groups))


async def _bounded(work: Iterable[Callable[[], Awaitable[None]]]) -> None:
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(what: Callable[[], Awaitable[None]]) -> None:
        async with places:
            await what()

    await asyncio.gather(*map(one, work))
