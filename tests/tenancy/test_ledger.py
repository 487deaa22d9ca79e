"""The sum of what exists and what is reserved never exceeds the limit."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tenantry.api import meta
from tenantry.api.capsule import tenant
from tenantry.core import clock, quantity
from tenantry.tenancy import ledger

NOW = 1_800_000_000.0


def claims(*uids: str) -> list[ledger.Claim]:
    """Return a claim per uid; of `b/2` and `b/3` the name is `b`."""
    return [ledger.Claim(uid=uid, name=f"ns-{uid.partition('/')[0]}") for uid in uids]


def fold(
    reservations: list[dict[str, Any]],
    exist: set[str],
    *uids: str,
    limit: int = 3,
    now: float = NOW,
) -> ledger.Fold:
    return ledger.fold(
        reservations,
        used=quantity.parse(len(exist)),
        observed=exist,
        claims=claims(*uids),
        limit=quantity.parse(limit),
        now=now,
        lifetime=60,
    )


def test_grants_what_fits_in_order_of_arrival() -> None:
    folded = fold([], {"x"}, "a", "b", "c")
    assert folded.granted == {"a", "b"}
    assert [r["id"] for r in folded.reservations] == ["a", "b"]
    assert ledger.status(folded)["reserved"] == "2"
    assert ledger.status(folded)["allocated"] == "3"


def test_a_reservation_is_in_wire_form() -> None:
    (reservation,) = fold([], set(), "a").reservations
    assert reservation == {
        "id": "a",
        "usage": "1",
        "objectRef": {"apiVersion": "v1", "kind": "Namespace", "name": "ns-a", "uid": "a"},
        "createdAt": clock.rfc3339(NOW),
        "updatedAt": clock.rfc3339(NOW),
        "expiresAt": clock.rfc3339(NOW + 61),
    }


def test_asking_twice_is_granted_once() -> None:
    first = fold([], set(), "a", limit=1)
    again = fold(first.reservations, set(), "a", limit=1)
    assert again.granted == {"a"}
    assert not again.changed
    assert fold(first.reservations, {"a"}, "a", limit=1).granted == {"a"}


def test_seeing_the_object_settles_its_reservation_in_the_same_write() -> None:
    folded = fold(fold([], set(), "a", "b", "c").reservations, {"a"})
    assert [r["id"] for r in folded.reservations] == ["b", "c"]
    assert folded.changed
    assert fold(folded.reservations, {"a"}, "d").granted == frozenset()


def test_a_reservation_whose_object_can_no_longer_appear_gives_room() -> None:
    held = fold([], set(), "a", "b", "c").reservations
    assert fold(held, set(), "d", now=NOW + 60).granted == frozenset()
    assert fold(held, set(), "d", now=NOW + 62).granted == {"d"}


def test_refusal_writes_nothing() -> None:
    folded = fold([], {"x", "y", "z"}, "a")
    assert (folded.granted, folded.changed) == (frozenset(), False)


def test_attempts_at_one_name_take_one_place() -> None:
    """Somebody after us refuses each time: only one of them can ever come to exist."""
    folded = fold([], {"x"}, "a/1", "a/2", "a/3", "b/1", "c/1")
    assert folded.granted == {"a/1", "a/2", "a/3", "b/1"}
    assert [r["id"] for r in folded.reservations] == ["a/1", "a/2", "a/3", "b/1"]
    assert ledger.status(folded)["reserved"] == "2"
    later = fold(folded.reservations, {"x", "a/2"}, "c/1", limit=4)
    # The others of its name are not yet known to have failed.
    assert [r["id"] for r in later.reservations] == ["a/1", "a/3", "b/1"]
    assert later.granted == frozenset()


def test_attempts_at_one_name_are_bounded() -> None:
    many = [f"a/{number}" for number in range(ledger.MOST_OF_ONE_NAME)]
    folded = fold([], set(), *many, "a/more", "b/1")
    assert folded.granted == {*many, "b/1"}
    assert folded.crowded == {"a/more"}
    assert not fold([], set(), "a/1", limit=0).crowded


def test_a_reservation_that_does_not_say_when_it_ends_ends_after_its_lifetime() -> None:
    (made,) = fold([], set(), "a").reservations
    del made["expiresAt"]
    assert fold([made], set(), now=NOW + 60).reservations == [made]
    assert fold([made], set(), now=NOW + 62).reservations == []
    assert ledger.expiry(made, 60) == NOW + 61


@given(
    limit=st.integers(0, 8),
    steps=st.lists(
        st.tuples(st.sampled_from(["ask", "appear", "fail", "delete", "wait"]), st.integers(0, 9)),
        max_size=40,
    ),
)
def test_never_exceeds_whatever_happens(limit: int, steps: list[tuple[str, int]]) -> None:
    """Objects appear only when granted and within the lifetime, as the API server guarantees."""
    reservations: list[dict[str, Any]] = []
    exist: set[str] = set()
    pending: dict[str, float] = {}

    def names(uids: set[str]) -> set[str]:
        return {uid.partition("/")[0] for uid in uids}

    now, serial = NOW, 0
    for action, number in steps:
        pending = {uid: since for uid, since in pending.items() if now - since < 60}
        if action == "ask":
            uid, serial = f"{'abcdefghij'[number]}/{serial}", serial + 1
            if names({uid}) <= names(exist):
                continue  # a name that is taken is refused before it is counted
            folded = fold(reservations, exist, uid, limit=limit, now=now)
            reservations = folded.reservations
            if uid in folded.granted:
                pending[uid] = now
        elif action in {"appear", "fail"} and pending:
            uid = sorted(pending)[number % len(pending)]
            del pending[uid]
            if action == "appear" and not names({uid}) <= names(exist):
                exist.add(uid)
        elif action == "delete" and exist:
            exist.discard(sorted(exist)[number % len(exist)])
        else:
            now += number * 10
        assert len(exist) <= limit
        assert len(names(exist | set(pending))) <= limit


def test_one_ledger_per_tenant_and_incarnation() -> None:
    owner = tenant.Tenant(metadata=meta.ObjectMeta(name="oil", uid="u1"))
    found = ledger.namespaces_ledger(owner, "capsule-system")
    # sha256("oil/u1"), first 16 bytes
    assert found["metadata"]["name"] == "tenant-namespaces-9a6331b3a7db4a0207e563219f7ea0de"
    assert found["spec"]["targetRef"] == {
        "apiGroup": "capsule.clastix.io", "kind": "Tenant", "name": "oil", "uid": "u1",
    }  # fmt: skip
