"""What tenants, owners and the configuration say about themselves (specs/capsule 1.3, 2.5)."""

from __future__ import annotations

import datetime as dt

import pytest

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule

from .harness import BOSS, CAPSULE_USERS, Object, World, eventually

pytestmark = pytest.mark.plane


async def settled(world: World, size: int) -> Object:
    async def reconciled() -> Object | None:
        found = await world.admin.get(capsule.TENANTS, world.name("oil"))
        status: Object = found.get("status") or {}
        fresh = status.get("observedGeneration") == found["metadata"]["generation"]
        return status if fresh and status.get("size") == size else None

    status = await eventually(reconciled)
    assert status is not None
    return status


def plain(condition: Object) -> tuple[str, str, str, str]:
    return condition["type"], condition["status"], condition["reason"], condition["message"]


async def test_a_tenant_in_order(world: World) -> None:
    await world.tenant()
    status = await settled(world, 0)
    assert status["state"] == "Active"
    assert [plain(condition) for condition in status["conditions"]] == [
        ("Ready", "True", "Succeeded", "reconciled"),
        ("Cordoned", "False", "Active", "not cordoned"),
        ("Enforced", "True", "AllFieldsEnforced", "every field that is set takes effect"),
    ]
    assert {condition["observedGeneration"] for condition in status["conditions"]} == {1}
    assert status["owners"] == [
        {
            "kind": "User",
            "name": world.name("alice"),
            "clusterRoles": ["admin", "capsule-namespace-deleter"],
        },
        {"kind": "User", "name": BOSS, "clusterRoles": ["capsule-namespace-deleter"]},
    ]


async def test_its_namespaces_are_listed_in_order(world: World) -> None:
    await world.tenant()
    made = [await world.namespace(name) for name in ("b", "a")]
    for name in ("a", "b"):
        await world.bound(name)
    status = await settled(world, 2)
    assert status["namespaces"] == [world.name("a"), world.name("b")]
    by_name = {found["metadata"]["name"]: found["metadata"]["uid"] for found in made}
    assert {space["name"]: space["uid"] for space in status["spaces"]} == by_name

    async def ready() -> bool:
        for space in (await world.status())["spaces"]:
            assert plain(world.condition(space, "Ready")) == (
                "Ready", "True", "Succeeded", "reconciled",
            )  # fmt: skip
            assert plain(world.condition(space, "Cordoned")) == (
                "Cordoned", "False", "Active", "not cordoned",
            )  # fmt: skip
            assert space["metadata"]["labels"][constants.TENANT_LABEL] == world.name("oil")
        return True

    await eventually(ready)


async def test_cordoning_is_told_and_only_its_time_changes(world: World) -> None:
    tenant = await world.tenant()
    before = {c["type"]: c["lastTransitionTime"] for c in (await settled(world, 0))["conditions"]}
    await world.change(tenant, cordoned=True)

    async def told() -> bool:
        return bool((await world.status())["state"] == "Cordoned")

    await eventually(told)
    conditions = (await world.status())["conditions"]
    assert plain(conditions[1]) == ("Cordoned", "True", "Cordoned", "Tenant is cordoned")
    assert conditions[0]["lastTransitionTime"] == before["Ready"]
    assert conditions[1]["lastTransitionTime"] >= before["Cordoned"]


async def test_fields_without_effect_are_named(world: World) -> None:
    await world.tenant(
        resourceQuotas={"scope": "Tenant", "items": [{"hard": {"pods": "3"}}]},
    )
    status = await settled(world, 0)
    enforced = world.condition(status, "Enforced")
    assert (enforced["status"], enforced["reason"]) == ("False", "FieldsNotEnforced")
    assert "resourceQuotas" in enforced["message"]
    assert world.condition(status, "Ready")["status"] == "True"


async def test_a_settled_tenant_is_not_written(world: World) -> None:
    await world.tenant()
    await world.namespace("a")
    await world.bound("a")
    await settled(world, 1)

    async def version() -> str:
        return str((await world.admin.get(capsule.TENANTS, world.name("oil")))["metadata"][
            "resourceVersion"
        ])  # fmt: skip

    async def stands_still() -> bool:
        before = await version()
        # Enough going on elsewhere that a loop of writes would show.
        for number in range(10):
            await world.admin.create(
                resources.CONFIG_MAPS,
                {"metadata": {"name": f"c{number}", "namespace": world.name("a")}},
            )
            await world.admin.delete(resources.CONFIG_MAPS, f"c{number}", world.name("a"))
        return await version() == before

    await eventually(stands_still)


async def test_printer_columns(world: World) -> None:
    await world.tenant(nodeSelector={"pool": "gpu"}, namespaceOptions={"quota": 3})
    await world.namespace("a")
    await world.bound("a")
    await settled(world, 1)

    async def ready() -> bool:
        return bool(world.condition(await world.status(), "Ready")["status"] == "True")

    await eventually(ready)

    async def shown() -> list[list[str]]:
        done = world.tenancy.plane.run("get", "tenants", world.name("oil"))
        lines = done.stdout.splitlines()
        return [line.split("   ") for line in lines]

    async def in_order() -> bool:
        rows = await shown()
        cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
        age = cells[1].pop()
        assert age.endswith("s")
        return cells == [
            ["NAME", "STATE", "NAMESPACE QUOTA", "NAMESPACE COUNT", "NODE SELECTOR", "READY",
             "STATUS", "AGE"],
            [world.name("oil"), "Active", "3", "1", '{"pool":"gpu"}', "True", "reconciled"],
        ]  # fmt: skip

    await eventually(in_order)


async def test_tenants_have_their_name_as_label_and_a_short_name(world: World) -> None:
    made = await world.tenant()
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": world.name("oil")}
    plane = world.tenancy.plane
    found = plane.run(
        "get", "tnt", "-l", f"{constants.NAME_LABEL}={world.name('oil')}", "-o", "name"
    )
    assert found.stdout.strip() == f"tenant.capsule.clastix.io/{world.name('oil')}"


async def test_the_finalizer_is_there_while_there_are_namespaces(world: World) -> None:
    await world.tenant()
    await settled(world, 0)
    found = await world.admin.get(capsule.TENANTS, world.name("oil"))
    assert "finalizers" not in found["metadata"]
    await world.namespace("a")

    async def held() -> bool:
        found = await world.admin.get(capsule.TENANTS, world.name("oil"))
        return bool(
            found["metadata"].get("finalizers") == ["controller.projectcapsule.dev/finalize"]
        )

    await eventually(held)


async def test_the_configuration_tells_who_is_known(world: World) -> None:
    await world.tenant()
    carol = {"kind": "User", "name": world.name("carol")}
    for name, aggregate in (("carol", True), ("dave", False)):
        spec = {"kind": "User", "name": world.name(name), "aggregate": aggregate}
        body = {"metadata": {"name": world.name(name)}, "spec": spec}
        await world.admin.create(capsule.TENANT_OWNERS, body)

    async def told() -> bool:
        found = await world.admin.get(capsule.CONFIGURATIONS, "default")
        status = found["status"]
        assert status["users"] == sorted(status["users"], key=lambda u: (u["kind"], u["name"]))
        return (
            {"kind": "Group", "name": CAPSULE_USERS} in status["users"]
            and carol in status["users"]
            and not any(user["name"] == world.name("dave") for user in status["users"])
            and world.name("oil") in status["tenants"]
            and world.condition(status, "Ready")["status"] == "True"
        )

    await eventually(told)

    async def may_create() -> bool:
        found = await world.admin.get(resources.CLUSTER_ROLE_BINDINGS, constants.PROVISIONER_ROLE)
        names = {subject["name"] for subject in found["subjects"]}
        return {CAPSULE_USERS, BOSS, carol["name"]} <= names

    await eventually(may_create)


@pytest.mark.parametrize("what", ["clusterrole", "clusterrolebinding"])
async def test_the_right_to_create_namespaces_is_repaired(world: World, what: str) -> None:
    resource = resources.CLUSTER_ROLES if what == "clusterrole" else resources.CLUSTER_ROLE_BINDINGS

    async def content() -> list[Object]:
        found = await world.admin.get(resource, constants.PROVISIONER_ROLE)
        # TenantOwners of other tests may still be coming or going.
        known = [one for one in found.get("subjects", ()) if one["name"] in (BOSS, CAPSULE_USERS)]
        rules: list[Object] = found.get("rules", [])
        return rules or known

    before = await content()
    assert before
    await world.admin.delete(resource, constants.PROVISIONER_ROLE)

    async def back() -> bool:
        return await content() == before

    await eventually(back)


async def test_times_are_now(world: World) -> None:
    await world.tenant()
    ready = world.condition(await settled(world, 0), "Ready")
    when = dt.datetime.fromisoformat(ready["lastTransitionTime"])
    assert abs((dt.datetime.now(dt.UTC) - when).total_seconds()) < 60
