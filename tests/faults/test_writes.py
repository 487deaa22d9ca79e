"""Faults under a write: what the client says about it is true, and nothing is written twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenantry.api import resources
from tenantry.kube import client as kube
from tenantry.kube import errors, retry

from . import proxy as proxies
from .conftest import config_map

pytestmark = pytest.mark.plane

QUICK = retry.Policy(base=0.01, cap=0.1)


def connect(front: proxies.Proxy, **options: Any) -> kube.Client:
    return kube.Client(front.config(), policy=QUICK, **options)


async def exists(admin: kube.Client, namespace: str, name: str) -> bool:
    try:
        await admin.get(resources.CONFIG_MAPS, name, namespace)
    except errors.NotFound:
        return False
    return True


@pytest.mark.parametrize(
    ("fault", "happened", "outcome"),
    [
        (proxies.Lose(), True, "unknown"),
        (proxies.Cut(0), True, "unknown"),
        (proxies.Cut(100), True, "unknown"),
        (proxies.Stall(10), True, "unknown"),
        (proxies.Refuse(), False, "unknown"),
        (proxies.Answer(500, "InternalError"), False, "unknown"),
        (proxies.Answer(502, body=b"<html>"), False, "unknown"),
        (proxies.Answer(403, "Forbidden"), False, "rejected"),
        (proxies.Answer(500, "ServerTimeout"), False, "rejected"),
    ],
    ids=[
        "answer-lost", "cut-0", "cut-100", "stalled", "cut-before", "500", "502", "403",
        "server-timeout",
    ],
)  # fmt: skip
async def test_a_create_is_never_repeated_blindly(
    *,
    front: proxies.Proxy,
    admin: kube.Client,
    namespace: str,
    fault: proxies.Fault,
    happened: bool,
    outcome: str,
) -> None:
    front.add(fault, proxies.writes)
    async with connect(front, timeout=1.0) as client:
        with pytest.raises(errors.KubeError) as caught:
            await client.create(resources.CONFIG_MAPS, config_map(namespace, "a"))
    assert caught.value.outcome == outcome
    assert front.count(proxies.writes) == 1
    assert await exists(admin, namespace, "a") == happened


@pytest.mark.parametrize(
    "fault",
    [
        proxies.Answer(429, "TooManyRequests", {"Retry-After": "1"}),
        proxies.Answer(503, "ServiceUnavailable", {"Retry-After": "1"}),
        proxies.Answer(500, "ServerTimeout", {"Retry-After": "1"}),
    ],
    ids=["429", "503", "server-timeout"],
)
async def test_a_create_that_was_turned_away_comes_back_once(
    front: proxies.Proxy, admin: kube.Client, namespace: str, fault: proxies.Fault
) -> None:
    front.add(fault, proxies.writes, times=2)
    body = {**config_map(namespace, ""), "metadata": {"namespace": namespace, "generateName": "a-"}}
    async with connect(front) as client:
        await client.create(resources.CONFIG_MAPS, body)
    assert front.count(proxies.writes) == 3
    first, second, third = (seen.at for seen in front.requests if seen.writes)
    assert second - first >= 1
    assert third - second >= 1
    made = await admin.list(resources.CONFIG_MAPS, namespace)
    assert sum(b'"a-' in bytes(raw) for raw in made.items) == 1


@pytest.mark.parametrize(
    "fault",
    [
        proxies.Lose(),
        proxies.Cut(50),
        proxies.Refuse(),
        proxies.Answer(502, body=b"<html>"),
        proxies.Answer(504, "Timeout"),
    ],
    ids=["answer-lost", "half-answer", "cut-before", "502", "504"],
)
async def test_an_apply_is_repeated_and_happens_once(
    front: proxies.Proxy, admin: kube.Client, namespace: str, fault: proxies.Fault
) -> None:
    front.add(fault, proxies.writes)
    async with connect(front) as client:
        made = await client.apply(
            resources.CONFIG_MAPS, config_map(namespace, "a", x="1"), field_manager="t"
        )
    assert front.count(proxies.writes) == 2
    stored = await admin.get(resources.CONFIG_MAPS, "a", namespace)
    # The second apply changed nothing: the version is that of the first.
    assert stored["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_a_deadline_is_kept_through_a_storm(front: proxies.Proxy, namespace: str) -> None:
    front.add(proxies.Answer(429, "TooManyRequests", {"Retry-After": "1"}), times=None)
    loop = asyncio.get_running_loop()
    async with connect(front) as client:
        began = loop.time()
        with pytest.raises(errors.TooManyRequests):
            await client.create(resources.CONFIG_MAPS, config_map(namespace, "a"), timeout=2.5)
        assert loop.time() - began < 2.6
    assert front.count() <= 3


async def test_a_slow_answer_ends_at_the_deadline(front: proxies.Proxy, namespace: str) -> None:
    front.add(proxies.Drip(1, 0.05), times=None)
    loop = asyncio.get_running_loop()
    async with connect(front) as client:
        began = loop.time()
        with pytest.raises(errors.Unreachable):
            await client.list(resources.CONFIG_MAPS, timeout=0.5)
        assert loop.time() - began < 0.7


async def test_the_api_server_is_told_our_deadline(front: proxies.Proxy, namespace: str) -> None:
    async with connect(front) as client:
        await client.create(resources.CONFIG_MAPS, config_map(namespace, "a"), timeout=2.5)
        await client.get(resources.CONFIG_MAPS, "a", namespace, timeout=120.0)
        async with client.watch(resources.CONFIG_MAPS, namespace):
            pass
    told = [seen.query.get("timeout", "") for seen in front.requests]
    # In whole milliseconds, and never more than the server grants anyway.
    assert told[0].endswith("ms")
    assert 2000 < int(told[0].removesuffix("ms")) <= 2500
    assert told[1:] == ["", ""]
