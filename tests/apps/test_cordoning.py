"""Freezing a tenant, or one of its namespaces (specs/capsule 5.5, 5.6)."""

from __future__ import annotations

import pytest

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.kube import client as kube
from tenantry.kube import errors

from .harness import Object, World, eventually, refused

pytestmark = pytest.mark.plane

CORDONED = constants.CORDONED_LABEL
OF_TENANT = "the selected tenant is cordoned"


def settings(world: World, name: str = "settings") -> Object:
    return {"metadata": {"name": name, "namespace": world.name("prod")}}


def frozen(world: World, operation: str, what: str) -> str:
    return (
        f"The current namespace '{world.name('prod')}' is cordoned. The attempted operation "
        f"{operation} for {what} is not permitted during cordoning status."
    )


async def prepared(world: World) -> tuple[Object, kube.Client]:
    tenant = await world.tenant()
    await world.namespace()
    await world.bound()
    alice = world.user()
    await alice.create(resources.CONFIG_MAPS, settings(world))
    return tenant, alice


async def frozen_for(world: World, client: kube.Client) -> None:
    """Wait until writes are refused: the label has to reach the API server's own cache."""

    async def refuses() -> bool:
        try:
            await client.create(resources.CONFIG_MAPS, settings(world, "probe"), dry_run=True)
        except errors.Forbidden as problem:
            return "is cordoned" in problem.message
        return False

    await eventually(refuses, "the namespace is frozen")


async def test_a_cordoned_tenant(world: World) -> None:
    tenant, alice = await prepared(world)
    where = world.name("prod")
    await world.change(tenant, cordoned=True)
    # What is decided about namespaces is decided on the tenant itself: at once.
    await refused(world.namespace("more"), OF_TENANT)
    await refused(world.labelled(alice, "prod", colour="red"), OF_TENANT)
    await refused(world.labelled(alice, "prod", **{CORDONED: None}), OF_TENANT)
    await refused(alice.delete(resources.NAMESPACES, where), OF_TENANT)
    await frozen_for(world, alice)
    words = frozen(world, "CREATE", "/v1/ConfigMap/more")
    await refused(alice.create(resources.CONFIG_MAPS, settings(world, "more")), words)
    words = frozen(world, "UPDATE", "/v1/ConfigMap/settings")
    await refused(
        alice.patch(
            resources.CONFIG_MAPS, "settings", where, kind="merge", body={"data": {"a": "b"}}
        ),
        words,
    )
    words = frozen(world, "DELETE", "/v1/ConfigMap/settings")
    await refused(alice.delete(resources.CONFIG_MAPS, "settings", where), words)
    lease = {"metadata": {"name": "l", "namespace": where}}
    words = frozen(world, "CREATE", "coordination.k8s.io/v1/Lease/l")
    await world.grant(world.name("alice"), "create", what=["leases"], group="coordination.k8s.io")
    await refused(alice.create(resources.LEASES, lease), words)
    # Reading goes on.
    await alice.get(resources.CONFIG_MAPS, "settings", where)


async def test_service_accounts_of_the_tenant_are_its_people(world: World) -> None:
    tenant, alice = await prepared(world)
    await world.grant(
        f"system:serviceaccount:{world.name('prod')}:robot", "create", what=["configmaps"]
    )
    robot = world.account(world.name("prod"), "robot")
    await robot.create(resources.CONFIG_MAPS, settings(world, "first"))
    await world.change(tenant, cordoned=True)
    await frozen_for(world, alice)
    await refused(
        robot.create(resources.CONFIG_MAPS, settings(world, "second")),
        frozen(world, "CREATE", "/v1/ConfigMap/second"),
    )


async def test_controllers_of_the_cluster_and_administrators_work_on(world: World) -> None:
    tenant, alice = await prepared(world)
    await world.change(tenant, cordoned=True)
    await frozen_for(world, alice)
    controller = "system:serviceaccount:kube-system:some-controller"
    await world.grant(controller, "create", "delete", what=["configmaps"])
    system = world.account("kube-system", "some-controller")
    await system.create(resources.CONFIG_MAPS, settings(world, "by-system"))
    await system.delete(resources.CONFIG_MAPS, "by-system", world.name("prod"))
    await world.boss().create(resources.CONFIG_MAPS, settings(world, "by-boss"))
    await world.admin.create(resources.CONFIG_MAPS, settings(world, "by-admin"))


async def test_uncordoning_sets_free_and_removes_the_label(world: World) -> None:
    tenant, alice = await prepared(world)
    await world.change(tenant, cordoned=True)
    await frozen_for(world, alice)
    await world.change(tenant, cordoned=False)

    async def free() -> bool:
        return CORDONED not in (await world.stored())["metadata"]["labels"]

    await eventually(free)

    async def works() -> bool:
        try:
            await alice.create(resources.CONFIG_MAPS, settings(world, "again"))
        except errors.Forbidden:
            return False
        return True

    await eventually(works)


async def test_one_namespace_by_its_label(world: World) -> None:
    tenant, alice = await prepared(world)
    await world.namespace("other")
    await world.labelled(alice, "prod", **{CORDONED: "true"})
    await frozen_for(world, alice)
    await refused(
        alice.delete(resources.CONFIG_MAPS, "settings", world.name("prod")),
        frozen(world, "DELETE", "/v1/ConfigMap/settings"),
    )
    await world.bound("other")
    await alice.create(
        resources.CONFIG_MAPS, {"metadata": {"name": "x", "namespace": world.name("other")}}
    )

    async def told() -> bool:
        spaces = {space["name"]: space for space in (await world.status())["spaces"]}
        mine = world.condition(spaces[world.name("prod")], "Cordoned")
        others = world.condition(spaces[world.name("other")], "Cordoned")
        return (mine["status"], mine["reason"], mine["message"]) == (
            "True",
            "Cordoned",
            "namespace is cordoned",
        ) and (others["status"], others["reason"]) == ("False", "Active")

    await eventually(told)
    # The tenant itself is not cordoned, and its reconciles leave the owner's own label alone.
    status = await world.status()
    assert status["state"] == "Active"
    assert world.condition(status, "Cordoned")["status"] == "False"
    await world.change(tenant, namespaceOptions={"additionalMetadata": {"labels": {"team": "a"}}})

    async def reconciled() -> bool:
        return bool((await world.stored())["metadata"]["labels"].get("team") == "a")

    await eventually(reconciled)
    assert (await world.stored())["metadata"]["labels"][CORDONED] == "true"
    # Who cordoned it sets it free.
    await world.labelled(alice, "prod", **{CORDONED: None})
