"""What `kubectl get events` shows of the tenancy's decisions (specs/capsule 2.6)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable

import pytest

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.kube import errors

from .harness import Object, World, eventually

pytestmark = pytest.mark.plane


async def told(world: World, reason: str) -> Object:
    """Wait for an event of this test's tenant, as kubectl lists it."""

    async def there() -> Object | None:
        listed = await asyncio.to_thread(
            world.tenancy.plane.run,
            *("get", "events", "-n", "default", "-o", "json"),
            *("-l", f"{constants.MANAGED_TENANT_LABEL}={world.name('oil')}"),
        )
        found = [one for one in json.loads(listed.stdout)["items"] if one["reason"] == reason]
        return found[0] if found else None

    found = await eventually(there, reason)
    assert found is not None
    return found


async def denied(attempt: Awaitable[object]) -> None:
    with pytest.raises(errors.ApiError):
        await attempt


async def test_assignment_quota_and_hijack(world: World) -> None:
    await world.tenant(namespaceOptions={"quota": 1})
    await world.namespace(dry_run=True)
    made = await world.namespace()
    event = await told(world, "TenantAssigned")
    assert event["involvedObject"]["uid"] == made["metadata"]["uid"]
    assert event["related"]["name"] == world.name("oil")
    assert event["type"] == "Normal"
    assert event["reportingComponent"] == "controller.projectcapsule.dev"
    assert event["metadata"]["annotations"]["audit.projectcapsule.dev/username"] == world.name(
        "alice"
    )
    assert event.get("series") is None

    await denied(world.namespace("more"))
    event = await told(world, "Overprovisioned")
    assert event["involvedObject"]["name"] == world.name("oil")
    assert world.name("more") in event["message"]

    await denied(
        world.user("mallory").patch(
            resources.NAMESPACES,
            world.name("prod"),
            kind="merge",
            body={"metadata": {"labels": {"a": "b"}}},
        )
    )
    event = await told(world, "ReasonNamespacePatch")
    assert (event["type"], event["involvedObject"]["name"]) == ("Warning", world.name("prod"))


async def test_prefix_and_metadata(world: World) -> None:
    await world.tenant(
        forceTenantPrefix=True,
        namespaceOptions={
            "forbiddenLabels": {"denied": ["bad"]},
            "forbiddenAnnotations": {"denied": ["bad"]},
        },
    )
    await denied(world.namespace("elsewhere", tenant="oil"))
    await told(world, "InvalidTenantPrefix")
    await denied(world.namespace("oil-a", labels={"bad": "x"}))
    await told(world, "ForbiddenLabel")
    await denied(world.namespace("oil-a", annotations={"bad": "x"}))
    await told(world, "ForbiddenAnnotation")


async def test_freezing_and_what_it_refuses(world: World) -> None:
    tenant = await world.tenant()
    await world.namespace()
    await world.bound()
    await world.change(tenant, cordoned=True)
    event = await told(world, "Cordoned")
    assert event["involvedObject"]["uid"] == tenant["metadata"]["uid"]
    assert event["message"] == "Tenant has been cordoned"
    await denied(world.namespace("more"))

    async def refused() -> bool:
        listed = await asyncio.to_thread(
            world.tenancy.plane.run, "get", "events", "-n", "default", "-o", "json"
        )
        return any(
            one["reason"] == "Cordoned"
            and one["type"] == "Warning"
            and one["involvedObject"]["name"] == world.name("oil")
            for one in json.loads(listed.stdout)["items"]
        )

    await eventually(refused)
    await world.change(tenant, cordoned=False)
    await told(world, "UnCordoned")
