"""Debounced statuses against a real API server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tenantry.api import resources
from tenantry.kube import client as kube
from tenantry.runtime import apply, status, timing

from .conftest import Proxy, Until

pytestmark = pytest.mark.plane

T = timing.Timing(debounce=0.2)


def condition(text: str) -> dict[str, Any]:
    stamp = "2026-01-01T00:00:00Z"
    return {
        "conditions": [
            {
                "type": "example.com/Ready",
                "status": "True",
                "reason": "Test",
                "message": text,
                "lastTransitionTime": stamp,
            }
        ]
    }


async def messages(admin: kube.Client, namespace: str) -> list[str]:
    found = await admin.get(resources.NAMESPACES, namespace)
    return [each["message"] for each in found["status"].get("conditions", [])]


async def eventually(admin: kube.Client, namespace: str, wanted: list[str]) -> None:
    async with asyncio.timeout(10):
        while True:
            if await messages(admin, namespace) == wanted:
                return
            await asyncio.sleep(0.02)


async def test_only_the_last_of_many_is_written(
    admin: kube.Client, namespace: str, until: Until
) -> None:
    observed = await admin.get(resources.NAMESPACES, namespace)
    applier = apply.Applier(admin, "status-test", timing=T)
    writer = status.Writer(applier, resources.NAMESPACES, lambda key: observed, timing=T)
    running = asyncio.create_task(writer.run())
    for number in range(50):
        writer.set(("", namespace), condition(str(number)))
        await asyncio.sleep(0)
    assert applier.sent == 0
    await eventually(admin, namespace, ["49"])
    assert applier.sent == 1
    # What is there already is not sent again.
    observed = await admin.get(resources.NAMESPACES, namespace)
    writer.set(("", namespace), condition("49"))
    await until(lambda: applier.skipped == 1)
    assert applier.sent == 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_failed_write_is_made_again(
    proxy: Proxy, admin: kube.Client, namespace: str, until: Until
) -> None:
    observed = await admin.get(resources.NAMESPACES, namespace)
    async with kube.Client(proxy.config, timeout=1.0) as client:
        applier = apply.Applier(client, "status-test", timing=T)
        writer = status.Writer(applier, resources.NAMESPACES, lambda key: observed, timing=T)
        running = asyncio.create_task(writer.run())
        proxy.accepting = False
        proxy.cut()
        writer.set(("", namespace), condition("late"))
        await until(lambda: applier.sent)
        proxy.accepting = True
        await until(lambda: not len(writer))
        await eventually(admin, namespace, ["late"])
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_what_went_meanwhile_is_not_tried_again(
    admin: kube.Client, namespace: str, until: Until
) -> None:
    observed = await admin.get(resources.NAMESPACES, namespace)
    observed["metadata"]["name"] += "-gone"
    applier = apply.Applier(admin, "status-test", timing=T)
    writer = status.Writer(
        applier, resources.NAMESPACES, lambda key: observed, timing=timing.Timing(debounce=0.0)
    )
    running = asyncio.create_task(writer.run())
    writer.set(("", f"{namespace}-gone"), condition("x"))
    await until(lambda: applier.sent == 1 and not len(writer))
    await asyncio.sleep(0.05)
    assert applier.sent == 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_what_waits_is_flushed_and_what_is_gone_is_dropped(
    admin: kube.Client, namespace: str
) -> None:
    observed = await admin.get(resources.NAMESPACES, namespace)
    applier = apply.Applier(admin, "status-test", timing=T)
    here = ("", namespace)
    writer = status.Writer(
        applier, resources.NAMESPACES, lambda key: observed if key == here else None, timing=T
    )
    writer.set(here, condition("last"))
    writer.set(("", "nobody"), condition("x"))
    await writer.flush()
    assert await messages(admin, namespace) == ["last"]
    assert applier.sent == 1
    assert not len(writer)
