"""Watches that the gateway narrowed, looked at again whenever something changes.

What somebody may see was decided when a watch began. When it would be decided otherwise now, or
the caller is nobody any more, the watch ends; the client lists again, and sees what is true.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable

from tenantry.gateway import authenticate, decide, errors, identity, snapshot

logger = logging.getLogger(__name__)

#: Seconds in which several changes are one, and between two looks at whether callers still are.
_DEBOUNCE, _RECHECK = 0.3, 4.0


@dataclasses.dataclass(eq=False, slots=True)
class Watch:
    """One open watch."""

    request: decide.Request
    caller: authenticate.Caller
    who: identity.Identity
    decision: decide.Decision
    end: Callable[[], None]
    """tells the client to list again, and ends the watch"""


class Watches:
    """All open ones of a process."""

    def __init__(self, known: snapshot.Snapshot, authenticator: authenticate.Authenticator) -> None:
        self._known = known
        self._authenticator = authenticator
        self._open: set[Watch] = set()
        self._changed = asyncio.Event()
        known.subscribe(self._changed.set)
        self.ended = 0

    def __len__(self) -> int:
        return len(self._open)

    def add(self, watch: Watch) -> None:
        self._open.add(watch)

    def remove(self, watch: Watch) -> None:
        self._open.discard(watch)

    async def run(self) -> None:
        """Look again after changes, and at the callers all the time, until cancelled."""
        while True:
            try:
                async with asyncio.timeout(_RECHECK):
                    await self._changed.wait()
                await asyncio.sleep(_DEBOUNCE)
                self._changed.clear()
                self._decide_again()
            except TimeoutError:
                await self._identify_again()

    def _decide_again(self) -> None:
        for watch in tuple(self._open):
            try:
                now = decide.decide(watch.request, watch.who, self._known)
            except errors.Refused:
                now = decide.Pass()
            if now != watch.decision:
                self._end(watch)

    async def _identify_again(self) -> None:
        for watch in tuple(self._open):
            try:
                who = await self._authenticator.identify(watch.caller)
            except errors.Refused as error:
                # Only an answer ends a watch, not that there was none.
                if error.code < 500:
                    self._end(watch)
            else:
                if who != watch.who:
                    self._end(watch)

    def _end(self, watch: Watch) -> None:
        if watch in self._open:
            self._open.discard(watch)
            self.ended += 1
            watch.end()
