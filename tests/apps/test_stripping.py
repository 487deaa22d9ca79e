"""Finalizers are taken off where a tenant asks for it, and nowhere else."""

from __future__ import annotations

import pytest

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule
from tenantry.kube import errors

from .harness import World, eventually

pytestmark = pytest.mark.plane

HOLD = "example.com/hold"


async def held(world: World, tenant: str, namespace: str) -> None:
    await world.namespace(namespace, tenant=tenant)
    body = {"metadata": {"name": "held", "namespace": world.name(namespace), "finalizers": [HOLD]}}
    await world.admin.create(resources.CONFIG_MAPS, body)


@pytest.mark.timeout(200)
async def test_only_where_it_is_asked_for(world: World) -> None:
    for name, marks in (("asks", {constants.STRIP_ANNOTATION: "true"}), ("plain", {})):
        made = await world.tenant(name)
        await world.admin.patch(
            capsule.TENANTS,
            made["metadata"]["name"],
            kind="merge",
            body={"metadata": {"annotations": marks}},
        )
        await held(world, name, f"{name}-a")
    for name in ("asks", "plain"):
        await world.admin.delete(capsule.TENANTS, world.name(name))

    async def gone() -> bool:
        try:
            await world.stored("asks-a")
        except errors.NotFound:
            return True
        return False

    # Kubernetes looks at a namespace that is going less and less often.
    await eventually(gone, seconds=90)
    kept = await world.admin.get(resources.CONFIG_MAPS, "held", world.name("plain-a"))
    assert kept["metadata"]["finalizers"] == [HOLD]
    body = {"metadata": {"finalizers": None}}
    await world.admin.patch(
        resources.CONFIG_MAPS, "held", world.name("plain-a"), kind="merge", body=body
    )
