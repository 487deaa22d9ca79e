"""The most namespaces of a tenant, held without a race (architecture, section 3)."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable

import pytest

from tenantry.api import resources
from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule
from tenantry.kube import errors, reads
from tenantry.tenancy import ledger, reservations, state

from . import launch
from .harness import SYSTEM, Object, World, eventually, refused

pytestmark = pytest.mark.plane

FULL = "Cannot exceed Namespace quota: please, reach out to the system administrators"


def quota(number: int) -> Object:
    return {"quota": number}


async def ledger_of(world: World, tenant: str = "oil") -> Object | None:
    selector = f"{constants.MANAGED_TENANT_LABEL}={world.name(tenant)}"
    listed = await world.admin.list(capsule.QUANTITY_LEDGERS, SYSTEM, label_selector=selector)
    found = [reads.to_dict(bytes(item)) for item in listed.items]
    assert len(found) <= 1
    return found[0] if found else None


async def settled(world: World, allocated: int) -> None:
    async def done() -> bool:
        found = await ledger_of(world)
        assert found is not None
        status = found["status"]
        return (status["reserved"], status["allocated"], status.get("reservations") or []) == (
            "0",
            str(allocated),
            [],
        )

    # Room of one who gave up is held for ten seconds (launch.py), and looked for after that.
    await eventually(done, "the ledger settles", seconds=30)


async def outcome(attempt: Awaitable[object]) -> str:
    try:
        await attempt
    except errors.ApiError as problem:
        return problem.message
    return ""


async def test_twenty_at_once_against_three_gives_three(world: World) -> None:
    await world.tenant(namespaceOptions=quota(3))
    answers = await asyncio.gather(*(outcome(world.namespace(f"n{i}")) for i in range(20)))
    assert answers.count("") == 3
    assert {answer.partition("denied the request: ")[2] for answer in answers if answer} == {FULL}
    selector = f"{constants.TENANT_LABEL}={world.name('oil')}"
    listed = await world.admin.list(resources.NAMESPACES, label_selector=selector)
    assert len(listed.items) == 3
    await settled(world, 3)


async def test_several_owners_and_administrators_share_the_quota(world: World) -> None:
    await world.tenant(owners=[world.owner("alice"), world.owner("bob")], namespaceOptions=quota(2))
    await world.namespace("a", by=world.user("alice"))
    await world.namespace("b", by=world.user("bob"))
    await refused(world.namespace("c", by=world.user("bob")), FULL)
    await refused(world.namespace("c", by=world.boss(), tenant="oil"), FULL)


async def test_a_lower_quota_keeps_what_there_is(world: World) -> None:
    tenant = await world.tenant(namespaceOptions=quota(2))
    await world.namespace("a")
    await world.namespace("b")
    await world.change(tenant, namespaceOptions=quota(1))
    await refused(world.namespace("c"), FULL)
    await world.labelled(world.user(), "a", colour="red")
    await world.change(tenant, namespaceOptions=quota(3))
    await world.namespace("c")


async def test_room_freed_by_a_deletion_is_usable(world: World) -> None:
    await world.tenant(namespaceOptions=quota(1))
    await world.namespace("a")
    await world.bound("a")
    await refused(world.namespace("b"), FULL)
    await world.user().delete(resources.NAMESPACES, world.name("a"))

    async def created() -> bool:
        return await outcome(world.namespace("b")) == ""

    await eventually(created, seconds=20)
    await refused(world.namespace("c"), FULL)


async def test_a_dry_run_is_judged_and_reserves_nothing(world: World) -> None:
    await world.tenant(namespaceOptions=quota(1))
    for number in range(3):
        await world.namespace(f"dry-{number}", dry_run=True)
    found = await ledger_of(world)
    assert found is None or not found.get("status")
    await world.namespace("a")
    await refused(world.namespace("b", dry_run=True), FULL)


async def test_an_existing_name_takes_no_room(world: World) -> None:
    """Who creates again what exists, as scripts do, must not lose room by it."""
    await world.tenant(namespaceOptions=quota(2))
    await world.namespace("a")
    await world.namespace("free", by=world.admin)
    for name in ("a", "free", "a", "free"):
        with pytest.raises(errors.AlreadyExists):
            await world.namespace(name)
    await world.namespace("b")
    # Also when all is full it is the name that is said to be taken.
    with pytest.raises(errors.AlreadyExists):
        await world.namespace("a")


async def refusing_webhook(world: World) -> None:
    """Let a validating webhook that nobody serves refuse namespaces with a label of this test."""
    rule = {
        "apiGroups": [""],
        "apiVersions": ["*"],
        "operations": ["CREATE"],
        "resources": ["namespaces"],
    }
    await world.admin.create(
        resources.VALIDATING_WEBHOOKS,
        {
            "metadata": {"name": world.name("refuser")},
            "webhooks": [
                {
                    "name": "refuser.example.com",
                    "clientConfig": {"url": "https://127.0.0.1:1/"},
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "rules": [rule],
                    "objectSelector": {"matchLabels": {"refuse": world.prefix}},
                }
            ],
        },
    )

    async def refuses() -> bool:
        body = {"metadata": {"name": "x", "labels": {"refuse": world.prefix}}}
        answer = await outcome(world.admin.create(resources.NAMESPACES, body, dry_run=True))
        return "failed calling webhook" in answer

    await eventually(refuses)


async def take_room_in_vain(world: World) -> None:
    await refusing_webhook(world)
    await world.tenant(namespaceOptions=quota(1))
    answer = await outcome(world.namespace("a", labels={"refuse": world.prefix}))
    assert "failed calling webhook" in answer


async def test_room_of_a_namespace_that_others_refuse_is_held_until_it_can_not_come(
    world: World,
) -> None:
    await take_room_in_vain(world)
    await refused(world.namespace("b"), FULL)
    found = await ledger_of(world)
    assert found is not None
    status = found["status"]
    (open_one,) = status["reservations"]
    assert open_one["objectRef"]["name"] == world.name("a")
    assert status["reserved"] == "1"
    # Let the time pass.
    open_one["expiresAt"] = "2020-01-01T00:00:00Z"
    await world.admin.replace(capsule.QUANTITY_LEDGERS, found, subresource="status")
    await world.namespace("b")
    await settled(world, 1)


@pytest.mark.long
async def test_room_of_a_namespace_that_others_refuse_is_free_when_it_can_not_come_any_more(
    world: World,
) -> None:
    await take_room_in_vain(world)
    since = time.monotonic()

    async def created() -> bool:
        return await outcome(world.namespace("b")) == ""

    await eventually(created, seconds=launch.LIFETIME + 5)
    # Not before: the request might still have been on its way.
    assert time.monotonic() - since > launch.LIFETIME - 1


async def test_two_replicas_never_grant_more_than_there_is(world: World) -> None:
    await world.tenant(namespaceOptions=quota(30))
    owner = await world.admin.get(capsule.TENANTS, world.name("oil"), decode=state.tenant_view)
    replicas = [reservations.NamespaceReservations(world.admin, SYSTEM) for _ in range(2)]

    async def ask(number: int) -> bool:
        claim = ledger.Claim(uid=str(uuid.uuid4()), name=f"n{number}")
        replica = replicas[number % 2]
        return await replica.reserve(owner.tenant, claim, deadline=30) is None

    answers = await asyncio.gather(*(ask(number) for number in range(100)))
    assert answers.count(True) == 30


async def test_tenants_cannot_reach_the_ledgers(world: World) -> None:
    await world.tenant(namespaceOptions=quota(1))
    await world.namespace("a")
    found = await ledger_of(world)
    assert found is not None
    alice, name = world.user(), found["metadata"]["name"]
    for attempt in (
        alice.get(capsule.QUANTITY_LEDGERS, name, SYSTEM),
        alice.delete(capsule.QUANTITY_LEDGERS, name, SYSTEM),
        alice.replace(capsule.QUANTITY_LEDGERS, found, subresource="status"),
        alice.patch(capsule.QUANTITY_LEDGERS, name, SYSTEM, kind="merge", body={"spec": {}}),
    ):
        with pytest.raises(errors.Forbidden, match="cannot"):
            await attempt
