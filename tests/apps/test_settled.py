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
from tenantry.kube import reads

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


@pytest.mark.long
async def test_a_leader_killed_while_it_goes_through_objects(world: World) -> None:
    """The next one goes on: nothing is left out, doubled or written where it was written."""
    many = 60
    tenant = await world.tenant()
    for name in ("prod", "test"):
        await world.namespace(name)
        await ready(world, name)

    async def put(place: str, number: int) -> None:
        metadata = {"name": f"o{number}", "namespace": world.name(place)}
        await world.admin.create(resources.CONFIG_MAPS, {"metadata": metadata})

    places = ("prod", "test")
    await asyncio.gather(*(put(place, number) for place in places for number in range(many)))

    async def labelled() -> list[Object]:
        chosen = [
            await world.admin.list(
                resources.CONFIG_MAPS, world.name(place), label_selector="team=a"
            )
            for place in places
        ]
        found = [reads.to_dict(bytes(one)) for listed in chosen for one in listed.items]
        return [one for one in found if one["metadata"]["name"].startswith("o")]

    controller = world.tenancy.controller
    since = now()
    await world.change(
        tenant,
        rules=KEPT,
        namespaceOptions={"additionalMetadata": {"labels": {"extra": "yes"}}},
    )
    try:
        async with asyncio.timeout(20):
            # Often: what is waited for is over soon.
            while True:
                if begun := await labelled():
                    break
    finally:
        controller.kill()
        controller.start()
        await asyncio.to_thread(controller.wait_ready)
    assert len(begun) < 2 * many, "it was killed too late"

    async def settled() -> bool:
        namespaces = [await world.stored(name) for name in places]
        extra = [one["metadata"]["labels"].get("extra") for one in namespaces]
        passed = [
            await marks(world, name) == record(one["metadata"]["uid"])
            for name, one in zip(places, namespaces, strict=True)
        ]
        ready = world.condition(await world.status(), "Ready")["status"] == "True"
        return ready and all(passed) and extra == ["yes", "yes"]

    await eventually(settled, seconds=30)
    found = await labelled()
    assert len(found) == 2 * many
    for one in found:
        owning = [
            field["manager"]
            for field in one["metadata"]["managedFields"]
            if "f:team" in str(field["fieldsV1"])
        ]
        assert len(owning) == 1, one
        assert owning[0].startswith("projectcapsule.dev/rulestatus-")
    counted = calls(world, since)
    for place in places:
        # Those on their way when it died may be sent twice, and Kubernetes puts one into each.
        assert counted[place]["patch configmaps"] <= many + 1 + 20
        assert len(await world.bindings(place)) == len(
            {one["metadata"]["labels"][constants.ROLE_BINDING_LABEL]
             for one in (await world.bindings(place)).values()}
        )  # fmt: skip


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
