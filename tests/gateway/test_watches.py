"""When open watches end: by time, by RBAC, by what is known, and by knowing nothing any more."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from tenantry.gateway import authenticate, decide, errors, heartbeat, snapshot, watches
from tenantry.gateway.identity import Identity
from tenantry.kube import access
from tenantry.kube import errors as kube_errors
from tenantry.runtime import store

from .conftest import Known, person

PODS = "/api/v1/namespaces/oil-1/pods?watch=true"
EVERYWHERE = "/api/v1/pods?watch=true"
NAMESPACES = "/api/v1/namespaces?watch=true"


class Authenticator:
    """Knows everybody, and asks nobody."""

    def __init__(self) -> None:
        self.who: Identity | errors.Refused = person("alice")
        self.denied: set[str] = set()
        self.broken = False
        self.asked: list[access.Question] = []

    async def identify(self, _: authenticate.Caller, **_more: float) -> Identity:
        if isinstance(self.who, errors.Refused):
            raise self.who
        return self.who

    async def may(self, _: Identity, question: access.Question) -> bool:
        self.asked.append(question)
        if self.broken:
            raise kube_errors.Unreachable("down")
        return question.namespace not in self.denied


class World:
    def __init__(self, known: Known) -> None:
        self.known = known
        self.authenticator = Authenticator()
        self.now = 1000.0
        self.fresh = True
        asked: Any = self.authenticator
        self.watches = watches.Watches(
            known.snapshot, asked, wall=lambda: self.now, fresh=lambda: self.fresh
        )
        self.ended: list[str] = []
        self.ends = asyncio.Event()

    def open(
        self, target: str, *, key: str = "k", token: str = "", ends: float = float("inf")
    ) -> None:
        request = decide.parse("GET", target)
        caller = authenticate.Caller(token, None, None, key.encode(), ends)
        who: Identity | None = person("alice")
        namespaces: list[str] = []
        if decide.concerns(request):
            assert who is not None
            decision = decide.decide(request, who, self.known.snapshot)
        else:
            decision, who = decide.Pass(), None
            assert request.target is not None
            namespaces = [request.target.namespace]
        if isinstance(decision, decide.Fanout):
            namespaces = list(decision.namespaces)

        def end() -> None:
            self.ended.append(target)
            self.ends.set()

        self.watches.add(watches.Watch(request, caller, who, decision, end, namespaces))

    def taken(self, namespace: str) -> None:
        """Tell of a RoleBinding that is gone."""
        self.watches.rights_changed(
            store.Event(type="deleted", key=(namespace, "b"), old=snapshot.RightView("1"))
        )

    def added(self, namespace: str) -> None:
        self.watches.rights_changed(
            store.Event(type="added", key=(namespace, "b"), new=snapshot.RightView("1"))
        )


@pytest.fixture
async def world(known: Known, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(watches, "_DEBOUNCE", 0.001)
    monkeypatch.setattr(watches, "_RECHECK", 0.02)
    found = World(known)
    running = asyncio.create_task(found.watches.run())
    yield found
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def until(world: World, *ended: str) -> None:
    async with asyncio.timeout(10):
        while sorted(world.ended) != sorted(ended):
            world.ends.clear()
            await world.ends.wait()


async def settled(world: World) -> None:
    """Wait until everything was looked at twice more."""
    await asyncio.sleep(0.1)


def token(ends: float) -> str:
    claims = base64.urlsafe_b64encode(msgspec.json.encode({"exp": ends})).rstrip(b"=")
    return f"e30.{claims.decode()}.sig"


async def test_a_token_that_runs_out_ends_every_watch(world: World) -> None:
    world.open(PODS, token=token(1010))
    world.open(EVERYWHERE, token=token(1010))
    world.open(NAMESPACES, token=token(2000))
    await settled(world)
    assert world.ended == []
    world.now = 1010
    await until(world, PODS, EVERYWHERE)


async def test_a_certificate_that_runs_out_ends_every_watch(world: World) -> None:
    world.open(PODS, ends=1010)
    world.now = 1010
    await until(world, PODS)


async def test_a_right_that_is_taken_ends_what_rested_on_it(world: World) -> None:
    world.open(PODS)
    world.open(EVERYWHERE)
    world.open("/api/v1/namespaces/gas-1/pods?watch=true")
    world.open(NAMESPACES)
    world.authenticator.denied = {"oil-1"}
    world.taken("oil-1")
    await until(world, PODS, EVERYWHERE)
    assert {question.namespace for question in world.authenticator.asked} == {"oil-1"}
    assert {question.verb for question in world.authenticator.asked} == {"watch"}


async def test_a_cluster_role_is_asked_about_everywhere(world: World) -> None:
    world.open(EVERYWHERE)
    world.authenticator.denied = {"gas-1"}
    world.taken("")
    await until(world, EVERYWHERE)


async def test_what_is_only_added_asks_nobody(world: World) -> None:
    world.open(PODS)
    world.added("oil-1")
    world.taken("wind-1")
    await settled(world)
    assert (world.ended, world.authenticator.asked) == ([], [])


async def test_no_answer_ends_no_watch(world: World) -> None:
    world.open(PODS)
    world.open(NAMESPACES)
    world.authenticator.broken = True
    world.authenticator.who = errors.Refused(503, "ServiceUnavailable", "down")
    world.taken("oil-1")
    await settled(world)
    assert world.ended == []


async def test_equal_watches_of_a_caller_ask_once(world: World) -> None:
    for _ in range(50):
        world.open(PODS)
    world.taken("oil-1")
    await settled(world)
    assert 1 <= len(world.authenticator.asked) <= 2


async def test_a_watch_of_one_object_is_asked_about_by_name(world: World) -> None:
    world.open(f"{PODS}&fieldSelector=metadata.name%3Dbox,spec.nodeName%3Dn")
    world.taken("oil-1")
    await settled(world)
    assert {question.name for question in world.authenticator.asked} == {"box"}


async def test_who_is_nobody_any_more_is_shown_nothing_more(world: World) -> None:
    """Though the cluster never rests: changes must not keep callers from being looked at."""
    world.open(NAMESPACES)
    world.authenticator.who = errors.Unauthenticated()
    async with asyncio.timeout(10):
        while not world.ended:
            world.known.snapshot.changed()
            await asyncio.sleep(0)
    assert world.ended == [NAMESPACES]


async def test_who_is_another_now_is_decided_about_anew(world: World) -> None:
    world.open(NAMESPACES)
    world.authenticator.who = person("bob")
    await until(world, NAMESPACES)


async def test_more_or_less_extra_makes_nobody_another(world: World) -> None:
    world.open(NAMESPACES)
    alice = person("alice")
    groups = tuple(reversed(alice.groups))
    world.authenticator.who = Identity("alice", groups, "uid", (("k", ("v",)),))
    await settled(world)
    assert world.ended == []


async def test_who_knows_nothing_any_more_narrows_nothing(world: World) -> None:
    world.open(NAMESPACES)
    world.open(EVERYWHERE)
    world.open(PODS)
    world.fresh = False
    await until(world, NAMESPACES, EVERYWHERE)


def test_what_was_not_touched_for_long_is_stale() -> None:
    found = heartbeat.Freshness(missed=15.0)
    assert not found.fresh(0.0)
    found.beat(100.0)
    assert found.fresh(114.9)
    assert not found.fresh(115.0)
    assert found.age(103.0) == 3.0
    found.beat(120.0)
    assert found.fresh(121.0)
