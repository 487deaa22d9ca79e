"""Finalizers are taken off where a tenant asks for it, and nowhere else."""

from __future__ import annotations

import functools

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


async def kept_back(world: World, tenant: str) -> bool:
    """Tell whether a tenant stays until its namespaces are gone."""
    found = await world.admin.get(capsule.TENANTS, world.name(tenant))
    return constants.FINALIZER in found["metadata"]["finalizers"]


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
        # Before it has its finalizer a tenant goes at once, and asks for nothing any more.
        await eventually(functools.partial(kept_back, world, name), name)
        await world.admin.delete(capsule.TENANTS, world.name(name))

    async def gone() -> bool:
        try:
            found = await world.stored("asks-a")
        except errors.NotFound:
            return True
        raise AssertionError(found["status"])

    # Kubernetes looks at a namespace that is going less and less often.
    await eventually(gone, seconds=90)
    kept = await world.admin.get(resources.CONFIG_MAPS, "held", world.name("plain-a"))
    assert kept["metadata"]["finalizers"] == [HOLD]
    body = {"metadata": {"finalizers": None}}
    await world.admin.patch(
        resources.CONFIG_MAPS, "held", world.name("plain-a"), kind="merge", body=body
    )
