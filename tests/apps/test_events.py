"""What `kubectl get events` shows of the tenancy's decisions (specs/capsule 2.6)."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.kube import errors, reads

from .harness import Object, World, eventually

pytestmark = pytest.mark.plane


async def listed(world: World) -> list[Object]:
    """List the events of this test's tenant."""
    selector = f"{constants.MANAGED_TENANT_LABEL}={world.name('oil')}"
    found = await world.admin.list(resources.CORE_EVENTS, "default", label_selector=selector)
    return [reads.to_dict(bytes(one)) for one in found.items]


async def told(world: World, reason: str) -> Object:
    """Wait for an event of this test's tenant, in the API that `kubectl get events` lists."""

    async def there() -> Object | None:
        return next((one for one in await listed(world) if one["reason"] == reason), None)

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
        return any(
            one["reason"] == "Cordoned"
            and one["type"] == "Warning"
            and one["involvedObject"]["name"] == world.name("oil")
            for one in await listed(world)
        )

    await eventually(refused)
    await world.change(tenant, cordoned=False)
    await told(world, "UnCordoned")
