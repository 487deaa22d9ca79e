"""The guide "tenants", typed as it stands: manifests, commands, and what they answer."""

from __future__ import annotations

import asyncio
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule

from .harness import CONFIGURATION, Object, World, eventually, tenant_of

pytestmark = pytest.mark.plane

GUIDE = Path(__file__).parents[2] / "docs" / "tenants.md"
#: Whoever follows the guide: an administrator of the cluster.
ADMIN = ("--as=admin", "--as-group=system:masters")


def chapter(title: str) -> str:
    text = GUIDE.read_text().partition(f"## {title}\n")[2]
    return text.partition("\n## ")[0]


def manifests(title: str) -> list[Object]:
    blocks = re.findall(r"^```yaml\n(.*?)^```$", chapter(title), re.DOTALL | re.MULTILINE)
    return [yaml.safe_load(block) for block in blocks]


def commands(title: str) -> list[tuple[str, str]]:
    """Return what is typed, without remarks, and what is said to come of it."""
    blocks = re.findall(r"^```console\n(.*?)^```$", chapter(title), re.DOTALL | re.MULTILINE)
    typed = [one for block in blocks for one in block.split("$ ") if one]
    found = [one.partition("\n") for one in typed]
    return [(re.sub(r"\s{2,}#.*", "", line), output) for line, _, output in found]


async def kubectl(world: World, command: str) -> subprocess.CompletedProcess[str]:
    program, *args = shlex.split(command)
    assert program == "kubectl"
    return await asyncio.to_thread(world.tenancy.plane.run, *args, *ADMIN, check=False)


async def works(world: World, command: str) -> str:
    done = await kubectl(world, command)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout + done.stderr


async def test_it_works_as_it_stands(world: World) -> None:
    boss = world.boss()
    (configuration,) = manifests("Who may own tenants")
    tenant, promoting = manifests("A tenant")
    rules, places, nodes, classes = manifests("What may be in its namespaces")
    await boss.patch(
        capsule.CONFIGURATIONS, "default", kind="merge",
        body={"spec": {**configuration["spec"], **nodes["spec"]}}, dry_run=True,
    )  # fmt: skip
    await boss.create(capsule.TENANTS, tenant)
    await boss.create(capsule.TENANTS, {"metadata": {"name": "orion"}, "spec": {"owners": []}})
    for spec in (promoting["spec"], places["spec"], classes["spec"]):
        await boss.patch(capsule.TENANTS, "vision", kind="merge", body={"spec": spec}, dry_run=True)
    kept = {"namespaceOptions": {"additionalMetadata": {"labels": {"cost": "cc-1"}}}}
    await boss.patch(
        capsule.TENANTS, "vision", kind="merge", body={"spec": {**rules["spec"], **kept}}
    )
    try:
        await typed(world)
    finally:
        usual = {key: CONFIGURATION[key] for key in ("administrators",)}
        await world._configure(usual)
        for name in ("vision", "orion"):
            await world.admin.delete(capsule.TENANTS, name)


async def typed(world: World) -> None:
    alice = world.admin.as_user("alice", [constants.USER_GROUP])
    labels = {"cost-center": "cc-1"}
    # In other tests there is an alice with a tenant, too.
    hers = {**labels, constants.TENANT_LABEL: "vision"}
    await alice.create(resources.NAMESPACES, {"metadata": {"name": "vision-train", "labels": hers}})
    await world.admin.create(
        resources.NAMESPACES, {"metadata": {"name": "legacy", "labels": labels}}
    )

    async def legacy() -> str | None:
        return tenant_of(await world.admin.get(resources.NAMESPACES, "legacy"))

    ((events, _),) = commands("Who may own tenants")

    async def assigned() -> bool:
        return "TenantAssigned" in await works(world, events)

    await eventually(assigned)

    ((label, warning),) = commands("What does not last")
    assert warning in await works(world, label)

    administrators, join, refused, again, glass = (one for one, _ in commands("Moving namespaces"))
    await works(world, administrators)
    await works(world, join)
    assert await legacy() == "vision"
    done = await kubectl(world, refused)
    assert done.returncode == 1
    assert await legacy() == "vision"
    await works(world, again)
    assert await legacy() == "vision"
    await works(world, glass)
    found = await world.admin.get(resources.NAMESPACES, "legacy")
    assert tenant_of(found) == "vision"
    assert not any("break-glass" in key for key in found["metadata"].get("annotations") or {})

    ((status, table),) = commands("What may be in its namespaces")

    async def shown() -> bool:
        # All but the age.
        got = [line.split()[:-1] for line in (await works(world, status)).splitlines()]
        return got == [line.split()[:-1] for line in table.splitlines()]

    await eventually(shown)

    ((strip, _),) = commands("Freezing and protecting")
    await works(world, strip)
