"""What is read for a review, from where, and that memory never has the last word."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tenantry.api import meta, resources
from tenantry.api.capsule import common, configuration, tenant, tenant_owner
from tenantry.api.capsule import resources as capsule
from tenantry.apps import evidence
from tenantry.directory import identity
from tenantry.directory import state as directory
from tenantry.kube import errors, reads, transport
from tenantry.runtime import admission
from tenantry.tenancy import ownership, verdicts

CONTROLLER = "system:serviceaccount:capsule-system:capsule"
USERS = configuration.CapsuleConfigurationSpec(
    users=[common.User(kind="Group", name="capsule")],
    administrators=[common.User(kind="User", name="boss")],
)
NOBODY = configuration.CapsuleConfigurationSpec()


def make_tenant(name: str, *owned_by: str) -> tenant.Tenant:
    return tenant.Tenant(
        metadata=meta.ObjectMeta(name=name, uid=f"u-{name}"),
        spec=tenant.TenantSpec(owners=[tenant.Owner(kind="User", name=who) for who in owned_by]),
    )


def make_owner(who: str, of: str) -> tenant_owner.TenantOwner:
    return tenant_owner.TenantOwner(
        metadata=meta.ObjectMeta(name=who, labels={"projectcapsule.dev/tenant": of}),
        spec=tenant_owner.TenantOwnerSpec(kind="User", name=who),
    )


class Cluster:
    """What is stored, and what was asked: only as much as one decision needs."""

    def __init__(
        self,
        *tenants: tenant.Tenant,
        config: configuration.CapsuleConfigurationSpec = USERS,
        tenant_owners: tuple[tenant_owner.TenantOwner, ...] = (),
    ) -> None:
        self.config = configuration.CapsuleConfiguration(
            metadata=meta.ObjectMeta(name="default"), spec=config
        )
        self.tenants = {one.metadata.name: one for one in tenants}
        self.tenant_owners = tenant_owners
        self.asked: list[str] = []

    async def get(
        self, resource: resources.Resource, name: str, namespace: str = "", *, decode: Any
    ) -> Any:
        await asyncio.sleep(0)
        self.asked.append(f"get {resource.plural} {name}")
        found: Any = self.tenants.get(name)
        if resource == capsule.CONFIGURATIONS:
            found = self.config
        if found is None or resource == resources.NAMESPACES:
            raise errors.from_response(404, b"")
        return decode(msgspec.json.encode(found))

    async def list(self, resource: resources.Resource) -> reads.List:
        await asyncio.sleep(0)
        self.asked.append(f"list {resource.plural}")
        found: Any = self.tenants.values() if resource == capsule.TENANTS else self.tenant_owners
        return reads.List([msgspec.Raw(msgspec.json.encode(one)) for one in found], "9")

    async def request(self, method: str, path: str, **more: Any) -> Any:
        await asyncio.sleep(0)
        self.asked.append("ask for names")
        assert more["query"] == {"includeObject": "None"}
        table = {
            "metadata": {"resourceVersion": "9"},
            "rows": [{"cells": [name, "Active"]} for name in self.tenants],
        }
        return transport.Response(200, {}, msgspec.json.encode(table))


class Memory:
    """What the caches believe; `newer` is what they answer when asked how old they are."""

    def __init__(self, told: Cluster, *, newer: bool = False) -> None:
        self.configuration_name = "default"
        self.directory = directory.Directory([CONTROLLER], "default")
        self.directory.configuration_changed("default", told.config)
        for one in told.tenants.values():
            self.directory.tenant_changed(one.metadata.name, one)
        for owner in told.tenant_owners:
            self.directory.tenant_owner_changed(owner.metadata.name, owner)
        self.tenants = self
        self.late: list[tenant.Tenant] = []
        self._newer = newer

    async def wait_for(self, resource_version: str, timeout: float) -> bool:
        """Hear of what was missing, if there is any such, while being waited for."""
        for one in self.late:
            self.directory.tenant_changed(one.metadata.name, one)
        return self._newer


def creating(name: str, user: str = "alice", *groups: str, **metadata: Any) -> admission.Review:
    return admission.Review(
        uid="u",
        operation="CREATE",
        resource="namespaces",
        object={"metadata": {"name": name, **metadata}},
        user=admission.UserInfo(username=user, groups=list(groups or ("capsule",))),
    )


Choice = tuple[str | None, list[str]]


async def choose(
    review: admission.Review, live: Cluster, memory: Memory, *, proposing: bool = True
) -> Choice:
    """Return the tenant chosen, or the refusal, and what was asked of the API server."""
    client: Any = live
    known: Any = memory
    gather = evidence.Gatherer(client, known, frozenset({CONTROLLER}))
    live.asked.clear()
    found = await gather(review, proposing=proposing)
    chosen = ownership.assign(review.object or {}, found)
    if isinstance(chosen, verdicts.Denial):
        return chosen.message, sorted(live.asked)
    return (chosen.metadata.name if chosen is not None else None), sorted(live.asked)


OIL, GAS = make_tenant("oil", "alice"), make_tenant("gas", "alice")


async def test_a_name_with_the_tenants_prefix_is_proposed_from_memory() -> None:
    live = Cluster(OIL, make_tenant("sun", "bob"))
    assert await choose(creating("oil-dev"), live, Memory(live)) == ("oil", [])


async def test_the_only_tenant_is_once_memory_has_all_of_them() -> None:
    live = Cluster(OIL, make_tenant("sun", "bob"))
    assert await choose(creating("dev"), live, Memory(live)) == ("oil", ["ask for names"])


async def test_who_could_claim_the_name_is_read_where_memory_does_not_know() -> None:
    live = Cluster(OIL)
    assert await choose(creating("oil-gas-dev"), live, Memory(live)) == (
        "oil",
        ["get tenants oil-gas"],
    )


async def test_nobody_can_claim_the_name_where_memory_has_all_tenants() -> None:
    live = Cluster(OIL, make_tenant("sun", "bob"))
    assert await choose(creating("gas-dev"), live, Memory(live)) == ("oil", ["ask for names"])
    # One of that name that is not hers by memory may have become hers.
    before, live = Cluster(OIL, make_tenant("gas", "bob")), Cluster(OIL, GAS)
    assert await choose(creating("gas-dev"), live, Memory(before)) == (
        "gas",
        ["ask for names", "get tenants gas"],
    )


async def test_as_many_tenants_need_not_be_the_same() -> None:
    """One that is gone and one that is new leave the number as it was."""
    before, live = Cluster(OIL, make_tenant("sun", "bob")), Cluster(OIL, GAS)
    chosen, asked = await choose(creating("dev"), live, Memory(before))
    assert (chosen, "list tenants" in asked) == (ownership.UNASSIGNABLE, True)


async def test_what_is_validated_rests_on_what_was_just_read() -> None:
    live = Cluster(OIL)
    labelled = creating("dev", labels={"capsule.clastix.io/tenant": "oil"})
    assert await choose(labelled, live, Memory(live), proposing=False) == (
        "oil",
        ["get capsuleconfigurations default", "get tenants oil"],
    )


async def test_a_tenant_that_memory_has_not_heard_of_counts() -> None:
    before, live = Cluster(), Cluster(OIL)
    assert (await choose(creating("oil-dev"), live, Memory(before)))[0] == "oil"
    assert (await choose(creating("dev"), live, Memory(before)))[0] == "oil"
    before, live = Cluster(OIL), Cluster(OIL, GAS)
    assert (await choose(creating("gas-dev"), live, Memory(before)))[0] == "gas"
    chosen, asked = await choose(creating("dev"), live, Memory(before))
    assert (chosen, "list tenants" in asked) == (ownership.UNASSIGNABLE, True)


async def test_memory_that_is_newer_than_the_request_needs_no_list() -> None:
    before, live = Cluster(OIL), Cluster(OIL, make_tenant("sun", "bob"))
    chosen, asked = await choose(creating("dev"), live, Memory(before, newer=True))
    assert (chosen, asked) == ("oil", ["ask for names"])


@pytest.mark.parametrize("newer", [True, False])
async def test_what_memory_hears_while_it_is_asked_is_not_overlooked(newer: bool) -> None:
    before, live = Cluster(OIL), Cluster(OIL, GAS)
    memory = Memory(before, newer=newer)
    memory.late = [GAS]
    assert (await choose(creating("dev"), live, memory))[0] == ownership.UNASSIGNABLE


async def test_a_grant_on_a_known_tenant_is_not_overlooked_either() -> None:
    before, live = Cluster(OIL, make_tenant("gas", "bob")), Cluster(OIL, GAS)
    memory = Memory(before)
    memory.late = [GAS]
    assert (await choose(creating("dev"), live, memory))[0] == ownership.UNASSIGNABLE


async def test_a_tenant_that_is_gone_or_no_longer_hers_does_not_count() -> None:
    """Memory may propose it; what is stored is judged by what was just read."""
    before = Cluster(OIL)
    labelled = creating("dev", labels={"capsule.clastix.io/tenant": "oil"})
    for live in (Cluster(), Cluster(make_tenant("oil", "bob"))):
        for review in (creating("oil-dev"), creating("dev")):
            chosen, _ = await choose(review, live, Memory(before), proposing=False)
            assert chosen == ownership.NO_TENANT
        chosen, _ = await choose(labelled, live, Memory(before), proposing=False)
        assert chosen == ownership.NOT_OWNED


@pytest.mark.parametrize("proposing", [True, False])
async def test_whom_memory_does_not_know_is_read(proposing: bool) -> None:
    before, live = Cluster(OIL, config=NOBODY), Cluster(OIL)
    chosen, asked = await choose(creating("dev"), live, Memory(before), proposing=proposing)
    assert chosen == "oil"
    assert "get capsuleconfigurations default" in asked


async def test_a_user_revoked_since_is_refused_where_it_counts() -> None:
    before, live = Cluster(OIL), Cluster(OIL, config=NOBODY)
    client: Any = live
    known: Any = Memory(before)
    gather = evidence.Gatherer(client, known, frozenset())
    found = await gather(creating("oil-dev"))
    assert found.requester_class is identity.Class.UNKNOWN


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda: Cluster(make_tenant("oil")), id="not by memory"),
        pytest.param(
            lambda: Cluster(make_tenant("oil"), tenant_owners=(make_owner("alice", "oil"),)),
            id="by memory",
        ),
    ],
)
@pytest.mark.parametrize("proposing", [True, False])
@pytest.mark.parametrize("labels", [{}, {"capsule.clastix.io/tenant": "oil"}])
async def test_owners_by_a_tenant_owner(
    change: Callable[[], Cluster], proposing: bool, labels: dict[str, str]
) -> None:
    live = Cluster(make_tenant("oil"), tenant_owners=(make_owner("alice", "oil"),))
    review = creating("dev", labels=labels)
    assert (await choose(review, live, Memory(change()), proposing=proposing))[0] == "oil"


async def test_a_tenant_owner_makes_a_stranger_a_user() -> None:
    live = Cluster(make_tenant("oil"), tenant_owners=(make_owner("erin", "oil"),))
    review = creating("dev", "erin", "system:authenticated")
    assert (await choose(review, live, Memory(Cluster(make_tenant("oil")))))[0] == "oil"


async def test_strangers_and_administrators_cost_no_list_of_tenants() -> None:
    live = Cluster(OIL)
    for user, expected in (("root", None), ("boss", None)):
        chosen, asked = await choose(creating("oil-dev", user, "x"), live, Memory(live))
        assert chosen is expected
        assert "list tenants" not in asked
    labelled = creating("dev", "boss", labels={"capsule.clastix.io/tenant": "oil"})
    assert await choose(labelled, live, Memory(live)) == ("oil", [])


async def test_breaking_the_glass_rests_on_what_is_stored_and_reads_the_tenant_it_names() -> None:
    """An administrator revoked a second ago is one by memory only."""
    memory: Any = Memory(Cluster(OIL))
    live: Any = Cluster(OIL)
    revoked: Any = Cluster(OIL, config=NOBODY)
    review = creating("n", "boss", annotations={"tenantry.io/break-glass": "tenant/oil"})
    for cluster, klass in ((live, identity.Class.ADMIN), (revoked, identity.Class.UNKNOWN)):
        found = await evidence.Gatherer(cluster, memory, frozenset())(review, proposing=True)
        assert found.requester_class is klass
        assert set(found.tenants) == {"oil"}
        assert "get capsuleconfigurations default" in cluster.asked


async def test_a_name_full_of_dashes_falls_back_to_the_list() -> None:
    live = Cluster(OIL)
    chosen, asked = await choose(creating("a-b-c-d-e-f-g"), live, Memory(live))
    assert (chosen, asked.count("list tenants")) == ("oil", 1)
    assert len(asked) < 5
