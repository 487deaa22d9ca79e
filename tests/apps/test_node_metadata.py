"""Metadata of nodes that users may not touch (specs/capsule 1.5, 5.6)."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.api import resources
from tenantry.kube import errors

from .harness import Object, World, eventually, refused

pytestmark = pytest.mark.plane


async def test_users_leave_alone_what_the_configuration_keeps(world: World) -> None:
    await world.tenant()
    node = world.name("node")
    await world.admin.create(
        resources.NODES, {"metadata": {"name": node, "labels": {"gpu.io/kind": "a"}}}
    )
    await world.grant(world.name("alice"), "get", "patch", what=("nodes",))
    await world.grant(world.name("carol"), "get", "patch", what=("nodes",))
    alice = world.user()

    async def patched(client: Any = alice, **metadata: Any) -> Object:
        found: Object = await client.patch(
            resources.NODES, node, kind="merge", body={"metadata": metadata}, dry_run=True
        )
        return found

    # Nothing is said of nodes, so nobody asks about them.
    await patched(labels={"gpu.io/kind": None})
    kept = {
        "forbiddenLabels": {"denied": ["pool"], "deniedRegex": "^gpu[.]io/"},
        "forbiddenAnnotations": {"denied": ["note"]},
    }
    async with world.configured(nodeMetadata=kept):

        async def asked() -> bool:
            try:
                await patched(labels={"pool": "mine"})
            except errors.Forbidden:
                return True
            return False

        await eventually(asked)
        words = (
            "Unable to update node as some {} are marked as forbidden by system administrator. "
            "Forbidden are one of the following ({}) or matching the regex{}"
        )
        labels = words.format("labels", "pool", " ^gpu[.]io/")
        await refused(patched(labels={"gpu.io/kind": None}), labels)
        await refused(patched(labels={"gpu.io/other": "b"}), labels)
        await refused(patched(annotations={"note": "x"}), words.format("annotations", "note", ""))
        assert (await patched(labels={"own": "1"}))["metadata"]["labels"]["own"] == "1"
        for other in (world.admin, world.boss(), world.stranger("carol")):
            await patched(other, labels={"gpu.io/kind": None, "pool": "x"})
        # A heartbeat does not come to us, whoever sends it.
        await world.admin.patch(
            resources.NODES, node, kind="merge", body={"status": {}}, subresource="status"
        )
