"""A new leader finds everything in order, or what only looks so (architecture: restarts are silent)."""

from __future__ import annotations

import asyncio
import collections
import datetime as dt
import json
from typing import Any

import pytest

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule

from .content import ready
from .harness import SYSTEM, Object, World, eventually

pytestmark = pytest.mark.plane

NAME = "capsule-managed-rules"
MARKS = "tenantry.io/marks"
CONTROLLER = f"system:serviceaccount:{SYSTEM}:capsule"
KEPT: list[Object] = [
    {"enforce": {"metadata": [{"kinds": ["ConfigMap"], "labels": {"team": {"managed": "a"}}}]}}
]


def record(uid: str) -> str:
    """Return what is written when all objects of a namespace carry the label of `KEPT`."""
    marks = {"group": "", "kind": "ConfigMap", "labels": {"team": "a"}}
    return json.dumps({"kept": [[marks]], "passed": uid}, separators=(",", ":"))


def now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def calls(world: World, since: str) -> dict[str, collections.Counter[str]]:
    """Count the controller's calls about one object or namespace of this test, by namespace."""
    found: dict[str, collections.Counter[str]] = {}
    for path in world.tenancy.plane.platform.paths.logs.glob("audit*.log"):
        # The last line may be half written.
        for line in path.read_text().splitlines(keepends=True):
            event: Any = json.loads(line) if line.endswith("\n") else {}
            if not event or event["requestReceivedTimestamp"] < since:
                continue
            target = event.get("objectRef") or {}
            place = target.get("namespace") or target.get("name") or ""
            if event["user"]["username"] == CONTROLLER and place.startswith(world.prefix + "-"):
                what = [target["resource"], target.get("subresource") or ""]
                call = f"{event['verb']} {'/'.join(filter(None, what))}"
                found.setdefault(place.removeprefix(world.prefix + "-"), collections.Counter())[
                    call
                ] += 1
    return found


async def marks(world: World, name: str) -> str:
    found = await world.admin.get(capsule.RULE_STATUSES, NAME, world.name(name))
    text: str = found["metadata"]["annotations"][MARKS]
    return text


async def team(world: World, name: str) -> str | None:
    found = await world.admin.get(resources.CONFIG_MAPS, "c", world.name(name))
    label: str | None = (found["metadata"].get("labels") or {}).get("team")
    return label


async def test_a_new_leader_calls_for_nothing_that_is_in_order(world: World) -> None:
    # The API server adds to both, and has its own words for amounts.
    limits = {"items": [{"limits": [{"type": "Container", "default": {"cpu": "1000m"}}]}]}
    policies: Object = {"items": [{"podSelector": {}, "egress": [{"ports": [{"port": 53}]}]}]}
    await world.tenant(rules=KEPT, limitRanges=limits, networkPolicies=policies)
    uids = {}
    for name in ("prod", "copied"):
        made = await world.namespace(name)
        uids[name] = made["metadata"]["uid"]
        await ready(world, name)
        body: Object = {"metadata": {"name": "c", "namespace": world.name(name)}}
        await world.admin.create(resources.CONFIG_MAPS, body)

    async def passed() -> bool:
        return [await marks(world, name) for name in uids] == [record(u) for u in uids.values()]

    await eventually(passed, "all objects were gone through")

    async def told() -> bool:
        status = await world.status()
        held = [status, *status["spaces"]]
        return len(held) == 3 and all(
            world.condition(each, "Ready")["status"] == "True" for each in held
        )

    await eventually(told, "the tenant says so of both namespaces")
    controller = world.tenancy.controller
    assert await asyncio.to_thread(controller.stop) == 0
    try:
        # As by a restored backup: the record says of one namespace what holds in another, and an
        # object has nothing of what it says. Masters alone can do so.
        text = {"metadata": {"annotations": {MARKS: record(uids["prod"])}}}
        where = world.name("copied")
        await world.boss().patch(capsule.RULE_STATUSES, NAME, where, kind="merge", body=text)
        account = "system:serviceaccount:kube-system:some-controller"
        await world.grant(account, "patch", what=("configmaps",))
        bare: Object = {"metadata": {"labels": None}}
        await world.account("kube-system", "some-controller").patch(
            resources.CONFIG_MAPS, "c", where, kind="merge", body=bare
        )
        assert await team(world, "copied") is None
    finally:
        since = now()
        controller.start()
        await asyncio.to_thread(controller.wait_ready)

    async def mended() -> bool:
        return await team(world, "copied") == "a" and await passed()

    await eventually(mended, "the objects of the copy were gone through")
    found = calls(world, since)
    # Gone through twice, and one more write that says so.
    assert found.pop("copied")["list configmaps"] == 2
    # Nothing about the namespace that is in order, nor about the tenant.
    assert found == {}


async def test_a_record_that_a_tenant_made_in_advance_counts_for_nothing(world: World) -> None:
    tenant = await world.tenant()
    made = await world.namespace()
    where = await ready(world)
    body: Object = {"metadata": {"name": "c", "namespace": where}}
    await world.admin.create(resources.CONFIG_MAPS, body)
    await world.grant(
        world.name("alice"), "create", what=("rulestatuses",), group="capsule.clastix.io"
    )
    forged: Object = {
        "apiVersion": constants.API_VERSION,
        "kind": "RuleStatus",
        "metadata": {
            "name": NAME,
            "namespace": where,
            "annotations": {MARKS: record(made["metadata"]["uid"])},
        },
        "spec": [],
    }
    await world.user().create(capsule.RULE_STATUSES, forged, field_manager=constants.FIELD_MANAGER)
    await world.change(tenant, rules=KEPT)

    async def labelled() -> bool:
        return await team(world, "prod") == "a"

    await eventually(labelled)
