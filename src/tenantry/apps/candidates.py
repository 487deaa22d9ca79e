"""Find the tenants among which a namespace without a label is to be assigned.

The API server has no index of owners, and a list of all tenants costs it a quarter of a
millisecond for each of them. So memory proposes and the API server decides: read live is every
tenant that memory knows as the requester's, and every one that could claim the name by its prefix.

* If an owned tenant's prefix begins the name, the longest such wins, whatever else she owns, and
  all that could be longer were asked for. Memory has no part in the answer.
* Otherwise it matters how many she owns in all. Memory counts for that if it is provably newer
  than the request, or, a moment later, knows the same names as the API server. A grant that has not
  arrived even then is as if it had been made after the request; she is the owner of what is
  chosen in any case.
* Where neither holds, all tenants are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from tenantry.api.capsule import resources as capsule
from tenantry.core import names
from tenantry.directory import assignment, identity
from tenantry.kube import client as kube
from tenantry.kube import reads
from tenantry.runtime import admission
from tenantry.tenancy import state
from tenantry.tenancy.admission import break_glass

#: Names that memory does not know are asked for up to this many; a name with more dashes in it
#: than that is not worth as many requests.
PROBES = 4

#: Seconds that memory gets to hear of what was written before the request, however it looks.
SETTLE = 0.01

#: Seconds that memory gets to show that it is newer than the request.
PATIENCE = 0.03


class _Meta(msgspec.Struct, rename="camel", gc=False):
    resource_version: str = ""


class _Row(msgspec.Struct, gc=False):
    cells: list[Any]


class _Table(msgspec.Struct, gc=False):
    metadata: _Meta
    rows: list[_Row] | None = None


_TABLE = msgspec.json.Decoder(_Table)


def name_of(review: admission.Review) -> str:
    """Return the name of the namespace, or how a generated one will begin."""
    metadata = (review.object or {}).get("metadata") or {}
    return str(metadata.get("name") or metadata.get("generateName") or "")


def mentioned(review: admission.Review) -> frozenset[str]:
    """Return the tenants that a namespace names, as it is stored or as it shall be."""
    stored, wanted = assignment.of(review.old), assignment.of(review.object)
    # Names that no Tenant can have are not asked for: they would change the path of the request.
    mentioned = filter(names.is_dns_subdomain, stored.mentioned | wanted.mentioned)
    return frozenset(mentioned) | break_glass.named(review)


def is_open(review: admission.Review, klass: identity.Class) -> bool:
    """Tell whether the choice of the tenant is left to us."""
    creating = review.operation == "CREATE"
    return (
        creating and klass is identity.Class.CAPSULE and assignment.of(review.object).label is None
    )


def claimants(name: str) -> list[str]:
    """Return every name of a tenant whose prefix begins `name`, the shortest first."""
    parts = name.split("-")
    found = ("-".join(parts[:count]) for count in range(1, len(parts)))
    return [prefix for prefix in found if names.is_dns_subdomain(prefix)]


def decided(name: str, owned: Iterable[str]) -> bool:
    """Tell whether one of the owned tenants claims the name by its prefix."""
    return not set(claimants(name)).isdisjoint(owned)


def proposed(name: str, owned: Collection[str], known: Collection[str]) -> frozenset[str] | None:
    """Return the tenants to read; None when listing them all costs less.

    :param owned: those that memory gives the requester
    :param known: all that memory knows
    """
    claims = claimants(name)
    unknown = [claim for claim in claims if claim not in known]
    if len(unknown) > PROBES:
        return None
    return frozenset({*owned, *claims})


async def is_current(client: kube.Client, known: state.State) -> bool:
    """Tell whether memory has all tenants that exist; see the module for what that means.

    Names alone are asked for: equally many need not be the same.
    """
    answer = await client.request(
        "GET", capsule.TENANTS.path(), query={"includeObject": "None"}, accept=reads.TABLE
    )
    table = _TABLE.decode(answer.body)
    names_there = {str(row.cells[0]) for row in table.rows or ()}
    version = table.metadata.resource_version
    if await known.tenants.wait_for(version, SETTLE):
        return True
    if names_there == set(known.directory.tenant_names()):
        return True
    return await known.tenants.wait_for(version, PATIENCE - SETTLE)
