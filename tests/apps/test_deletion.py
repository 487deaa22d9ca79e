"""Deleting tenants and their namespaces (specs/capsule 4.1, 5.5)."""

from __future__ import annotations

import pytest

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule
from tenantry.kube import client as kube
from tenantry.kube import errors

from .harness import Object, World, eventually, refused, tenant_of

pytestmark = pytest.mark.plane

PROTECTED = "tenant is protected and cannot be deleted"
HOLD = "example.com/hold"


async def finalized(world: World) -> bool:
    found = await world.admin.get(capsule.TENANTS, world.name("oil"))
    return bool(found["metadata"].get("finalizers") == [constants.FINALIZER])


async def gone(world: World, tenant: str = "oil") -> bool:
    try:
        await world.admin.get(capsule.TENANTS, world.name(tenant))
    except errors.NotFound:
        return True
    return False


async def test_a_protected_tenant_stays(world: World) -> None:
    tenant = await world.tenant(preventDeletion=True)
    name = tenant["metadata"]["name"]
    await refused(world.admin.delete(capsule.TENANTS, name), PROTECTED)
    await refused(world.boss().delete(capsule.TENANTS, name), PROTECTED)
    await refused(
        world.admin.request("DELETE", capsule.TENANTS.path(), query=_only(name)), PROTECTED
    )
    await world.change(tenant, preventDeletion=False)
    await world.admin.delete(capsule.TENANTS, name)


def _only(name: str) -> dict[str, str]:
    return {"fieldSelector": f"metadata.name={name}"}


async def test_the_annotation_protects_as_well(world: World) -> None:
    body: Object = {
        "metadata": {
            "name": world.name("oil"),
            "annotations": {constants.PROTECTED_ANNOTATION: ""},
        },
        "spec": {},
    }
    await world.admin.create(capsule.TENANTS, body)
    await refused(world.admin.delete(capsule.TENANTS, world.name("oil")), PROTECTED)


async def test_an_empty_tenant_goes_at_once(world: World) -> None:
    await world.tenant()
    await world.admin.delete(capsule.TENANTS, world.name("oil"))
    await eventually(lambda: gone(world))


async def test_a_tenant_takes_its_namespaces_along(world: World) -> None:
    await world.tenant()
    await world.tenant("gas")
    for name in ("a", "b"):
        await world.namespace(name, tenant="oil")
        await world.bound(name)
    await world.namespace("other", tenant="gas")
    await eventually(lambda: finalized(world))
    await world.admin.create(
        resources.CONFIG_MAPS,
        {"metadata": {"name": "held", "namespace": world.name("b"), "finalizers": [HOLD]}},
    )
    await world.admin.delete(capsule.TENANTS, world.name("oil"))
    await refused(
        world.namespace("late", tenant="oil"),
        "tenant is terminating and does not accept new namespaces",
    )

    async def only_the_held_one() -> bool:
        status = await world.status()
        return (status["state"], status["namespaces"]) == ("Terminating", [world.name("b")])

    await eventually(only_the_held_one, seconds=25)
    (space,) = (await world.status())["spaces"]
    waiting = world.condition(space, "Terminating")
    assert (waiting["status"], waiting["reason"], waiting["message"]) == (
        "False",
        "PendingUnmanagedContent",
        "waiting for namespace finalization",
    )
    await let_go(world, world.admin, "b")
    await eventually(lambda: gone(world), seconds=25)
    with pytest.raises(errors.NotFound):
        await world.stored("b")
    # Her other tenant did not notice.
    assert tenant_of(await world.stored("other")) == world.name("gas")


async def let_go(world: World, client: kube.Client, name: str) -> None:
    await client.patch(
        resources.CONFIG_MAPS,
        "held",
        world.name(name),
        kind="merge",
        body={"metadata": {"finalizers": None}},
    )


async def test_owners_keep_their_access_until_a_namespace_is_gone(world: World) -> None:
    """What blocks the deletion of a namespace is theirs to remove (upstream's issue 1875)."""
    await world.tenant()
    await world.namespace("a")
    await world.bound("a")
    alice = world.user()
    await alice.create(
        resources.CONFIG_MAPS,
        {"metadata": {"name": "held", "namespace": world.name("a"), "finalizers": [HOLD]}},
    )
    await alice.delete(resources.NAMESPACES, world.name("a"))

    async def emptied() -> bool:
        status = (await world.stored("a"))["status"]
        return HOLD in world.condition(status, "NamespaceFinalizersRemaining")["message"]

    await eventually(emptied, seconds=25)
    await world.bound("a")
    await let_go(world, alice, "a")

    async def ended() -> bool:
        try:
            await world.stored("a")
        except errors.NotFound:
            return True
        return False

    await eventually(ended, seconds=25)


@pytest.mark.long
async def test_orphaning_does_not_set_namespaces_free(world: World) -> None:
    await world.tenant()
    await world.namespace("a")
    await world.bound("a")
    await eventually(lambda: finalized(world))
    collector = world.account("kube-system", "generic-garbage-collector")
    free: Object = {"metadata": {"ownerReferences": []}}

    async def kept() -> bool:
        try:
            await collector.patch(
                resources.NAMESPACES, world.name("a"), kind="merge", body=free, dry_run=True
            )
        except errors.Forbidden as problem:
            return "tenantry-namespace-ownership" in problem.message
        return False

    # A policy holds a moment after it was written.
    await eventually(kept)
    await world.admin.delete(capsule.TENANTS, world.name("oil"), propagation="Orphan")
    seen: list[str | None] = []

    async def ended() -> bool:
        try:
            seen.append(tenant_of(await world.stored("a")))
        except errors.NotFound:
            return await gone(world)
        return False

    # The collector, which was refused, comes again later and later.
    await eventually(ended, seconds=60)
    assert set(seen) == {world.name("oil")}


async def test_a_terminating_namespace_is_its_owners_alone(world: World) -> None:
    """Every Capsule user may patch namespaces by RBAC, so admission guards their finalizers."""
    await world.tenant()
    await world.tenant("gas", owner="bob")
    await world.namespace("a")
    free = {"metadata": {"name": world.name("free"), "finalizers": [HOLD]}}
    await world.admin.create(resources.NAMESPACES, free)
    keep = {"metadata": {"finalizers": [HOLD]}}
    alice, bob = world.user("alice"), world.user("bob")
    await alice.patch(resources.NAMESPACES, world.name("a"), kind="merge", body=keep)
    for name in ("a", "free"):
        await world.admin.delete(resources.NAMESPACES, world.name(name))
    drop = {"metadata": {"finalizers": None}}

    async def attempt(name: str) -> Object:
        return await bob.patch(resources.NAMESPACES, world.name(name), kind="merge", body=drop)

    await refused(attempt("a"), "denied patch request for this namespace")
    await refused(attempt("free"), "namespace is not owned by any tenant")
    await alice.patch(resources.NAMESPACES, world.name("a"), kind="merge", body=drop)
    await world.admin.patch(resources.NAMESPACES, world.name("free"), kind="merge", body=drop)


async def test_a_tenant_of_the_same_name_does_not_inherit(world: World) -> None:
    """A namespace belongs to a tenant's uid, not to its name."""
    await world.tenant()
    made = await world.namespace("a")
    await world.bound("a")
    stale = {
        **made["metadata"]["ownerReferences"][0],
        "uid": "00000000-dead-4bad-8bad-000000000000",
    }
    with pytest.raises(errors.Forbidden):
        await world.boss().patch(
            resources.NAMESPACES,
            world.name("a"),
            kind="merge",
            body={"metadata": {"ownerReferences": [stale]}},
        )
