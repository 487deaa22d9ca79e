"""Objects that Capsule left behind: what it wrote and nobody wants any longer vanishes."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule
from tenantry.kube import errors

from .harness import Object, World, eventually

pytestmark = pytest.mark.plane

RBAC = "rbac.authorization.k8s.io"
LEFT = "left-by.example.com/the-other"


async def write(
    world: World,
    resource: resources.Resource,
    name: str,
    namespace: str = "",
    *,
    manager: str,
    **metadata: Any,
) -> None:
    """Put metadata on an object the way Capsule does: the whole object, by PUT."""

    async def put() -> bool:
        found = copy.deepcopy(await world.boss().get(resource, name, namespace))
        for key, values in metadata.items():
            found["metadata"][key] = {**found["metadata"].get(key, {}), **values}
        return await written(world, resource, found, manager=manager)

    await eventually(put)


async def written(
    world: World,
    resource: resources.Resource,
    found: Object,
    *,
    manager: str,
    subresource: str = "",
) -> bool:
    """Replace an object; False when the platform wrote it in between."""
    try:
        await world.boss().replace(resource, found, subresource=subresource, field_manager=manager)
    except errors.Conflict:
        return False
    return True


async def gone(
    world: World, resource: resources.Resource, name: str, namespace: str = ""
) -> Object:
    async def vanished() -> Object | None:
        found: Object = await world.admin.get(resource, name, namespace)
        metadata = found["metadata"]
        left = LEFT in metadata.get("labels", {}) or LEFT in metadata.get("annotations", {})
        return None if left else found

    found = await eventually(vanished)
    assert found is not None
    return found


@pytest.mark.parametrize("manager", ["capsule", "cmd", "manager"])
async def test_on_role_bindings(world: World, manager: str) -> None:
    await world.tenant()
    await world.namespace()
    await world.bound()
    name, before = next(iter((await world.bindings()).items()))
    where = world.name("prod")
    mark = {LEFT: "x"}
    await write(
        world, resources.ROLE_BINDINGS, name, where, manager=manager, labels=mark, annotations=mark
    )
    after = await gone(world, resources.ROLE_BINDINGS, name, where)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["subjects"] == before["subjects"]
    assert after["metadata"]["ownerReferences"] == before["metadata"]["ownerReferences"]


async def test_bindings_of_capsule_0_11_vanish(world: World) -> None:
    """Else whoever it was for kept the namespace, whatever the tenant says."""
    await world.tenant()
    await world.namespace()
    await world.bound()
    where, old = world.name("prod"), f"capsule-{world.name('oil')}-0-admin"
    labels = {constants.ROLE_BINDING_LABEL: "0", constants.TENANT_LABEL: world.name("oil")}
    body = {
        "metadata": {"name": old, "namespace": where, "labels": labels},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": world.name("revoked")}],
    }
    await world.boss().create(resources.ROLE_BINDINGS, body)

    async def vanished() -> bool:
        try:
            await world.admin.get(resources.ROLE_BINDINGS, old, where)
        except errors.NotFound:
            return True
        return False

    await eventually(vanished)
    assert await world.bindings()


async def test_on_cluster_roles_and_their_binding(world: World) -> None:
    for resource in (resources.CLUSTER_ROLES, resources.CLUSTER_ROLE_BINDINGS):
        name = constants.PROVISIONER_ROLE
        await write(world, resource, name, manager="capsule", labels={LEFT: "x"})
        after = await gone(world, resource, name)
        assert after["metadata"]["labels"] == {constants.CREATED_BY_LABEL: "rbac-controller"}


async def test_on_namespaces(world: World) -> None:
    await world.tenant()
    await world.namespace()
    await world.bound()
    name = world.name("prod")
    theirs = {"somebody.example.com/else": "x"}
    await write(world, resources.NAMESPACES, name, manager="manager", labels=theirs)
    await write(world, resources.NAMESPACES, name, manager="capsule", labels={LEFT: "x"})
    after = await gone(world, resources.NAMESPACES, name)
    # Of another program of that name, and of people, nothing is taken.
    assert theirs.items() <= after["metadata"]["labels"].items()
    assert after["metadata"]["ownerReferences"]


async def test_in_a_tenants_status(world: World) -> None:
    await world.tenant()
    await world.namespace()
    await world.bound()

    async def put() -> bool:
        found = await world.boss().get(capsule.TENANTS, world.name("oil"))
        found["status"]["classes"] = {"storage": ["left"]}
        found["metadata"].pop("managedFields")
        return await written(world, capsule.TENANTS, found, manager="capsule", subresource="status")

    await eventually(put)

    async def cleared() -> bool:
        status = await world.status()
        # The cluster's own classes are listed; what it never had is not.
        listed = (status.get("classes") or {}).get("storage") or []
        return "left" not in listed and status["size"] == 1

    await eventually(cleared)
    assert (await world.admin.get(capsule.TENANTS, world.name("oil")))["metadata"]["finalizers"]


async def test_a_tenant_says_its_name_also_when_no_webhook_saw_it(world: World) -> None:
    await world.tenant()
    tenancy = world.tenancy
    tenancy.webhook.kill()
    try:
        # Neither of the platform's own accounts is asked about.
        body = {"metadata": {"labels": {constants.NAME_LABEL: None}}}
        as_us = world.account(constants.CONTROLLER_NAMESPACE, "capsule")
        await as_us.patch(capsule.TENANTS, world.name("oil"), kind="merge", body=body)

        async def named() -> bool:
            found = await world.admin.get(capsule.TENANTS, world.name("oil"))
            labels: dict[str, str] = found["metadata"].get("labels") or {}
            return labels.get(constants.NAME_LABEL) == world.name("oil")

        await eventually(named)
    finally:
        tenancy.webhook.start()
        tenancy.webhook.wait_ready()


async def test_what_keeps_a_deleted_tenant_is_named(world: World) -> None:
    """A namespace with the label alone would lose its tenant for ever, so it is waited for."""
    await world.tenant()
    await world.namespace()
    await world.bound()
    who = "system:serviceaccount:kube-system:some-controller"
    controller = world.account("kube-system", "some-controller")
    await world.grant(who, "patch", what=("namespaces",))
    name = world.name("prod")

    async def change(**metadata: Any) -> Object:
        found: Object = await controller.patch(
            resources.NAMESPACES, name, kind="merge", body={"metadata": metadata}
        )
        return found

    await change(finalizers=["example.com/hold"])
    await world.boss().delete(capsule.TENANTS, world.name("oil"))
    tenancy = world.tenancy
    tenancy.webhook.kill()
    try:
        # Nothing that we would let pass; the policy that holds without us goes as well.
        await world.admin.delete(
            resources.VALIDATING_POLICY_BINDINGS, "tenantry-namespace-ownership"
        )

        async def damaged() -> bool:
            try:
                return not (await change(ownerReferences=None))["metadata"].get("ownerReferences")
            except errors.ApiError:
                return False

        await eventually(damaged)
    finally:
        tenancy.webhook.start()
        tenancy.webhook.wait_ready()

    async def said() -> bool:
        message: str = world.condition(await world.status(), "Ready")["message"]
        return name in message and "without the ownerReference" in message

    await eventually(said)
    await change(finalizers=None)

    async def ended() -> bool:
        try:
            await world.admin.get(capsule.TENANTS, world.name("oil"))
        except errors.NotFound:
            return True
        return False

    await eventually(ended, seconds=30)
