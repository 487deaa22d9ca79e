"""What else a hostile tenant tries to own what is not theirs (specs/capsule 5.3 to 5.5, 8).

Moving namespaces is in `test_hijack`, their names are in `test_squatting`.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator

import pytest

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule
from tenantry.kube import errors

from .harness import NOT_OWNED, Object, World, reference, refused, tenant_of

pytestmark = pytest.mark.plane


@dataclasses.dataclass
class Two:
    """Alice's tenant `oil` and bob's `oil-gas`, a namespace in each."""

    world: World
    oil: Object
    gas: Object


@pytest.fixture
async def two(world: World) -> AsyncIterator[Two]:
    oil = await world.tenant("oil")
    gas = await world.tenant("oil-gas", owner="bob")
    await world.namespace("oil-a")
    await world.namespace("oil-gas-a", by=world.user("bob"))
    yield Two(world, oil, gas)
    assert tenant_of(await world.stored("oil-a")) == world.name("oil")
    assert tenant_of(await world.stored("oil-gas-a")) == world.name("oil-gas")


async def test_a_name_with_anothers_prefix_stays_with_its_creator(two: Two) -> None:
    world = two.world
    mine = await world.namespace("oil-gas-b")
    assert tenant_of(mine) == world.name("oil")
    generated = await world.user().create(
        resources.NAMESPACES, {"metadata": {"generateName": world.name("oil-gas-")}}
    )
    assert tenant_of(generated) == world.name("oil")


async def test_references_that_would_hold_another_tenant(two: Two) -> None:
    world = two.world
    hold: Object = {"controller": True, "blockOwnerDeletion": True}
    made = await world.namespace("oil-b", references=[reference(two.gas, **hold)])
    assert tenant_of(made) == world.name("oil")
    assert [r["uid"] for r in made["metadata"]["ownerReferences"]] == [two.oil["metadata"]["uid"]]
    both = [reference(two.oil), reference(two.gas, **hold)]
    for sub in ("", "status"):
        with contextlib.suppress(errors.Forbidden):
            await world.user().patch(
                resources.NAMESPACES,
                world.name("oil-b"),
                kind="merge",
                subresource=sub,
                body={"metadata": {"ownerReferences": both}},
            )
        found = (await world.stored("oil-b"))["metadata"]["ownerReferences"]
        assert [r["uid"] for r in found] == [two.oil["metadata"]["uid"]]


@pytest.mark.parametrize("alike", ["{}\u200b", "{}\u0455", "{} ", "\uff4fil", "{}\n"])
async def test_names_that_look_alike_are_no_tenant(two: Two, alike: str) -> None:
    world = two.world
    label = alike.format(world.name("oil-gas"))
    with pytest.raises(errors.ApiError) as caught:
        await world.user().create(
            resources.NAMESPACES,
            {"metadata": {"name": world.name("x"), "labels": {constants.TENANT_LABEL: label}}},
        )
    assert caught.value.code in {400, 403, 422}
    with pytest.raises(errors.NotFound):
        await world.stored("x")


async def test_owners_that_look_alike_own_nothing(world: World) -> None:
    name = world.name("alice")
    alike = [name.replace("a", "\u0430", 1), name.upper(), f"{name} ", f"User:{name}"]
    await world.tenant(owners=[{"kind": "User", "name": each} for each in alike])
    await refused(world.namespace(tenant="oil"), NOT_OWNED, code=400)
    await world.tenant("groups", owners=[{"kind": "Group", "name": name}])
    await refused(world.namespace(tenant="groups"), NOT_OWNED, code=400)


async def test_owners_impersonate_nobody_but_their_own_accounts(two: Two) -> None:
    world = two.world
    await world.bound("oil-a")
    for what, where, allowed in (
        ("users", "", False),
        ("groups", "", False),
        ("serviceaccounts", "", False),
        ("serviceaccounts", world.name("oil-gas-a"), False),
        ("serviceaccounts", constants.CONTROLLER_NAMESPACE, False),
        ("serviceaccounts", "kube-system", False),
        ("serviceaccounts", world.name("oil-a"), True),
    ):
        asked = {"verb": "impersonate", "resource": what, "namespace": where}
        answer = await world.user().create(
            resources.Resource(
                "authorization.k8s.io",
                "v1",
                "selfsubjectaccessreviews",
                "SelfSubjectAccessReview",
                namespaced=False,
            ),
            {"metadata": {}, "spec": {"resourceAttributes": asked}},
        )
        assert answer["status"]["allowed"] is allowed, (what, where)


async def test_accounts_of_a_tenant_do_nothing_in_another(two: Two) -> None:
    world = two.world
    await world.bound("oil-a")
    await world.user().create(
        resources.SERVICE_ACCOUNTS,
        {
            "metadata": {
                "name": "robot",
                "namespace": world.name("oil-a"),
                "labels": {constants.PROMOTE_OWNER_LABEL: "true"},
            }
        },
    )
    robot = world.account(world.name("oil-a"), "robot")
    for attempt in (
        robot.delete(resources.NAMESPACES, world.name("oil-gas-a")),
        robot.patch(
            resources.NAMESPACES,
            world.name("oil-gas-a"),
            kind="merge",
            body={"metadata": {"labels": {"x": "y"}}},
        ),
        world.namespace("oil-gas-c", by=robot, tenant="oil-gas"),
        robot.create(
            resources.SERVICE_ACCOUNTS,
            {"metadata": {"name": "r", "namespace": world.name("oil-gas-a")}},
        ),
    ):
        with pytest.raises(errors.ApiError) as caught:
            await attempt
        assert caught.value.code in {400, 403}


async def test_deleting_by_the_collection(two: Two) -> None:
    world = two.world
    await world.bound("oil-a")
    before = set(await world.bindings("oil-a"))
    # Of namespaces nobody deletes collections: not even the API server lets them.
    with pytest.raises(errors.ApiError) as caught:
        await world.admin.delete_collection(resources.NAMESPACES, label_selector="nobody=here")
    assert caught.value.code == 405
    with pytest.raises(errors.Forbidden):
        await world.user().delete_collection(
            resources.ROLE_BINDINGS,
            world.name("oil-a"),
            label_selector=f"{constants.MANAGED_BY_LABEL}={constants.MANAGED_BY_CONTROLLER}",
        )
    assert set(await world.bindings("oil-a")) == before
    for resource in (capsule.TENANTS, capsule.TENANT_OWNERS, capsule.CONFIGURATIONS):
        with pytest.raises(errors.Forbidden):
            await world.user().delete_collection(resource, label_selector="nobody=here")


async def test_labels_as_large_as_they_may_be(two: Two) -> None:
    world = two.world
    labels = {f"k{number}.io/{'n' * 50}": "v" * 63 for number in range(2000)}
    made = await world.namespace(
        "oil-large", labels=labels, annotations={"note": "x" * (200 * 1024)}
    )
    assert tenant_of(made) == world.name("oil")
    for change in ({constants.TENANT_LABEL: world.name("oil-gas")}, {constants.TENANT_LABEL: None}):
        with contextlib.suppress(errors.Forbidden):
            await world.user().patch(
                resources.NAMESPACES,
                world.name("oil-large"),
                kind="merge",
                body={"metadata": {"labels": change}},
            )
        assert tenant_of(await world.stored("oil-large")) == world.name("oil")
