"""What the writer of a ledger does when it loses races, or has nowhere to write."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tenantry.api import meta, resources
from tenantry.api.capsule import resources as capsule
from tenantry.api.capsule import tenant
from tenantry.kube import errors, reads
from tenantry.tenancy import ledger, reservations

OIL = tenant.Tenant(
    metadata=meta.ObjectMeta(name="oil", uid="u-oil"),
    spec=tenant.TenantSpec(namespace_options=tenant.NamespaceOptions(quota=2)),
)


class Cluster:
    """One ledger and no namespaces; `refusals` are raised by the next writes."""

    def __init__(self, *refusals: errors.KubeError) -> None:
        self.refusals = list(refusals)
        self.stored: dict[str, Any] | None = None
        self.writes = 0

    async def get(self, resource: resources.Resource, name: str, _: str) -> dict[str, Any]:
        assert resource == capsule.QUANTITY_LEDGERS
        if self.stored is None:
            raise errors.from_response(404, b"")
        return copy.deepcopy(self.stored)

    async def create(self, _: Any, body: dict[str, Any], *, field_manager: str) -> dict[str, Any]:
        self._store(body)
        return copy.deepcopy(body)

    async def replace(self, _: Any, body: dict[str, Any], *, subresource: str) -> None:
        assert subresource == "status"
        self._store(body)

    def _store(self, body: dict[str, Any]) -> None:
        self.writes += 1
        if self.refusals:
            raise self.refusals.pop(0)
        self.stored = copy.deepcopy(body)

    async def list(self, resource: resources.Resource, **_: str) -> reads.List:
        assert resource == resources.NAMESPACES
        return reads.List([], "1")


def counting(cluster: Any) -> reservations.NamespaceReservations:
    return reservations.NamespaceReservations(cluster, "capsule-system", rng=lambda: 0.01)


def claim(uid: str, name: str) -> ledger.Claim:
    return ledger.Claim(uid=uid, name=name)


async def test_a_lost_race_is_run_again() -> None:
    cluster = Cluster()
    counts = counting(cluster)
    assert await counts.reserve(OIL, claim("1", "a"), deadline=5) is None
    cluster.refusals = [errors.Conflict(409, "Conflict", "")] * 3
    assert await counts.reserve(OIL, claim("2", "a"), deadline=5) is None
    assert await counts.reserve(OIL, claim("3", "b"), deadline=5) is None
    denial = await counts.reserve(OIL, claim("4", "c"), deadline=5)
    assert denial is not None
    assert denial.message == reservations.QUOTA_EXCEEDED


async def test_races_lost_for_too_long_say_so() -> None:
    cluster = Cluster(*[errors.Conflict(409, "Conflict", "")] * 10_000)
    denial = await counting(cluster).reserve(OIL, claim("1", "a"), deadline=0.2)
    assert denial is not None
    assert (denial.code, "in time" in denial.message) == (503, True)
    # Waiting grows: without it there would be thousands.
    assert cluster.writes < 400


async def test_without_a_namespace_to_count_in_the_answer_names_it() -> None:
    details = errors.Details(name="capsule-system", kind="namespaces")
    message = 'namespaces "capsule-system" not found'
    cluster = Cluster(errors.NotFound(404, "NotFound", message, details))
    with pytest.raises(errors.NotFound, match='"capsule-system", in which Tenantry counts'):
        await counting(cluster).reserve(OIL, claim("1", "a"), deadline=5)


async def test_too_many_attempts_at_one_name_are_refused_in_other_words() -> None:
    counts = counting(Cluster())
    for number in range(ledger.MOST_OF_ONE_NAME):
        assert await counts.reserve(OIL, claim(str(number), "a"), deadline=5) is None
    denial = await counts.reserve(OIL, claim("more", "a"), deadline=5)
    assert denial is not None
    assert (denial.code, denial.reason) == (429, "TooManyRequests")
    assert "namespace a" in denial.message
