"""Regular expressions that were stored before anybody checked them keep closed what they guard."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec
import pytest

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule

from .content import pod, put
from .harness import Object, World, eventually, refused

pytestmark = pytest.mark.plane

PROTECTED, DENIED, RULE = "^(protected-", "^(evil", "^(x"
FORBIDDEN = (
    "namespace labels validation failed: label team is forbidden for the current Tenant. "
    f"Forbidden are one of the following () or matching the regex {DENIED}"
)
NOT_THIS_NAME = (
    f"Creating namespaces with name matching {PROTECTED} regexp is not allowed; "
    "please, reach out to the system administrators"
)


@contextlib.asynccontextmanager
async def unchecked(world: World) -> AsyncIterator[None]:
    """Let be written what admission refuses, as a Capsule with other limits may have."""
    webhook = world.tenancy.webhook
    webhook.kill()
    try:
        for kind in (resources.VALIDATING_WEBHOOKS, resources.MUTATING_WEBHOOKS):
            for one in (await world.admin.list(kind)).items:
                await world.admin.delete(kind, msgspec.json.decode(one)["metadata"]["name"])
        yield
    finally:
        webhook.start()
        await asyncio.to_thread(webhook.wait_ready)


async def test_what_they_guard_stays_closed_and_is_told_of(world: World) -> None:
    tenant = await world.tenant()
    await world.namespace()
    # The one of the configuration is back before the next test.
    async with world.configured(protectedNamespaceRegex=None):
        async with unchecked(world):
            await world.change(
                tenant,
                namespaceOptions={"forbiddenLabels": {"deniedRegex": DENIED}},
                rules=[{"enforce": {"workloads": {"schedulers": [{"exp": RULE}]}}}],
            )
            await world.admin.patch(
                capsule.CONFIGURATIONS,
                constants.CONFIGURATION_NAME,
                kind="merge",
                body={"spec": {"protectedNamespaceRegex": PROTECTED}},
            )
        await refused(world.labelled(world.user(), "prod", team="a"), FORBIDDEN)
        await refused(world.namespace("dev"), NOT_THIS_NAME)
        odd = pod("p")
        odd["spec"]["schedulerName"] = "x"
        problem = await refused(put(world, resources.PODS, odd), "")
        assert "must be a valid RE2 regular expression" in problem.message
        await eventually(lambda: told(world))
    await eventually(lambda: recovered(world))


async def told(world: World) -> bool:
    """Tell whether both say what is wrong with them."""
    tenant, configuration = world.condition(await world.status(), "Ready"), await ready(world)
    return (
        tenant["status"] == configuration["status"] == "False"
        and f'unable to compile regex "{DENIED}" for forbidden labels: ' in tenant["message"]
        and f'spec.rules[0]: Invalid value: "{RULE}": must be a valid RE2' in tenant["message"]
        and configuration["message"].startswith(
            f'spec.protectedNamespaceRegex "{PROTECTED}" is not a valid regular expression: '
        )
    )


async def recovered(world: World) -> bool:
    return bool((await ready(world))["status"] == "True")


async def ready(world: World) -> Object:
    """Return what the configuration says of itself."""
    found = await world.admin.get(capsule.CONFIGURATIONS, constants.CONFIGURATION_NAME)
    return world.condition(found["status"], "Ready")
