"""Which tenant a new namespace becomes part of (specs/capsule 5.3)."""

from __future__ import annotations

import asyncio

import pytest

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.kube import errors

from . import harness
from .harness import World, refused, tenant_of

pytestmark = pytest.mark.plane


async def test_the_only_tenant_of_its_owner(world: World) -> None:
    tenant = await world.tenant()
    made = await world.namespace()
    assert made["metadata"]["ownerReferences"] == [harness.reference(tenant)]
    assert made["metadata"]["labels"] == {
        "capsule.clastix.io/tenant": world.name("oil"),
        "kubernetes.io/metadata.name": world.name("prod"),
    }


async def test_twenty_namespaces_at_once_right_after_the_tenant(world: World) -> None:
    tenant = await world.tenant()
    made = await asyncio.gather(*(world.namespace(f"n{number}") for number in range(20)))
    assert {tenant_of(found) for found in made} == {tenant["metadata"]["name"]}


async def test_by_the_longest_prefix_among_several(world: World) -> None:
    for name in ("oil", "oil-dev", "gas"):
        await world.tenant(name)
    assert tenant_of(await world.namespace("oil-a")) == world.name("oil")
    assert tenant_of(await world.namespace("oil-dev-a")) == world.name("oil-dev")
    assert tenant_of(await world.namespace("gas-dev")) == world.name("gas")


async def test_by_label_among_several(world: World) -> None:
    await world.tenant("oil")
    await world.tenant("gas")
    assert tenant_of(await world.namespace("prod", tenant="gas")) == world.name("gas")


async def test_the_label_beats_the_prefix(world: World) -> None:
    await world.tenant("oil")
    await world.tenant("gas")
    assert tenant_of(await world.namespace("oil-prod", tenant="gas")) == world.name("gas")


async def test_no_choice_among_several(world: World) -> None:
    await world.tenant("oil")
    await world.tenant("gas")
    await refused(world.namespace(), harness.UNASSIGNABLE)


async def test_no_choice_among_several_with_forced_prefix(world: World) -> None:
    await world.tenant("oil", forceTenantPrefix=True)
    await world.tenant("gas", forceTenantPrefix=True)
    await refused(world.namespace(), "The Namespace prefix used doesn't match any available Tenant")


@pytest.mark.parametrize("name", ["gas", "no-such-tenant"])
async def test_the_label_of_a_foreign_or_absent_tenant(world: World, name: str) -> None:
    await world.tenant("oil")
    await world.tenant("gas", owner="bob")
    error = await refused(
        world.namespace("prod", tenant=name),
        "can not assign the desired namespace to a non-owned Tenant",
        code=400,
    )
    assert isinstance(error, errors.BadRequest)


async def test_a_capsule_user_without_tenant(world: World) -> None:
    await refused(
        world.namespace(),
        "You do not have any Tenant assigned: please, reach out to the system administrators",
    )


async def test_a_cluster_admin_who_is_a_capsule_user_is_one(world: World) -> None:
    await refused(
        world.namespace(by=world.user("root", "system:masters")),
        "You do not have any Tenant assigned: please, reach out to the system administrators",
    )


async def test_others_create_free_namespaces(world: World) -> None:
    await world.tenant()
    assert tenant_of(await world.namespace("free", by=world.admin)) is None
    assert tenant_of(await world.namespace("boss", by=world.boss())) is None


async def test_others_do_not_create_for_a_tenant(world: World) -> None:
    tenant = await world.tenant()
    mine = harness.reference(tenant)
    await refused(
        world.namespace(by=world.admin, tenant="oil", references=[mine]), harness.ONLY_OWNERS
    )


async def test_an_administrator_creates_for_a_tenant_by_label_or_reference(world: World) -> None:
    tenant = await world.tenant()
    for name, labelled, references in (
        ("a", "oil", []),
        ("b", None, [harness.reference(tenant)]),
        ("c", "oil", [harness.reference(tenant)]),
    ):
        made = await world.namespace(name, by=world.boss(), tenant=labelled, references=references)
        assert made["metadata"]["ownerReferences"] == [harness.reference(tenant)]
        assert tenant_of(made) == world.name("oil")


@pytest.mark.parametrize(
    ("everywhere", "here", "forced"),
    [
        pytest.param(False, None, False, id="neither says so"),
        pytest.param(True, None, True, id="the configuration"),
        pytest.param(False, True, True, id="the tenant"),
        pytest.param(True, False, False, id="the tenant's word beats the configuration"),
    ],
)
@pytest.mark.parametrize("labelled", [None, "oil"])
async def test_forced_prefix(
    world: World, everywhere: bool, here: bool | None, forced: bool, labelled: str | None
) -> None:
    spec: harness.Object = {} if here is None else {"forceTenantPrefix": here}
    await world.tenant(**spec)
    async with world.configured(forceTenantPrefix=everywhere):
        assert tenant_of(await world.namespace("oil-prod", tenant=labelled)) == world.name("oil")
        attempt = world.namespace("prod", tenant=labelled)
        if forced:
            await refused(
                attempt,
                f"The Namespace name must start with '{world.prefix}-oil-' "
                "when ForceTenantPrefix is enabled in the Tenant.",
            )
        else:
            assert tenant_of(await attempt) == world.name("oil")


async def test_an_administrator_is_held_to_the_forced_prefix(world: World) -> None:
    await world.tenant(forceTenantPrefix=True)
    with pytest.raises(errors.Forbidden):
        await world.namespace("prod", by=world.boss(), tenant="oil")


async def test_a_template_of_names(world: World) -> None:
    like = f"{world.prefix}-*-dev"
    await world.tenant(namespaceOptions={"nameTemplate": like})
    assert tenant_of(await world.namespace("a-dev")) == world.name("oil")
    words = (
        f'The Namespace name must be like "{like}" (nameTemplate of Tenant {world.name("oil")}; * is '
        f'any text of at least one character), not "{world.name("dev")}"'
    )
    for by in (world.user(), world.boss()):
        await refused(world.namespace("dev", tenant="oil", by=by), words)
    # What the API server generates ends otherwise.
    body = {"metadata": {"generateName": world.name("a-")}}
    with pytest.raises(errors.Forbidden):
        await world.user().create(resources.NAMESPACES, body)
    # What there is already goes on.
    labelled = await world.labelled(world.user(), "a-dev", team="a")
    assert labelled["metadata"]["labels"]["team"] == "a"


async def test_a_template_chooses_among_several(world: World) -> None:
    await world.tenant("oil")
    await world.tenant("gas", namespaceOptions={"nameTemplate": f"{world.prefix}-*-dev"})
    assert tenant_of(await world.namespace("a-dev")) == world.name("gas")
    assert tenant_of(await world.namespace("oil-dev")) == world.name("oil")
    await refused(world.namespace("a-prod"), harness.UNASSIGNABLE)


async def test_protected_names(world: World) -> None:
    await world.tenant()
    name = {"metadata": {"name": f"protected-{world.prefix}"}}
    await refused(
        world.user().create(resources.NAMESPACES, name),
        "Creating namespaces with name matching ^protected- regexp is not allowed; "
        "please, reach out to the system administrators",
    )
    # Outside of tenants the expression says nothing.
    await world.admin.create(resources.NAMESPACES, name, dry_run=True)


async def test_a_generated_name(world: World) -> None:
    await world.tenant()
    body = {"metadata": {"generateName": world.name("ci-")}}
    made = await world.user().create(resources.NAMESPACES, body)
    name = made["metadata"]["name"]
    assert name.startswith(world.name("ci-"))
    assert tenant_of(made) == world.name("oil")
    assert made["metadata"]["labels"][constants.NAME_LABEL] == name


@pytest.mark.parametrize("labelled", [False, True])
async def test_a_generated_name_under_a_forced_prefix(world: World, labelled: bool) -> None:
    await world.tenant(forceTenantPrefix=True)
    labels = {constants.TENANT_LABEL: world.name("oil")} if labelled else {}
    client = world.user()
    good = {"metadata": {"generateName": world.name("oil-"), "labels": labels}}
    assert tenant_of(await client.create(resources.NAMESPACES, good)) == world.name("oil")
    # "oil" and five random characters do not make the prefix "oil-".
    for prefix in ("gas-", "oil"):
        bad = {"metadata": {"generateName": world.name(prefix), "labels": labels}}
        with pytest.raises(errors.Forbidden):
            await client.create(resources.NAMESPACES, bad)


async def test_a_generated_name_chooses_among_several(world: World) -> None:
    await world.tenant("oil")
    await world.tenant("gas")
    body = {"metadata": {"generateName": world.name("gas-")}}
    assert tenant_of(await world.user().create(resources.NAMESPACES, body)) == world.name("gas")


async def test_a_foreign_reference_in_a_new_namespace_is_replaced(world: World) -> None:
    mine = await world.tenant("oil")
    theirs = await world.tenant("gas", owner="bob")
    made = await world.namespace(references=[harness.reference(theirs)])
    assert made["metadata"]["ownerReferences"] == [harness.reference(mine)]
    assert tenant_of(made) == world.name("oil")
