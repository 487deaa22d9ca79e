"""ServiceAccounts that become owners of their tenant (specs/capsule 3.2, 5.6)."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.kube import client as kube
from tenantry.kube import errors

from .harness import Object, World, eventually, refused, refused_as_nobody, tenant_of

pytestmark = pytest.mark.plane

PROMOTE = constants.PROMOTE_OWNER_LABEL
OFF = "service account owner promotion is disabled. Contact your system administrators"
OFF_HERE = (
    "service account owner promotion is disabled for this tenant. "
    "Contact your system administrators"
)


async def account(
    world: World, client: kube.Client, name: str = "robot", *, key: str = PROMOTE
) -> Object:
    metadata = {"name": name, "namespace": world.name("prod"), "labels": {key: "true"}}
    return await client.create(resources.SERVICE_ACCOUNTS, {"metadata": metadata})


async def relabel(
    world: World, client: kube.Client, value: str | None, name: str = "robot"
) -> Object:
    return await client.patch(
        resources.SERVICE_ACCOUNTS,
        name,
        world.name("prod"),
        kind="merge",
        body={"metadata": {"labels": {PROMOTE: value}}},
    )


async def prepared(world: World, **spec: Any) -> kube.Client:
    await world.tenant(**spec)
    await world.namespace()
    await world.bound()
    return world.user()


async def promoted(world: World) -> kube.Client:
    alice = await prepared(world)
    await account(world, alice)
    robot = world.account(world.name("prod"), "robot")

    async def bound() -> bool:
        roles = {role for role, who in await world.granted() if who == "robot"}
        return roles == {"capsule-namespace-provisioner", "capsule-namespace-deleter"}

    await eventually(bound)
    return robot


async def test_an_owner_promotes_an_account_to_owner(world: World) -> None:
    robot = await promoted(world)

    async def created() -> Object | None:
        # Its right to create namespaces comes with the next reconcile of the provisioner.
        try:
            return await world.namespace("more", by=robot)
        except errors.Forbidden as problem:
            if "cannot create resource" not in problem.message:
                raise
            return None

    made = await eventually(created)
    assert made is not None
    assert tenant_of(made) == world.name("oil")
    entry = {
        "kind": "ServiceAccount",
        "name": f"system:serviceaccount:{world.name('prod')}:robot",
        "clusterRoles": ["capsule-namespace-provisioner", "capsule-namespace-deleter"],
    }

    async def listed() -> bool:
        return entry in (await world.status())["owners"]

    await eventually(listed)


async def test_a_demoted_account_is_nobody_at_once(world: World) -> None:
    robot = await promoted(world)
    await world.grant(f"system:serviceaccount:{world.name('prod')}:robot", "create", "patch")
    await world.namespace("more", by=robot)
    await relabel(world, world.user(), None)
    await refused_as_nobody(world.namespace("again", by=robot))
    await refused(
        world.labelled(robot, "more", colour="red"), "denied patch request for this namespace"
    )


async def test_promotion_does_not_spread_by_itself(world: World) -> None:
    """A promoted account may be given any right on accounts: it promotes nobody, nor demotes."""
    robot = await promoted(world)
    name = f"system:serviceaccount:{world.name('prod')}:robot"
    await world.grant(name, "create", "patch", what=["serviceaccounts"])
    words = f"{name} not allowed to promote serviceaccount to tenant owner"
    await refused(account(world, robot, "second"), words)
    await refused(account(world, robot, "second", key=constants.PROMOTE_LABEL), words)
    await refused(relabel(world, robot, None), words)
    await robot.create(
        resources.SERVICE_ACCOUNTS,
        {"metadata": {"name": "plain", "namespace": world.name("prod")}},
    )
    await refused(relabel(world, robot, "true", "plain"), words)


async def test_others_with_rights_on_accounts_promote_nobody(world: World) -> None:
    extra = {
        "clusterRoleName": "edit",
        "subjects": [
            {"kind": "User", "name": world.name("bob"), "apiGroup": "rbac.authorization.k8s.io"}
        ],
    }
    await prepared(world, additionalRoleBindings=[extra])

    async def bound() -> bool:
        return ("edit", world.name("bob")) in await world.granted()

    await eventually(bound)
    for bob in (world.user("bob"), world.stranger("bob"), world.stranger("bob", "system:masters")):
        await refused(
            account(world, bob),
            f"{world.name('bob')} not allowed to promote serviceaccount to tenant owner",
        )


async def test_switched_off_for_a_tenant(world: World) -> None:
    alice = await prepared(world, permissions={"allowOwnerPromotion": False})
    await refused(account(world, alice), OFF_HERE)
    await account(world, world.boss())
    robot = world.account(world.name("prod"), "robot")
    await world.grant(f"system:serviceaccount:{world.name('prod')}:robot", "create")
    with pytest.raises(errors.Forbidden):
        await world.namespace("more", by=robot)


async def test_switched_off_everywhere(world: World) -> None:
    alice = await prepared(world)
    await account(world, alice)
    robot = world.account(world.name("prod"), "robot")
    await world.grant(f"system:serviceaccount:{world.name('prod')}:robot", "create")
    await world.namespace("more", by=robot)
    async with world.configured(allowServiceAccountPromotion=False):
        # The tenant may still be proposed from memory; then it is refused as somebody else's.
        with pytest.raises((errors.Forbidden, errors.BadRequest)):
            await world.namespace("again", by=robot)

        async def is_off() -> bool:
            try:
                await account(world, alice, "another")
            except errors.Forbidden as problem:
                return problem.message.endswith(OFF)
            await alice.delete(resources.SERVICE_ACCOUNTS, "another", world.name("prod"))
            return False

        await eventually(is_off)


async def test_the_label_means_nothing_outside_of_tenants(world: World) -> None:
    await world.tenant()
    await world.namespace("prod", by=world.admin)
    await account(world, world.admin)
    name = f"system:serviceaccount:{world.name('prod')}:robot"
    await world.grant(name, "create", "patch")
    robot = world.account(world.name("prod"), "robot")
    made = await world.namespace("more", by=robot)
    assert tenant_of(made) is None
    with pytest.raises(errors.Forbidden):
        await world.namespace("owned", by=robot, tenant="oil")


async def test_promotion_to_roles_by_rule(world: World) -> None:
    entry = {"clusterRoles": ["view"], "selector": {"matchLabels": {"kind": "ci"}}}
    alice = await prepared(
        world,
        rules=[
            {"permissions": {"promotions": [entry]},
             "namespaceSelector": {"matchExpressions": [{"key": "closed", "operator": "DoesNotExist"}]}},
        ],
    )  # fmt: skip
    await world.namespace("other")
    await world.namespace("closed", labels={"closed": "yes"})
    labels = {constants.PROMOTE_LABEL: "true", "kind": "ci"}
    metadata = {"name": "robot", "namespace": world.name("prod"), "labels": labels}
    await alice.create(resources.SERVICE_ACCOUNTS, {"metadata": metadata})
    await account(world, alice, "plain", key=constants.PROMOTE_LABEL)
    name = f"system:serviceaccount:{world.name('prod')}:robot"

    async def told() -> bool:
        found: object = (await world.status())["promotions"]
        return found == [
            {
                "kind": "ServiceAccount",
                "name": name,
                "clusterRoles": ["view"],
                "targets": sorted([world.name("other"), world.name("prod")]),
            }
        ]

    await eventually(told)
    for space in ("prod", "other"):

        async def bound(space: str = space) -> bool:
            return ("view", "robot") in await world.granted(space)

        await eventually(bound)
    assert ("view", "robot") not in await world.granted("closed")
    assert not {who for _, who in await world.granted() if who == "plain"}
    # It is no owner, and can make none.
    robot = world.account(world.name("prod"), "robot")
    await world.grant(name, "patch", what=["serviceaccounts"])
    await refused(
        relabel(world, robot, "true", "plain"),
        f"{name} not allowed to promote serviceaccount to tenant owner",
    )
    await alice.delete(resources.SERVICE_ACCOUNTS, "robot", world.name("prod"))

    async def gone() -> bool:
        return ("view", "robot") not in await world.granted("other")

    await eventually(gone)

    async def forgotten() -> bool:
        return "promotions" not in await world.status()

    await eventually(forgotten)
