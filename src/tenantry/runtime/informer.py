"""The shell around `reflector` and `store`: a cache of one kind that stays current.

One informer makes one watch, however many read it or subscribe to it. What is kept is decided by
its *view*, a function from an object's JSON to what readers need: a small Struct, a dict, or the
bytes themselves.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar, cast

from tenantry.api import resources
from tenantry.kube import client as kube_client
from tenantry.kube import reads
from tenantry.kube import watch as kube_watch
from tenantry.runtime import budget as budgets
from tenantry.runtime import (
    failing,
    handlers,
    memory,
    metrics,
    reflector,
    store,
    versions,
    views,
    waiting,
)
from tenantry.runtime import timing as timings

T = TypeVar("T")
Handler = Callable[[store.Event[T]], None]
Saved = store.Saved
_Pages = AsyncGenerator[reads.List, None]
_Request = reflector.List | reflector.Watch | reflector.Probe

#: Seconds of work, and objects of a page, after which the loop gets its turn. An admission review
#: needs four or five turns from its first byte to its last, and has 10 ms for them.
_SLICE, _AT_ONCE = 0.001, 25
#: Part of the inactivity time by which a deadline may move before its timer is set anew.
_SLACK = 0.02
_PAGE = 500


class Informer(Generic[T]):
    """A cache of one kind (and scope, selector, view). Made by `cluster.Cluster.informer`."""

    def __init__(
        self,
        client: kube_client.Client,
        resource: resources.Resource,
        view: Callable[[bytes], T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timing: timings.Timing | None = None,
        registry: metrics.Registry | None = None,
        ordered: Callable[[], bool] = lambda: False,
        streaming: bool = True,
        budget: budgets.Budget | None = None,
    ) -> None:
        self.resource = resource
        self._client = client
        self._view = view
        self._namespace = namespace
        selectors = {"label_selector": label_selector, "field_selector": field_selector}
        self._selectors: dict[str, Any] = selectors
        self._timing = timing or timings.Timing()
        self._ordered = ordered
        self._store: store.Store[T] = store.Store()
        self._budget = budget
        self._machine = reflector.Reflector(timing=self._timing, streaming=streaming)
        self._handlers: handlers.Handlers[T] = handlers.Handlers(
            resource.group_resource, registry or metrics.Registry()
        )
        self._synced = asyncio.Event()
        self._gap_handlers: list[Callable[[str], None]] = []
        self._reached = ""  # the last version that was not lost
        self._in_gap = False
        self._waiters = waiting.Waiters()
        self._now: Callable[[], float] = lambda: 0.0
        #: Time of the loop at which the server was last heard of.
        self.heard = 0.0
        self._handlers.follow("informer_objects", "Objects in the cache.", lambda: len(self))
        self._handlers.follow(
            "informer_silence_seconds",
            "Since the server was last heard of.",
            lambda: self._now() - self.heard,
        )

    # --- reading

    @property
    def synced(self) -> bool:
        """Whether the first list is complete."""
        return self._synced.is_set()

    @property
    def resource_version(self) -> str:
        """The version up to which the cache contains everything; "" while relisting."""
        return self._machine.resource_version

    @property
    def following(self) -> bool:
        """Whether changes reach this cache as they happen; else it may be behind."""
        return self._machine.watching

    @property
    def relists(self) -> int:
        """How many lists were completed."""
        return self._machine.relists

    def __len__(self) -> int:
        return len(self._store)

    def get(self, name: str, namespace: str = "") -> T | None:
        """Return one object as last seen; it is shared and must not be changed."""
        return self._store.get((namespace, name))

    def list(self, namespace: str | None = None) -> builtins.list[T]:
        """Return all objects, or those of one namespace."""
        return self._store.list(namespace)

    def by_index(self, index: str, value: str) -> builtins.list[T]:
        """Return the objects for which the index function gave `value`."""
        return self._store.by_index(index, value)

    def index_values(self, index: str) -> builtins.list[str]:
        """Return every value that an index has objects for."""
        return self._store.index_values(index)

    def add_index(self, name: str, function: store.Index[T]) -> None:
        """Add an index; adding the same name again is allowed and changes nothing."""
        if not self._store.has_index(name):
            self._store.add_index(name, function)

    def version_of(self, name: str, namespace: str = "") -> str:
        """Return the resourceVersion of one cached object, "" when it is not there."""
        return self._store.version((namespace, name))

    def subscribe(self, handler: Handler[T]) -> Callable[[], None]:
        """Call `handler` with every change from now on, after one "added" for what is here.

        It is called inside the informer's loop: it computes keys and must not wait. Returns a
        function that ends the subscription.
        """
        return self._handlers.add(handler, self._store.replay())

    def at_least(self, resource_version: str) -> bool:
        """Tell whether the cache surely contains a write of this version; see `versions`."""
        return versions.at_least(self.resource_version, resource_version, ordered=self._ordered())

    async def wait_synced(self) -> None:
        """Wait for the first list to be complete."""
        await self._synced.wait()

    async def wait_for(self, resource_version: str, timeout: float) -> bool:
        """Wait until `at_least` holds; False at the deadline, or at once when it cannot be known."""
        if self.at_least(resource_version):
            return True
        wanted = versions.number(resource_version)
        if wanted is None or not self._ordered():
            return False
        return await self._waiters.wait(wanted, timeout)

    # --- saving and restoring

    def saved(self) -> Saved[T]:
        """Return the content, to be stored; the version is "" when there is nothing to go on from."""
        return Saved(self.resource_version, tuple(self._store.held()))

    def restore(self, saved: Saved[T]) -> None:
        """Go on from what was saved, before `run`: only what changed since is asked for."""
        if not saved.resource_version:
            return
        for one in saved.objects:
            version = one.resource_version
            events = self._store.put(
                one.key, one.value, uid=one.uid, resource_version=version, initial=True
            )
            self._handlers.tell(events)
        self._machine = reflector.Reflector(
            timing=self._timing,
            streaming=self._machine.streaming,
            resource_version=saved.resource_version,
        )
        self._reached = saved.resource_version
        self._synced.set()

    def on_gap(self, handler: Callable[[str], None]) -> Callable[[], None]:
        """Call `handler` before a list that bridges lost history, with the last version known."""
        self._gap_handlers.append(handler)
        return lambda: self._gap_handlers.remove(handler)

    # --- following the server

    async def run(self) -> None:
        """Follow the server until cancelled."""
        self._now = asyncio.get_running_loop().time
        actions = self._machine.step(reflector.Started(), self._now())
        while True:
            request = self._perform(actions)
            if isinstance(request, reflector.List):
                with memory.paused() if not self.synced else contextlib.nullcontext():
                    actions = await self._list()
            elif isinstance(request, reflector.Watch):
                actions = await self._watch(request)
            elif isinstance(request, reflector.Probe):
                actions = await self._probe()
            else:
                await asyncio.sleep(max(0.0, self._machine.deadline - self._now()))
                actions = self._machine.step(reflector.Tick(), self._now())

    async def _list(self) -> builtins.list[reflector.Action]:
        version = ""
        try:
            async with self._pages(_PAGE, **self._selectors) as pages:
                async for page in pages:
                    version = page.resource_version
                    for start in range(0, len(page.items), _AT_ONCE):
                        some = page.items[start : start + _AT_ONCE]
                        items = [views.item(bytes(raw)) for raw in some]
                        self._step(reflector.Listed(items, version, last=False))
                        await asyncio.sleep(0)
        except Exception as error:
            return self._failed("list", error)
        return self._machine.step(reflector.Listed([], version, last=True), self._now())

    async def _probe(self) -> builtins.list[reflector.Action]:
        try:
            # Rights may rest on the name; for labels the server would read until an object has them.
            async with self._pages(1, field_selector=self._selectors["field_selector"]) as pages:
                page = await anext(pages)
        except Exception as error:
            return self._failed("probe", error)
        return self._machine.step(reflector.Probed(page.resource_version), self._now())

    def _pages(self, limit: int, **selectors: Any) -> contextlib.aclosing[_Pages]:
        pages = self._client.pages(self.resource, self._namespace, **selectors, limit=limit)
        return contextlib.aclosing(cast("_Pages", pages))

    async def _watch(self, wanted: reflector.Watch) -> builtins.list[reflector.Action]:
        machine = self._machine
        try:
            with contextlib.ExitStack() as filling:
                if not self.synced:
                    filling.enter_context(memory.paused())
                return await self._stream(wanted, filling)
        except TimeoutError:
            self._handlers.interrupted("watch", "silent")
            return machine.step(reflector.Tick(), self._now())
        except Exception as error:
            return self._failed("watch", error)

    async def _stream(
        self, wanted: reflector.Watch, filling: contextlib.ExitStack
    ) -> builtins.list[reflector.Action]:
        machine = self._machine
        slack = _SLACK * self._timing.inactivity
        async with (
            asyncio.timeout_at(machine.deadline) as watchdog,
            self._client.watch(
                self.resource,
                self._namespace,
                resource_version=wanted.resource_version,
                **self._selectors,
                timeout_seconds=wanted.timeout_seconds,
                send_initial_events=wanted.stream,
            ) as stream,
            contextlib.aclosing(stream.batches()) as batches,
        ):
            self._step(reflector.Opened())
            async for lines in batches:
                rest = iter(lines)
                while True:
                    if not self._follow(rest):
                        break
                    await asyncio.sleep(0)
                del lines, rest  # nothing that was read is held while the stream is silent
                if machine.waiting:
                    return []
                if self.synced:
                    filling.close()
                when = watchdog.when()
                if when is None or machine.deadline - when > slack:
                    watchdog.reschedule(machine.deadline)
        return machine.step(reflector.Ended(), self._now())

    def _follow(self, lines: Iterator[bytes]) -> bool:
        """Work off lines for one turn of the loop; tell whether any may be left."""
        machine, now = self._machine, self._now
        self.heard = began = now()
        machine.alive(began)
        try:
            for line in lines:
                change = kube_watch.change(line)
                if change is None:
                    self._step(views.what_happened(line))
                else:
                    kind, item = change[0], views.item(change[1])
                    if not machine.follow(kind, item):
                        self._step(reflector.Changed(kind, item))
                    elif kind == "DELETED":
                        self._remove(item)
                    else:
                        self._put(item, initial=not machine.synced, afresh=machine.afresh)
                if machine.waiting:
                    return False
                if now() - began > _SLICE:
                    return True
            return False
        finally:
            self._reach()

    def _reach(self) -> None:
        if self._machine.resource_version:
            self._reached = self._machine.resource_version
            if self._waiters:
                self._waiters.release(versions.number(self._reached))

    def _failed(self, part: str, error: Exception) -> builtins.list[reflector.Action]:
        failed = failing.meaning(error)
        if failed is None:
            raise error  # a defect of ours: ends the process, visibly
        self._handlers.interrupted(part, str(error) or type(error).__name__)
        return self._machine.step(failed, self._now())

    def _step(self, what: reflector.Input) -> None:
        self.heard = self._now()
        self._perform(self._machine.step(what, self.heard))

    def _perform(self, actions: builtins.list[reflector.Action]) -> _Request | None:
        request: _Request | None = None
        for action in actions:
            match action:
                case reflector.Put():
                    self._put(action.item, initial=action.initial, afresh=action.afresh)
                case reflector.Remove():
                    self._remove(action.item)
                case reflector.Complete():
                    self._tell(self._store.sweep())
                    self._synced.set()
                    self._in_gap = False
                case reflector.List() | reflector.Watch() | reflector.Probe():
                    request = action
                    if not self._machine.resource_version:
                        self._store.mark()
        self._reach()
        if (
            not self._machine.resource_version
            and request is not None
            and self.synced
            and not self._in_gap
        ):
            self._in_gap = True
            for handler in self._gap_handlers:
                handler(self._reached)
        return request

    def _put(self, item: reflector.Item, *, initial: bool, afresh: bool) -> None:
        key, uid, version = item.key, item.uid, item.resource_version
        if self._store.sees(key, uid, version) and not afresh:
            return  # a relist shows mostly what is known: no need to decode it
        try:
            value = self._view(item.raw)
        except Exception as error:
            # One odd object must not take all others away; it is as if it were not there.
            self._handlers.undecodable(key, error)
            self._tell(self._store.remove(key))
            return
        if self._budget is not None:
            self._budget.put((self, key), len(item.raw), self.resource.group_resource)
        events = self._store.put(
            key, value, uid=uid, resource_version=version, initial=initial, afresh=afresh
        )
        self._handlers.tell(events)

    def _remove(self, item: reflector.Item) -> None:
        if item.key not in self._store:
            return
        final: T | None = None
        try:
            final = self._view(item.raw)
        except Exception as error:
            self._handlers.undecodable(item.key, error)
        uid, version = item.uid, item.resource_version
        self._tell(self._store.remove(item.key, uid=uid, final=final, resource_version=version))

    def _tell(self, events: Iterable[store.Event[T]]) -> None:
        """Tell of objects that went; what they held is free."""
        for event in events:
            if self._budget is not None:
                self._budget.remove((self, event.key))
            self._handlers.tell((event,))
