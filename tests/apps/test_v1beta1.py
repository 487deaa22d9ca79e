"""Tenants of v1beta1 as people write them, and as people attack with them."""

from __future__ import annotations

import asyncio
import json

import pytest

from tenantry.api import resources as core
from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule
from tenantry.kube import errors

from .harness import Object, World, eventually

pytestmark = pytest.mark.plane

OLD = core.Resource(constants.GROUP, "v1beta1", "tenants", "Tenant", namespaced=False)
KEPT = constants.KEPT_ANNOTATION


@pytest.fixture
async def world(world: World) -> World:
    async def converting() -> bool:
        found = await world.admin.get(core.CRDS, "tenants.capsule.clastix.io")
        return bool(found["spec"]["conversion"]["strategy"] == "Webhook")

    await eventually(converting)

    async def served() -> bool:
        # The API server follows its own definitions by a watch.
        try:
            await world.admin.list(OLD)
        except errors.ApiError:
            return False
        return True

    await eventually(served)
    return world


def manifest(world: World, name: str = "oil", **spec: object) -> Object:
    return {
        "apiVersion": "capsule.clastix.io/v1beta1",
        "kind": "Tenant",
        "metadata": {
            "name": world.name(name),
            "annotations": {
                "capsule.clastix.io/forbidden-namespace-labels": "denied.io/x",
                "clusterrolenames.capsule.clastix.io/0": "view",
            },
        },
        "spec": {
            "owners": [{"kind": "User", "name": world.name("alice")}],
            "namespaceOptions": {"quota": 2},
            "storageClasses": {"allowed": ["slow"]},
            **spec,
        },
    }


async def kubectl(world: World, *words: str, given: Object | None = None) -> str:
    stdin = json.dumps(given) if given is not None else ""
    done = await asyncio.to_thread(world.tenancy.plane.run, *words, stdin=stdin)
    return done.stdout


async def test_kubectl_applies_and_reads_v1beta1(world: World) -> None:
    name = world.name("oil")
    await kubectl(world, "apply", "-f", "-", given=manifest(world))
    stored = await world.admin.get(capsule.TENANTS, name)
    assert stored["apiVersion"] == "capsule.clastix.io/v1beta2"
    assert stored["spec"]["namespaceOptions"]["forbiddenLabels"]["denied"] == ["denied.io/x"]
    assert stored["spec"]["owners"][0]["clusterRoles"] == ["view"]
    assert stored["spec"]["ingressOptions"]["allowWildcardHostnames"] is True
    # It is a tenant like any other.
    await world.namespace("prod", tenant="oil")
    with pytest.raises(errors.Forbidden, match=r"denied[.]io/x"):
        await world.namespace("dev", tenant="oil", labels={"denied.io/x": "1"})
    # Somebody uses the new version ...
    await world.change(stored, storageClasses={"default": "slow"}, cordoned=True)
    # ... and somebody goes on with the old one, client-side and server-side.
    await kubectl(world, "apply", "-f", "-", given=manifest(world, nodeSelector={"pool": "a"}))
    ssa = ("apply", "--server-side", "--force-conflicts", "--field-manager=gitops", "-f", "-")
    await kubectl(world, *ssa, given=manifest(world, nodeSelector={"pool": "b"}))
    after = await world.admin.get(capsule.TENANTS, name)
    assert after["spec"]["nodeSelector"] == {"pool": "b"}
    assert after["spec"]["storageClasses"] == {"allowed": ["slow"], "default": "slow"}
    assert after["spec"]["cordoned"] is True
    shown = json.loads(
        await kubectl(world, "get", "tenants.v1beta1.capsule.clastix.io", name, "-o", "json")
    )
    assert shown["apiVersion"] == "capsule.clastix.io/v1beta1"
    assert shown["spec"]["storageClasses"] == {"allowed": ["slow"]}
    assert shown["metadata"]["annotations"]["capsule.clastix.io/cordon"] == "true"
    assert "cordoned" not in shown["spec"]

    async def told() -> bool:
        return bool((await world.status())["state"] == "Cordoned")

    await eventually(told)
    table = await kubectl(world, "get", "tenants.v1beta1.capsule.clastix.io", name)
    assert table.splitlines()[1].split()[:4] == [name, "Cordoned", "2", "1"]


async def test_a_write_in_v1beta1_loses_nothing_of_the_status(world: World) -> None:
    made = await world.tenant()
    name = made["metadata"]["name"]
    await world.namespace()

    async def ready() -> Object | None:
        status = await world.status()
        return status if status.get("size") == 1 and status["spaces"][0]["conditions"] else None

    before = await eventually(ready)
    assert before is not None
    body = {"spec": {"nodeSelector": {"a": "b"}}}
    changed = await world.admin.patch(OLD, name, kind="merge", body=body)
    for key in ("owners", "spaces", "conditions", "classes"):
        assert changed["status"].get(key) == before.get(key), key
    assert (await world.admin.get(capsule.TENANTS, name))["spec"]["nodeSelector"] == {"a": "b"}


async def test_policies_are_judged_in_the_stored_version(world: World) -> None:
    """An expression that cannot be read, and a deletion, are refused in either version."""
    bad = manifest(world, "bad", priorityClasses={"allowedRegex": "("})
    with pytest.raises(errors.Forbidden, match="priorityClasses"):
        await world.admin.create(OLD, bad)
    kept = manifest(world, "kept")
    kept["metadata"]["annotations"]["capsule.clastix.io/protected"] = ""
    await world.admin.create(OLD, kept)
    with pytest.raises(errors.Forbidden):
        await world.admin.delete(OLD, world.name("kept"))


async def test_forged_annotations_are_refused(world: World) -> None:
    deep = '{"spec":{"data":' + '{"a":' * 40_000 + "1" + "}" * 40_001 + "}"
    for number, text in enumerate(
        ("nonsense", '{"spec":{"rules":5}}', '{"spec":{"unheard":1}}', deep, "x" * 300_000)
    ):
        body = manifest(world, f"forged{number}")
        body["metadata"]["annotations"][KEPT] = text
        # A failed conversion is the API server's own failure: 500.
        with pytest.raises(errors.KubeError) as caught:
            await world.admin.create(OLD, body)
        told = str(caught.value)
        assert KEPT in told or "too long" in told.lower(), told
        with pytest.raises(errors.NotFound):
            await world.admin.get(capsule.TENANTS, world.name(f"forged{number}"))
    # What the annotation may say is judged as if it stood in the object.
    body = manifest(world, "judged")
    body["metadata"]["annotations"][KEPT] = json.dumps(
        {"spec": {"runtimeClasses": {"allowedRegex": "("}}}
    )
    with pytest.raises(errors.Forbidden, match="runtimeClasses"):
        await world.admin.create(OLD, body)
    # Stored under another version it says nothing, and keeps nobody from listing.
    made = await world.tenant("quiet")
    note = {"metadata": {"annotations": {KEPT: "nonsense"}}}
    await world.admin.patch(capsule.TENANTS, made["metadata"]["name"], kind="merge", body=note)
    assert (await world.admin.get(OLD, made["metadata"]["name"]))["apiVersion"].endswith("v1beta1")


async def test_owners_may_not_write_the_old_version_either(world: World) -> None:
    made = await world.tenant()
    alice, name = world.user(), made["metadata"]["name"]
    for attempt in (
        alice.create(OLD, manifest(world, "mine")),
        alice.patch(OLD, name, kind="merge", body={"spec": {"owners": []}}),
        alice.patch(OLD, name, kind="merge", subresource="status", body={"status": {"size": 0}}),
        alice.delete(OLD, name),
    ):
        with pytest.raises(errors.Forbidden):
            await attempt
