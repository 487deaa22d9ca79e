"""Reservations: how a count stays exact between an admission answer and the object's appearance.

A request that passed admission is not yet an object, and many pass at once. So whatever is
counted is reserved first, in a QuantityLedger, by compare-and-set; the sum of what exists and
what is reserved never exceeds the limit. This module folds requests into a ledger; it does no
I/O. Rules: docs/designs/ledger.md and specs/capsule 1.10.

The order of reads makes it exact: read the ledger, then what exists, then write the ledger. A
reservation that was already released when the ledger was read had been seen as an object before,
so the later listing contains it (or it is gone); one that another replica adds in between makes
the write fail.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenantry.api.capsule import constants, tenant
from tenantry.api.capsule import resources as capsule
from tenantry.core import clock, quantity
from tenantry.tenancy import managed

Object = dict[str, Any]

#: Reservations held open at once in one ledger; more are refused, so that it stays an object.
MOST = 1024

#: As many of one name. Who tries once a second, and is refused by somebody after us each time,
#: never has more than that open.
MOST_OF_ONE_NAME = 64

ONE = quantity.Quantity(quantity.NANO)
_NOTHING = quantity.Quantity(0)

#: Kind, namespace, name.
_Place = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Claim:
    """One object about to exist that takes `amount` of a limited quantity."""

    uid: str
    name: str
    namespace: str = ""
    api_version: str = "v1"
    kind: str = "Namespace"
    amount: quantity.Quantity = ONE


@dataclass(frozen=True, slots=True)
class Fold:
    """What a fold decided.

    :param reservations: the ledger's new list, in wire form
    :param granted: uids of the claims that may proceed
    :param crowded: uids of those for which there is room, but too many attempts are undecided
    :param used: what existed when it was decided
    :param reserved: what the reservations add to that
    :param changed: whether the ledger must be written for this to hold
    """

    reservations: list[Object]
    used: quantity.Quantity
    reserved: quantity.Quantity
    granted: frozenset[str]
    changed: bool
    crowded: frozenset[str] = frozenset()


def fold(
    reservations: Iterable[Object],
    *,
    used: quantity.Quantity,
    observed: Collection[str],
    claims: Sequence[Claim],
    limit: quantity.Quantity,
    now: float,
    lifetime: float,
) -> Fold:
    """Fold claims into a ledger, first come first served.

    Of all that is reserved under one name only one object can come to exist, so together they
    take the place of the largest: who tries again what somebody after us refuses takes no more.

    :param used: what exists, from a listing made after the ledger was read
    :param observed: uids in that listing
    :param lifetime: seconds after which a reservation whose object does not exist cannot become
        one any more: the API server's request time-out, counted from the moment of reserving
    """
    before = list(reservations)
    kept = [r for r in before if _open(r, observed, now, lifetime)]
    held = {str(r["objectRef"]["uid"]) for r in kept}
    places: dict[_Place, quantity.Quantity] = {}
    count: dict[_Place, int] = {}
    for reservation in kept:
        place = _place(reservation["objectRef"])
        taken = quantity.parse(reservation["usage"])
        places[place] = max(places.get(place, _NOTHING), taken)
        count[place] = count.get(place, 0) + 1
    reserved = sum(places.values(), _NOTHING)
    granted, crowded = set(), set()
    for claim in claims:
        if claim.uid in held or claim.uid in observed:
            granted.add(claim.uid)
            continue
        made = _reservation(claim, now, lifetime)
        place = _place(made["objectRef"])
        taken = places.get(place, _NOTHING)
        more = max(claim.amount - taken, _NOTHING)
        if used + reserved + more > limit:
            continue
        if len(kept) >= MOST or count.get(place, 0) >= MOST_OF_ONE_NAME:
            crowded.add(claim.uid)
            continue
        places[place] = taken + more
        count[place] = count.get(place, 0) + 1
        reserved = reserved + more
        kept.append(made)
        held.add(claim.uid)
        granted.add(claim.uid)
    return Fold(kept, used, reserved, frozenset(granted), kept != before, frozenset(crowded))


def _place(reference: Mapping[str, Any]) -> _Place:
    """Return what only one object can be: a name in a namespace, of one kind."""
    kind, namespace = reference.get("kind", ""), reference.get("namespace", "")
    # What has no name yet is nobody else's.
    return str(kind), str(namespace), str(reference.get("name") or reference["uid"])


def _open(
    reservation: Mapping[str, Any], observed: Collection[str], now: float, lifetime: float
) -> bool:
    """Release only on evidence: the object was seen, or it can no longer appear."""
    if reservation["objectRef"]["uid"] in observed:
        return False
    return now < expiry(reservation, lifetime)


def expiry(reservation: Mapping[str, Any], lifetime: float) -> float:
    """Return when a reservation without an object may be released, seconds since the epoch.

    :param lifetime: what one that does not say is given, from its creation
    """
    stated = reservation.get("expiresAt")
    if stated:
        return clock.parse_rfc3339(stated)
    return clock.parse_rfc3339(reservation["createdAt"]) + lifetime + 1


def _reservation(claim: Claim, now: float, lifetime: float) -> Object:
    # Whole seconds on the wire: round the end up, never down.
    stamp = clock.rfc3339(now)
    reference = {
        "apiVersion": claim.api_version,
        "kind": claim.kind,
        "name": claim.name,
        "uid": claim.uid,
    }
    if claim.namespace:
        reference["namespace"] = claim.namespace
    return {
        "id": claim.uid,
        "usage": str(claim.amount),
        "objectRef": reference,
        "createdAt": stamp,
        "updatedAt": stamp,
        "expiresAt": clock.rfc3339(now + lifetime + 1),
    }


def status(folded: Fold) -> Object:
    """Return the ledger's status after a fold."""
    return {
        "reserved": str(folded.reserved),
        "allocated": str(folded.used + folded.reserved),
        "reservations": folded.reservations,
    }


def namespaces_ledger(owner: tenant.Tenant, namespace: str) -> Object:
    """Return the ledger that counts a tenant's namespaces, as it is first created.

    :param namespace: the controller's own, where only the platform may write
    """
    uid = owner.metadata.uid
    digest = hashlib.sha256(f"{owner.metadata.name}/{uid}".encode()).digest()[:16].hex()
    return {
        "apiVersion": constants.API_VERSION,
        "kind": capsule.QUANTITY_LEDGERS.kind,
        "metadata": managed.metadata(owner, f"tenant-namespaces-{digest}", namespace),
        "spec": {
            "targetRef": {
                "apiGroup": constants.GROUP,
                "kind": capsule.TENANTS.kind,
                "name": owner.metadata.name,
                "uid": uid,
            }
        },
    }
