"""Names that mean somebody: whoever creates a namespace is its service accounts."""

from __future__ import annotations

import pytest

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule
from tenantry.kube import errors

from .harness import BOSS, Object, World, eventually, tenant_of

pytestmark = pytest.mark.plane


def subjects(namespace: str) -> list[Object]:
    name = f"system:serviceaccount:{namespace}:deployer"
    return [
        {"kind": "ServiceAccount", "name": name},
        {"kind": "User", "name": name},
        {"kind": "Group", "name": f"system:serviceaccounts:{namespace}"},
    ]


@pytest.mark.parametrize("number", range(3))
async def test_the_home_of_an_administrator(world: World, number: int) -> None:
    await world.tenant()
    subject = subjects(world.name("gitops"))[number]
    async with world.configured(administrators=[{"kind": "User", "name": BOSS}, subject]):
        with pytest.raises(errors.Forbidden, match="rights outside of the tenant"):
            await world.namespace("gitops")
        with pytest.raises(errors.Forbidden, match="rights outside of the tenant"):
            await world.namespace("gitops", tenant="oil")
        # An administrator may, and so may everybody who is none of a tenant's people.
        await world.namespace("gitops", by=world.boss(), tenant="oil")


@pytest.mark.parametrize("number", range(3))
async def test_the_home_of_another_tenants_owner(world: World, number: int) -> None:
    subject = subjects(world.name("ci"))[number]
    await world.tenant("gas", owners=[subject])
    await world.tenant("oil")

    async def is_refused() -> bool:
        try:
            await world.namespace("ci", dry_run=True)
        except errors.Forbidden as problem:
            return "rights outside of the tenant" in problem.message
        return False

    await eventually(is_refused)


async def test_the_home_of_a_tenant_owner_object(world: World) -> None:
    await world.tenant("gas", owners=[])
    labels = {constants.MANAGED_TENANT_LABEL: world.name("gas")}
    subject = {**subjects(world.name("ci"))[0], "aggregate": False}
    body: Object = {"metadata": {"name": world.name("ci"), "labels": labels}, "spec": subject}
    await world.admin.create(capsule.TENANT_OWNERS, body)
    await world.tenant("oil")

    async def is_refused() -> bool:
        try:
            await world.namespace("ci", dry_run=True)
        except errors.Forbidden as problem:
            return "rights outside of the tenant" in problem.message
        return False

    await eventually(is_refused)


async def test_a_tenants_own_accounts_may_live_in_it(world: World) -> None:
    await world.tenant(owners=[world.owner(), *subjects(world.name("ci"))])
    assert tenant_of(await world.namespace("ci")) == world.name("oil")


@pytest.mark.parametrize("subresource", ["", "status"])
async def test_no_namespace_calls_itself_another(world: World, subresource: str) -> None:
    """Webhooks leave kube-system alone by this label, so nobody else may carry it."""
    await world.tenant()
    await world.namespace()
    await world.grant(world.name("alice"), "patch", what=["namespaces/status"])
    for value in ("kube-system", constants.CONTROLLER_NAMESPACE, None):
        try:
            await world.user().patch(
                resources.NAMESPACES,
                world.name("prod"),
                kind="merge",
                subresource=subresource,
                body={"metadata": {"labels": {constants.NAME_LABEL: value}}},
            )
        except errors.ApiError as problem:
            codes = {problem.code}
        else:
            codes = set()
        assert codes <= {403, 422}
        labels = (await world.stored())["metadata"]["labels"]
        assert labels[constants.NAME_LABEL] == world.name("prod")
