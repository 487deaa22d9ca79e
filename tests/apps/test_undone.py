"""What does not last is said, by kubectl as people type it."""

from __future__ import annotations

import asyncio

import pytest

from tenantry.api import resources
from tenantry.api.capsule import constants

from .harness import CAPSULE_USERS, World

pytestmark = pytest.mark.plane


async def kubectl(world: World, *words: str, user: str = "alice") -> str:
    who = (f"--as={world.name(user)}", f"--as-group={CAPSULE_USERS}")
    done = await asyncio.to_thread(world.tenancy.plane.run, *words, *who)
    return done.stderr


async def test_an_owner_is_told_what_does_not_last(world: World) -> None:
    await world.tenant(namespaceOptions={"additionalMetadata": {"labels": {"cost": "cc-1"}}})
    await world.namespace()
    await world.bound()
    name, label = world.name("prod"), f'label "cost" is kept by tenant "{world.name("oil")}"'
    for change, words in (
        ("cost=cc-2", f'Warning: {label}: it stays "cc-1", "cc-2" does not last'),
        ("cost-", f'Warning: {label}: it stays "cc-1", removing it does nothing'),
    ):
        told = await kubectl(world, "label", "namespace", name, change, "--overwrite")
        assert told.strip() == words
    key = constants.TENANT_LABEL
    told = await kubectl(
        world, "patch", "namespace", name, "--type=merge",
        "-p", f'{{"metadata":{{"labels":{{"{key}":null}}}}}}',
    )  # fmt: skip
    assert f'"{key}" is kept by tenant' in told
    assert (await world.stored())["metadata"]["labels"]["cost"] == "cc-1"
    # What lasts is not talked about.
    assert await kubectl(world, "label", "namespace", name, "mine=1") == ""


async def test_a_cluster_administrator_is_told_too(world: World) -> None:
    await world.tenant(namespaceOptions={"additionalMetadata": {"labels": {"cost": "cc-1"}}})
    await world.namespace()
    words = ("label", "namespace", world.name("prod"), "cost=cc-3", "--overwrite")
    done = await asyncio.to_thread(world.tenancy.plane.run, *words)
    assert 'it stays "cc-1", "cc-3" does not last' in done.stderr
    await world.admin.get(resources.NAMESPACES, world.name("prod"))


async def test_an_owner_of_bare_namespaces_is_told(world: World) -> None:
    await world.tenant(namespaceOptions={"managedMetadataOnly": True})
    await world.namespace()
    await world.bound()
    told = await kubectl(world, "label", "namespace", world.name("prod"), "mine=1")
    assert told.strip().endswith("namespaces have only what the tenant sets")
