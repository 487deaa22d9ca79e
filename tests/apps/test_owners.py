"""Who owns a tenant, by every way to become an owner and to stop being one (specs/capsule 3)."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule
from tenantry.kube import errors

from .harness import (
    BOSS,
    CAPSULE_USERS,
    IGNORED_GROUP,
    NO_TENANT,
    ONLY_OWNERS,
    Object,
    World,
    eventually,
    refused,
    refused_as_nobody,
    tenant_of,
)

pytestmark = pytest.mark.plane


async def tenant_owner(world: World, name: str, spec: Object, **labels: str) -> Object:
    body = {"metadata": {"name": world.name(name), "labels": labels}, "spec": spec}
    return await world.admin.create(capsule.TENANT_OWNERS, body)


async def test_a_group_owns(world: World) -> None:
    group = world.name("team")
    await world.tenant(owners=[{"kind": "Group", "name": group}])
    assert tenant_of(await world.namespace(by=world.user("alice", group))) == world.name("oil")
    await refused(world.namespace("other", by=world.user("bob")), NO_TENANT)


async def test_a_user_is_not_the_group_of_that_name(world: World) -> None:
    await world.tenant(owners=[world.owner("alice")])
    await refused(world.namespace(by=world.user("bob", world.name("alice"))), NO_TENANT)


async def test_a_service_account_owns(world: World) -> None:
    name = f"system:serviceaccount:{world.name('ci')}:deployer"
    await world.tenant(owners=[{"kind": "ServiceAccount", "name": name}])
    await world.admin.create(resources.NAMESPACES, {"metadata": {"name": world.name("ci")}})
    await world.grant(name, "create", "patch")
    async with world.configured(
        users=[
            {"kind": "Group", "name": CAPSULE_USERS},
            {"kind": "ServiceAccount", "name": name},
        ]
    ):
        robot = world.account(world.name("ci"), "deployer")
        assert tenant_of(await world.namespace(by=robot)) == world.name("oil")
        subject = {"kind": "ServiceAccount", "name": "deployer", "namespace": world.name("ci")}

        async def bound() -> bool:
            found = [binding["subjects"] for binding in (await world.bindings()).values()]
            return found.count([subject]) == 2

        await eventually(bound)


@pytest.mark.parametrize("how", ["label", "selector"])
async def test_a_tenant_owner_object_owns(world: World, how: str) -> None:
    spec: dict[str, Any] = {"owners": []}
    labels = {constants.MANAGED_TENANT_LABEL: world.name("oil")}
    if how == "selector":
        labels = {"team": world.prefix}
        spec["permissions"] = {"matchOwners": [{"matchLabels": labels}]}
    await world.tenant(**spec)
    carol = {"kind": "User", "name": world.name("carol"), "clusterRoles": ["view"]}
    owner = await tenant_owner(world, "carol", carol, **labels)
    assert tenant_of(await world.namespace(by=world.user("carol"))) == world.name("oil")

    async def bound() -> bool:
        return await world.granted() == {("view", world.name("carol"))}

    async def reported() -> bool:
        found = await world.admin.get(capsule.TENANT_OWNERS, world.name("carol"))
        return bool((found.get("status") or {}).get("tenants") == [world.name("oil")])

    await eventually(bound)
    await eventually(reported)
    # Without the label she is nobody, at once.
    await world.admin.patch(
        capsule.TENANT_OWNERS,
        owner["metadata"]["name"],
        kind="merge",
        body={"metadata": {"labels": dict.fromkeys(labels)}},
    )
    await refused_as_nobody(world.namespace("late", by=world.user("carol")))

    async def pruned() -> bool:
        return not await world.granted()

    await eventually(pruned)


async def test_an_aggregated_tenant_owner_becomes_a_capsule_user(world: World) -> None:
    await world.tenant(owners=[])
    carol = {"kind": "User", "name": world.name("carol")}
    await tenant_owner(world, "carol", carol, **{constants.MANAGED_TENANT_LABEL: world.name("oil")})
    client = world.stranger("carol")

    async def created() -> Object | None:
        # Her right to create namespaces comes with the next reconcile of the provisioner.
        try:
            return await world.namespace(by=client)
        except errors.Forbidden:
            return None

    made = await eventually(created)
    assert made is not None
    assert tenant_of(made) == world.name("oil")


async def test_a_tenant_owner_object_without_labels_owns_nothing(world: World) -> None:
    await world.tenant(owners=[], permissions={"matchOwners": [{}]})
    await tenant_owner(world, "carol", {"kind": "User", "name": world.name("carol")})
    await refused(world.namespace(by=world.user("carol")), NO_TENANT)
    # It would own every labelled TenantOwner of the tests to come.
    await world.admin.delete(capsule.TENANTS, world.name("oil"))


async def test_administrators_are_owners_with_their_own_roles(world: World) -> None:
    await world.tenant()
    await world.namespace()

    async def bound() -> bool:
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": BOSS}
        his = [b for b in (await world.bindings()).values() if b["subjects"] == [subject]]
        return [binding["roleRef"]["name"] for binding in his] == [constants.DELETER_ROLE]

    await eventually(bound)


@pytest.mark.parametrize("labelled", [None, "oil"])
async def test_an_owner_revoked_a_moment_ago_is_refused(world: World, labelled: str | None) -> None:
    tenant = await world.tenant()
    await world.namespace("before")
    await world.change(tenant, owners=[world.owner("bob")])
    await refused_as_nobody(world.namespace("after", tenant=labelled), named=labelled is not None)
    await refused(
        world.labelled(world.user(), "before", colour="red"),
        "denied patch request for this namespace",
    )


async def test_a_user_struck_from_the_configuration_is_nobody_at_once(world: World) -> None:
    await world.tenant()
    await world.namespace("before")
    async with world.configured(users=[]):
        # RBAC may still let her through for a moment; she gets nothing of the tenant by that.
        with pytest.raises(errors.Forbidden):
            await world.namespace("after", tenant="oil")

        async def has_no_right() -> bool:
            return not await world.users_may_create()

        await eventually(has_no_right)


async def test_an_administrator_struck_a_moment_ago_is_none(world: World) -> None:
    await world.tenant()
    await world.namespace("free", by=world.admin)
    # Whatever memory says meanwhile: it is the cluster-admin's rights that remain.
    deputy = world.stranger("deputy", "system:masters")
    subject = {"kind": "User", "name": world.name("deputy")}
    label = {constants.TENANT_LABEL: world.name("oil")}
    async with world.configured(administrators=[{"kind": "User", "name": BOSS}, subject]):
        assert tenant_of(await world.labelled(deputy, "free", **label)) == world.name("oil")
        await world.namespace("second", by=world.admin)
    with pytest.raises(errors.Forbidden):
        await world.labelled(deputy, "second", **label)
    assert tenant_of(await world.stored("second")) is None
    with pytest.raises(errors.Forbidden):
        await world.namespace("third", by=deputy, tenant="oil")


async def test_a_group_that_is_ignored_as_of_now(world: World) -> None:
    await world.tenant()
    group = world.name("guests")
    async with world.configured(ignoreUserWithGroups=[IGNORED_GROUP, group]):
        guest = world.user("alice", group)

        async def is_nobody() -> bool:
            # Memory may still propose the tenant, which is then refused: she is nobody's by now.
            try:
                return tenant_of(await world.namespace("free", by=guest, dry_run=True)) is None
            except errors.Forbidden as problem:
                if problem.message.endswith(ONLY_OWNERS):
                    return False
                raise

        await eventually(is_nobody)
        assert tenant_of(await world.namespace("free", by=guest)) is None
    assert tenant_of(await world.namespace("owned", by=guest))


async def test_members_of_an_ignored_group_are_nobody(world: World) -> None:
    await world.tenant()
    ignored = world.user("alice", IGNORED_GROUP)
    assert tenant_of(await world.namespace("free", by=ignored)) is None
    # Even an administrator: the controller's own accounts alone come before the group.
    await world.tenant("gas")
    boss = world.admin.as_user(BOSS, ["system:masters", IGNORED_GROUP])
    with pytest.raises(errors.Forbidden):
        await world.namespace("owned", by=boss, tenant="oil")


async def test_everybody_as_capsule_user_spares_the_control_plane(world: World) -> None:
    await world.tenant()
    async with world.configured(users=[{"kind": "Group", "name": "system:authenticated"}]):
        await refused(world.namespace("one", by=world.admin), NO_TENANT)
        controller = world.account("kube-system", "some-controller")
        await world.grant("system:serviceaccount:kube-system:some-controller", "create", "patch")
        made = await world.namespace("two", by=controller)
        assert tenant_of(made) is None
        assert tenant_of(await world.namespace("three")) == world.name("oil")
