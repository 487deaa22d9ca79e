"""LimitRanges, NetworkPolicies and lists of classes (specs/capsule 1.1, 1.3, 4.1)."""

from __future__ import annotations

import pytest

from tenantry.api import resources
from tenantry.api.capsule import resources as capsule
from tenantry.kube import errors

from .content import in_force
from .harness import Object, World, eventually, refused

pytestmark = pytest.mark.plane

LIMITS: Object = {"limits": [{"type": "Pod", "max": {"cpu": "4"}}]}
CLOSED: Object = {"podSelector": {}, "policyTypes": ["Ingress"]}
OPEN: Object = {"podSelector": {}, "ingress": [{}], "policyTypes": ["Ingress"]}
RANGES, POLICIES = resources.LIMIT_RANGES, resources.NETWORK_POLICIES


async def test_what_every_namespace_gets(world: World) -> None:
    tenant = await world.tenant(
        limitRanges={"items": [LIMITS]}, networkPolicies={"items": [CLOSED, OPEN]}
    )
    await world.namespace()
    await world.bound()
    where, first = world.name("prod"), f"capsule-{world.name('oil')}-0"
    second = f"capsule-{world.name('oil')}-1"

    async def copied() -> bool:
        for resource, name in ((RANGES, first), (POLICIES, first), (POLICIES, second)):
            await world.admin.get(resource, name, where)
        return True

    await eventually(copied)
    found = await world.admin.get(RANGES, first, where)
    assert found["metadata"]["labels"] == {
        "capsule.clastix.io/limit-range": "0",
        "projectcapsule.dev/managed-by": "controller",
        "projectcapsule.dev/tenant": world.name("oil"),
    }
    (reference,) = found["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["uid"], reference["controller"]) == (
        "Tenant",
        tenant["metadata"]["uid"],
        True,
    )
    assert found["spec"]["limits"][0]["max"] == {"cpu": "4"}
    policy = await world.admin.get(POLICIES, second, where)
    assert policy["metadata"]["labels"]["capsule.clastix.io/network-policy"] == "1"
    await in_force(world)
    # Her role allows her to, and the platform does not.
    await world.grant(
        world.name("alice"), "patch", "delete", what=["networkpolicies"],
        group="networking.k8s.io",
    )  # fmt: skip
    words = (
        "Labeling resources as controller managed can only be done by the controller or "
        "administrators"
    )
    alice = world.user()
    wide: Object = {"spec": {"ingress": [{}]}}
    await refused(alice.patch(POLICIES, first, where, kind="merge", body=wide), words)
    await refused(alice.delete(POLICIES, first, where), words)
    # What somebody above her changes or removes is put right.
    await world.boss().patch(POLICIES, first, where, kind="merge", body=wide)
    await world.boss().delete(RANGES, first, where)

    async def repaired() -> bool:
        await world.admin.get(RANGES, first, where)
        spec = (await world.admin.get(POLICIES, first, where))["spec"]
        return "ingress" not in spec

    await eventually(repaired)
    await world.change(tenant, networkPolicies={"items": [CLOSED]}, limitRanges=None)

    async def pruned() -> bool:
        left = [bytes(one) for one in (await world.admin.list(RANGES, where)).items]
        try:
            await world.admin.get(POLICIES, second, where)
        except errors.NotFound:
            return not left
        return False

    await eventually(pruned)
    await world.admin.get(POLICIES, first, where)


async def test_classes_that_a_tenant_may_use(world: World) -> None:
    gold, plain = world.name("gold"), world.name("plain")
    await world.tenant(
        storageClasses={"matchLabels": {"tier": world.name("gold")}, "default": plain},
        priorityClasses={"allowed": [gold, "ghost"]},
    )
    await world.tenant("free")

    async def of(name: str) -> Object:
        classes: Object = (await world.status(name)).get("classes") or {}
        return classes

    async def settled() -> bool:
        return "system-node-critical" in (await of("free"))["priority"]

    await eventually(settled)
    assert "priority" not in await of("oil")
    labels = {"tier": gold}
    storage: Object = {"metadata": {"name": gold, "labels": labels}, "provisioner": "x.io/none"}
    await world.admin.create(resources.STORAGE_CLASSES, storage)
    priority: Object = {"metadata": {"name": gold}, "value": 5}
    await world.admin.create(resources.PRIORITY_CLASSES, priority)

    async def listed() -> bool:
        mine, free = await of("oil"), await of("free")
        assert gold in free["storage"]
        return (mine["storage"], mine["priority"]) == ([gold], [gold])

    await eventually(listed)
    # A class that is none of its business leaves a tenant alone.
    version = (await world.admin.get(capsule.TENANTS, world.name("oil")))["metadata"][
        "resourceVersion"
    ]
    await world.admin.create(
        resources.STORAGE_CLASSES, {"metadata": {"name": world.name("x")}, "provisioner": "x.io/n"}
    )

    async def seen() -> bool:
        return world.name("x") in (await of("free"))["storage"]

    await eventually(seen)
    after = (await world.admin.get(capsule.TENANTS, world.name("oil")))["metadata"][
        "resourceVersion"
    ]
    assert after == version
    unlabel: Object = {"metadata": {"labels": {"tier": None}}}
    await world.admin.patch(resources.STORAGE_CLASSES, gold, kind="merge", body=unlabel)

    async def gone() -> bool:
        return "storage" not in await of("oil")

    await eventually(gone)
