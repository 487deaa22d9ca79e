"""How damaged namespaces are mended, and by whom (specs/capsule 8, rows 14 and 29)."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.kube import client as kube
from tenantry.kube import errors, reads

from .harness import Object, World, eventually, reference, refused, tenant_of

pytestmark = pytest.mark.plane

KEY = constants.BREAK_GLASS_ANNOTATION
FIELD = f"metadata.annotations[{KEY}]"


async def test_an_administrator_breaks_the_glass_and_nobody_else(world: World) -> None:
    await world.tenant()
    gas = await world.tenant("gas", owner="bob")
    made = await world.namespace()
    name = made["metadata"]["name"]
    account = f"system:serviceaccount:{name}:default"
    for who in (world.name("alice"), world.name("bob"), account):
        await world.grant(who, "patch", what=["namespaces", "namespaces/status"])

    async def send(client: kube.Client, value: str, sub: str = "", **more: Any) -> Object:
        body = {"metadata": {"annotations": {KEY: value}, **more}}
        return await client.patch(
            resources.NAMESPACES, name, kind="merge", subresource=sub, body=body
        )

    boss = world.boss()
    nobody = f"{FIELD} is accepted only from administrators listed in the CapsuleConfiguration"
    for thief in (
        world.user("alice"),
        world.user("bob"),
        world.account(name),
        world.stranger("root", "system:masters"),
    ):
        await refused(send(thief, f"tenant/{world.name('gas')}"), nobody)
        await refused(send(thief, "none", "status"), nobody)
    await refused(world.namespace("new", annotations={KEY: "none"}), nobody)
    updates = "an update of a namespace itself (not of its status or finalizers) that is not being"
    await refused(send(boss, "none", "status"), f"{FIELD} is accepted only in {updates} deleted")
    accepted = '"tenant/<name>", the Tenant that the namespace shall belong to, or "none"'
    await refused(
        send(boss, "gas"),
        f'{FIELD}: "gas" is not accepted; accepted is {accepted} for no tenant',
        code=400,
    )
    assert (await world.stored())["metadata"].get("annotations") == made["metadata"].get(
        "annotations"
    )

    # Label and reference contradict each other, which is refused to administrators, too.
    torn = {constants.TENANT_LABEL: world.name("gas")}
    await refused(
        world.labelled(boss, "prod", **torn),
        f'namespace label "{world.name("gas")}" does not match '
        f'owner reference "{world.name("oil")}"',
    )
    mended = await send(boss, f"tenant/{world.name('gas')}", labels=torn)
    assert tenant_of(mended) == world.name("gas")
    assert mended["metadata"]["ownerReferences"] == [reference(gas)]
    assert KEY not in (mended["metadata"].get("annotations") or {})

    async def told() -> Object | None:
        selector = f"{constants.MANAGED_TENANT_LABEL}={world.name('gas')}"
        found = await world.admin.list(resources.CORE_EVENTS, "default", label_selector=selector)
        events = [reads.to_dict(bytes(one)) for one in found.items]
        return next((one for one in events if one["reason"] == "BreakGlass"), None)

    event = await eventually(told, "an event of it")
    assert event is not None
    assert event["type"] == "Warning"
    assert event["involvedObject"]["uid"] == mended["metadata"]["uid"]
    assert event["message"].startswith(f"{KEY} by boss: label {world.name('oil')} and")
    assert event["metadata"]["annotations"]["audit.projectcapsule.dev/username"] == "boss"

    gone = await send(boss, "none")
    assert tenant_of(gone) is None
    assert KEY not in (gone["metadata"].get("annotations") or {})


async def test_administrators_tie_restored_namespaces_to_the_tenant_anew(world: World) -> None:
    """A restore brings back namespaces that name the uid of a tenant that is no more."""
    tenant = await world.tenant()
    who = "system:serviceaccount:kube-system:some-restorer"
    await world.grant(who, "create", what=("namespaces",))
    stale = reference(tenant, uid="00000000-0000-0000-0000-000000000000")
    # An owner that exists, or the garbage collector would take the namespaces at once.
    role = await world.admin.create(
        resources.CLUSTER_ROLES, {"metadata": {"name": world.name("holder")}, "rules": []}
    )
    holder = {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "name": world.name("holder"), "uid": role["metadata"]["uid"],
    }  # fmt: skip
    restorer = world.account("kube-system", "some-restorer")
    for name in ("first", "second"):
        await world.namespace(name, by=restorer, tenant="oil", references=[stale, holder])
    for name in (world.name("alice"), world.name("bob")):
        await world.grant(name, "patch")

    async def send(client: kube.Client, name: str, **metadata: Any) -> Object:
        return await client.patch(
            resources.NAMESPACES, world.name(name), kind="merge", body={"metadata": metadata}
        )

    glass = {KEY: f"tenant/{world.name('oil')}"}
    right = [reference(tenant)]
    for thief in (world.user("alice"), world.user("bob"), world.stranger("r", "system:masters")):
        for change in ({"ownerReferences": None}, {"ownerReferences": right}):
            with pytest.raises(errors.Forbidden):
                await send(thief, "first", **change)
        with pytest.raises(errors.Forbidden):
            await send(thief, "second", annotations=glass)
    boss = world.boss()
    with pytest.raises(errors.Forbidden, match="tenant ownerReference UID mismatch"):
        await send(boss, "second", annotations={"a": "b"})
    for name, references in (("first", [stale, holder]), ("second", [stale, holder])):
        assert (await world.stored(name))["metadata"]["ownerReferences"] == references

    tied = await send(boss, "first", ownerReferences=None)
    assert tied["metadata"]["ownerReferences"] == right
    tied = await send(boss, "second", annotations=glass)
    assert tied["metadata"]["ownerReferences"] == [holder, *right]
    for name in ("first", "second"):
        await world.bound(name)
