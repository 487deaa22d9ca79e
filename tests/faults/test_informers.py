"""Faults under an informer: what it holds in the end is what the API server has."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import Any

import pytest

from tenantry.api import resources
from tenantry.kube import client as kube
from tenantry.kube import config as configs
from tenantry.kube import errors
from tenantry.runtime import cluster, informer, views

from . import proxy as proxies
from .conftest import QUICK, Follow, config_map, fill, until

pytestmark = pytest.mark.plane

GONE = proxies.Answer(410, "Expired")


def calm(front: proxies.Proxy, before: int, at_most: int) -> None:
    """Nothing spins: only so many requests since."""
    asked = [f"{each.method} {each.path} {dict(each.query)}" for each in front.requests[before:]]
    assert len(asked) <= at_most, asked


@pytest.mark.parametrize(
    "fault",
    [
        proxies.Cut(0),
        proxies.Cut(700),
        proxies.Cut(5000),
        proxies.Refuse(),
        proxies.Answer(500, "InternalError"),
        proxies.Answer(503, "ServiceUnavailable", {"Retry-After": "1"}),
        proxies.Answer(502, body=b"<html>bad gateway</html>"),
        proxies.Answer(429, "TooManyRequests", {"Retry-After": "1"}),
        GONE,
    ],
    ids=["cut-0", "cut-700", "cut-5000", "refused", "500", "503", "502", "429", "410"],
)
@pytest.mark.parametrize("streaming", [True, False], ids=["watch-list", "pages"])
async def test_the_first_list(
    *,
    front: proxies.Proxy,
    admin: kube.Client,
    namespace: str,
    follow: Follow,
    fault: proxies.Fault,
    streaming: bool,
) -> None:
    await fill(admin, namespace, 20)
    if not streaming:
        front.add(proxies.Answer(422, "Invalid"), lambda seen: "sendInitialEvents" in seen.query)
    rule = front.add(fault, lambda seen: namespace in seen.path and seen.watch == streaming)
    oracle = await follow()
    assert rule.hits == 1
    await oracle.agrees(admin)
    calm(front, 0, 8)


async def test_a_streaming_list_expires_half_way(
    front: proxies.Proxy, admin: kube.Client, namespace: str, follow: Follow
) -> None:
    await fill(admin, namespace, 20)
    seen = 0

    def some(event: dict[str, Any]) -> list[bytes]:
        nonlocal seen
        seen += 1
        status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
        if seen <= 7:
            return [proxies.line(event["type"], event["object"])]
        return [proxies.line("ERROR", status)] if seen == 8 else []

    rule = front.add(proxies.Lines(some), proxies.watches)
    oracle = await follow()
    assert rule.hits == 1
    await oracle.agrees(admin)
    # What came before it was not told a second time.
    assert oracle.events["added"] == 20
    calm(front, 0, 4)


@pytest.mark.parametrize("streaming", [True, False], ids=["watch-list", "pages"])
async def test_the_first_list_stalls_half_way(
    *,
    front: proxies.Proxy,
    admin: kube.Client,
    namespace: str,
    follow: Follow,
    streaming: bool,
) -> None:
    await fill(admin, namespace, 20)
    if not streaming:
        front.add(proxies.Answer(422, "Invalid"), lambda seen: "sendInitialEvents" in seen.query)
    rule = front.add(
        proxies.Stall(3000), lambda seen: namespace in seen.path and seen.watch == streaming
    )
    source = kube.Client(front.config(), timeout=1.0)
    oracle = await follow(source=source, timings=dataclasses.replace(QUICK, inactivity=1.0))
    assert rule.hits == 1
    await oracle.agrees(admin)
    calm(front, 0, 8)
    await source.close()


async def test_gone_between_pages(
    front: proxies.Proxy,
    admin: kube.Client,
    namespace: str,
    follow: Follow,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(informer, "_PAGE", 10)
    await fill(admin, namespace, 30)
    front.add(proxies.Answer(422, "Invalid"), lambda seen: "sendInitialEvents" in seen.query)
    rule = front.add(GONE, lambda seen: "continue" in seen.query)
    oracle = await follow()
    assert rule.hits == 1
    await oracle.agrees(admin)
    assert oracle.events["added"] == 30


async def change(admin: kube.Client, namespace: str) -> None:
    """Add, change and remove something."""
    await admin.create(resources.CONFIG_MAPS, config_map(namespace, "new"))
    await admin.delete(resources.CONFIG_MAPS, "a0", namespace)
    await admin.apply(
        resources.CONFIG_MAPS, config_map(namespace, "a1", text="y"), field_manager="t"
    )


@pytest.mark.parametrize(
    "refusal",
    [
        proxies.Answer(410, "Expired"),
        proxies.Answer(500, "InternalError"),
        proxies.Answer(429, "TooManyRequests", {"Retry-After": "1"}),
        proxies.Answer(401, "Unauthorized"),
        proxies.Answer(404, "NotFound"),
        proxies.Refuse(),
    ],
    ids=["410", "500", "429", "401", "404", "refused"],
)
async def test_a_watch_is_cut_and_the_next_one_refused(
    front: proxies.Proxy,
    admin: kube.Client,
    namespace: str,
    follow: Follow,
    refusal: proxies.Fault,
) -> None:
    await fill(admin, namespace, 5)
    oracle = await follow()
    before = len(front.requests)
    rule = front.add(refusal, proxies.watches)
    front.cut()
    await change(admin, namespace)
    await until(lambda: rule.hits)
    await oracle.agrees(admin)
    assert oracle.events["deleted"] == 1
    calm(front, before, 6)


async def test_the_right_to_one_name_is_enough_after_a_failure(
    front: proxies.Proxy, admin: kube.Client, namespace: str
) -> None:
    reader = f"{namespace}-reader"
    about = {"metadata": {"name": "reader", "namespace": namespace}}
    one = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["one"]}
    await admin.create(resources.ROLES, {**about, "rules": [{**one, "verbs": ["list", "watch"]}]})
    rbac = "rbac.authorization.k8s.io"
    bound = {
        "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "reader"},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": reader}],
    }
    await admin.create(resources.ROLE_BINDINGS, {**about, **bound})
    await admin.create(resources.CONFIG_MAPS, config_map(namespace, "one", text="x"))
    config = front.config(impersonate=configs.Impersonate(user=reader))
    made = cluster.Cluster(config, timing=QUICK)
    followed = made.informer(
        resources.CONFIG_MAPS,
        views.as_dict,
        namespace=namespace,
        field_selector="metadata.name=one",
    )
    async with made:
        await made.wait_synced(20)
        front.cut()
        await admin.apply(
            resources.CONFIG_MAPS, config_map(namespace, "one", text="y"), field_manager="t"
        )

        def is_seen() -> bool:
            found = followed.get("one", namespace)
            return found is not None and found["data"] == {"text": "y"}

        await until(is_seen)


async def test_gone_inside_the_stream(
    front: proxies.Proxy, admin: kube.Client, namespace: str, follow: Follow
) -> None:
    await fill(admin, namespace, 5)

    def instead(event: dict[str, Any]) -> list[bytes]:
        status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
        return [proxies.line("ERROR", status)]

    oracle = await follow()
    front.add(proxies.Lines(instead), lambda seen: seen.watch)
    front.cut()
    await until(lambda: front.rules[0].hits)
    await change(admin, namespace)
    await oracle.agrees(admin)
    assert oracle.followed.relists == 2


@pytest.mark.parametrize("size", [1, 40, 900], ids=["after-1", "after-40", "after-900"])
async def test_half_a_line(
    front: proxies.Proxy, admin: kube.Client, namespace: str, follow: Follow, size: int
) -> None:
    await fill(admin, namespace, 3)
    oracle = await follow()
    rule = front.add(proxies.Cut(size), proxies.watches)
    front.cut()
    await until(lambda: rule.hits)
    await change(admin, namespace)
    await oracle.agrees(admin)
    assert oracle.followed.relists == 1


async def test_a_stalled_watch_is_left(
    front: proxies.Proxy, admin: kube.Client, namespace: str, follow: Follow
) -> None:
    await fill(admin, namespace, 3)
    oracle = await follow(timings=dataclasses.replace(QUICK, inactivity=1.0))
    rule = front.add(proxies.Stall(0), proxies.watches)
    front.cut()
    await until(lambda: rule.hits)
    await change(admin, namespace)
    await oracle.agrees(admin)


async def test_a_slow_loris_delays_and_loses_nothing(
    front: proxies.Proxy, admin: kube.Client, namespace: str, follow: Follow
) -> None:
    await fill(admin, namespace, 3)
    front.add(proxies.Drip(97, 0.01), proxies.watches, times=None)
    oracle = await follow()
    await change(admin, namespace)
    await oracle.agrees(admin)
    assert oracle.followed.relists == 1


async def _storm(front: proxies.Proxy, admin: kube.Client, namespace: str, seconds: float) -> int:
    """Say 429 to everything for a while, during which the world goes on; returns the requests."""
    front.add(proxies.Answer(429, "TooManyRequests", {"Retry-After": "1"}), times=None)
    before = len(front.requests)
    front.cut()
    await change(admin, namespace)
    await asyncio.sleep(seconds)
    front.clear()
    return len(front.requests) - before


@pytest.mark.parametrize("seconds", [3, pytest.param(60, marks=pytest.mark.long)])
async def test_429_for_a_while(
    front: proxies.Proxy, admin: kube.Client, namespace: str, follow: Follow, seconds: int
) -> None:
    await fill(admin, namespace, 3)
    oracle = await follow()
    asked = await _storm(front, admin, namespace, seconds)
    assert asked <= 2 * seconds + 4
    await oracle.agrees(admin, within=40)


async def test_500s_for_a_while(
    front: proxies.Proxy, admin: kube.Client, namespace: str, follow: Follow
) -> None:
    await fill(admin, namespace, 3)
    oracle = await follow()
    front.add(proxies.Answer(500, "InternalError"), times=None)
    before, began = len(front.requests), time.monotonic()
    front.cut()
    await change(admin, namespace)
    await asyncio.sleep(2.0)
    # Delays of 0.05, 0.1, 0.2, 0.4, 0.5, 0.5, ...: of the informer, and of who asks for the version.
    calm(front, before, 2 * (5 + int(2 * (time.monotonic() - began))))
    front.clear()
    await oracle.agrees(admin)


async def test_one_replica_is_held_back_and_catches_up(
    front: proxies.Proxy, admin: kube.Client, namespace: str, follow: Follow
) -> None:
    await fill(admin, namespace, 3)
    async with (
        kube.Client(front.config(), user_agent="slow") as slow,
        kube.Client(front.config(), user_agent="quick") as quick,
    ):
        late, current = await follow(source=slow), await follow(source=quick)
        front.held.add("slow")
        await change(admin, namespace)
        await current.agrees(admin)
        assert late.followed.get("new", namespace) is None
        front.held.clear()
        await late.agrees(admin)


CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "spec": {
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


async def test_a_crd_is_deleted_and_recreated(
    front: proxies.Proxy, admin: kube.Client, namespace: str, follow: Follow
) -> None:
    group = f"{namespace}.example.com"
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    wanted = {
        **CRD,
        "metadata": {"name": f"things.{group}"},
        "spec": {**CRD["spec"], "group": group, "names": names},
    }
    things = resources.Resource(group, "v1", "things", "Thing")

    async def serve() -> None:
        await admin.create(resources.CRDS, wanted)
        async with asyncio.timeout(20):
            while True:
                try:
                    await admin.list(things)
                except errors.NotFound:
                    await asyncio.sleep(0.05)
                else:
                    return

    async def make(name: str) -> None:
        body = {"metadata": {"name": name, "namespace": namespace, "labels": {"faults": "mine"}}}
        async with asyncio.timeout(20):
            while True:
                try:
                    await admin.create(things, body)
                except (errors.NotFound, errors.MethodNotAllowed):
                    await asyncio.sleep(0.05)
                else:
                    return

    await serve()
    await make("old")
    await make("both")
    oracle = await follow(resource=things)
    await oracle.agrees(admin)
    before = len(front.requests)
    await admin.delete(resources.CRDS, f"things.{group}")
    await until(lambda: not oracle.followed.list())
    await asyncio.sleep(0.5)
    await serve()
    await make("both")
    await make("new")
    await oracle.agrees(admin)
    calm(front, before, 25)
