"""What becomes of a request. Pure: a request, whose it is, and what is known.

`concerns` comes first: most requests need no answer from here, and then nobody has to find out
whose they are; the caller's own token goes to the API server. `decide` answers the others.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Protocol, TypeAlias

from tenantry.api.capsule import constants
from tenantry.api.capsule import resources as capsule
from tenantry.gateway import errors, grants, identity, paths, terms


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """The parts of a request's head that decisions rest on."""

    method: str
    path: str
    query: paths.Query
    target: paths.Target | None
    upgrade: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Pass:
    """Send it on as the caller's own."""

    gate: bool = False
    """whether a refusal may hide that the namespace does not exist"""


@dataclasses.dataclass(frozen=True, slots=True)
class Filter:
    """Read as the gateway, with this label selector besides the caller's."""

    selector: str


@dataclasses.dataclass(frozen=True, slots=True)
class Sieve:
    """Read as the gateway, and show what the terms show."""

    terms: terms.Terms
    tenants: frozenset[str] = frozenset()
    """namespaces that these tenants own are shown too"""
    single: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Fanout:
    """Read as the caller in each of these namespaces, and merge."""

    namespaces: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Review:
    """Let the API server answer as to the caller, then correct the answer."""


Decision: TypeAlias = Pass | Filter | Sieve | Fanout | Review

#: Reviews of what the caller may do.
_REVIEWS = frozenset((paths.SELF_ACCESS_REVIEW, paths.SELF_RULES_REVIEW))


class Snapshot(Protocol):
    """What is known at the moment of a decision."""

    def given(self, who: identity.Identity) -> grants.Grants:
        """Return what an identity was given."""

    def namespaced(self, target: paths.Target) -> bool | None:
        """Tell the scope of a kind; None when it is not served, as far as is known."""

    def served(self, group: str, plural: str) -> bool | None:
        """Tell the scope of a kind in whatever version; None when it is not served."""

    def namespaces_of(self, tenant: str) -> tuple[str, ...]:
        """Return the namespaces that a tenant owns, by name."""

    def impostors(self, tenants: tuple[str, ...]) -> tuple[str, ...]:
        """Return namespaces that carry a tenant's label without being owned by it."""

    def namespaces_shown(self, terms: terms.Terms) -> frozenset[str]:
        """Return the namespaces whose labels or names the terms show."""

    def reflected(self, who: identity.Identity) -> frozenset[str]:
        """Return namespaces in which a RoleBinding names the identity; empty when that is off."""


def parse(method: str, target: str, *, upgrade: bool = False) -> Request:
    """Read a request line.

    :raises Malformed: when it could be read in two ways
    """
    if len(target) <= _SHORT:
        return _parse_short(method, target, upgrade)
    return _parse(method, target, upgrade)


def _parse(method: str, target: str, upgrade: bool) -> Request:
    path, _, query = target.partition("?")
    paths.check(path)
    found = paths.parse_path(path)
    return Request(method, path, paths.parse_query(query), found, upgrade)


#: Clients ask the same again and again; what is longer than this is not remembered.
_SHORT = 512
_parse_short = functools.lru_cache(maxsize=2048)(_parse)


def concerns(request: Request) -> bool:
    """Tell whether it matters here whose request it is."""
    if request.path in _REVIEWS:
        return request.method == "POST"
    target = request.target
    return (
        request.method == "GET"
        and target is not None
        and not target.namespace
        and not target.subresource
    )


def passed(request: Request) -> Pass:
    """Send a request on, remembering when its refusal is worth a second look."""
    target = request.target
    gate = (
        request.method == "GET"
        and target is not None
        and bool(target.namespace and target.name)
        and not target.subresource
        and not request.query.watch
    )
    return Pass(gate=gate)


def decide(request: Request, who: identity.Identity, known: Snapshot) -> Decision:
    """Decide about a request that `concerns`.

    :raises Malformed: when what is asked for cannot be narrowed
    """
    if not concerns(request):
        return passed(request)
    given = known.given(who)
    if not given.user:
        return Pass()
    if request.path in _REVIEWS:
        return Review()
    target = request.target
    assert target is not None
    found = _narrow(target, who, given, known)
    single = isinstance(found, Sieve) and found.single
    if request.upgrade and not isinstance(found, Pass) and (single or not request.query.watch):
        raise errors.Malformed("what is narrowed can be watched over WebSocket, and nothing else")
    return found


def _narrow(
    target: paths.Target, who: identity.Identity, given: grants.Grants, known: Snapshot
) -> Decision:
    kind = (target.group, target.plural)
    single = bool(target.name)
    if kind == ("", "namespaces") and target.version == "v1":
        return _namespaces(target, who, given, known)
    if kind == (constants.GROUP, capsule.TENANTS.plural):
        names = set(given.tenants)
        shown = terms.named(frozenset(names)) + (given.of(target, get=single) or ())
        return Sieve(shown, single=single)
    namespaced = known.namespaced(target)
    if namespaced is None:
        return Pass()
    if namespaced:
        return Pass() if single else _everywhere(who, given, known)
    shown_terms = given.of(target, get=single)
    if shown_terms is None:
        # Nothing was said about this kind: what the caller may do by RBAC is theirs.
        return Pass()
    if single:
        return Sieve(shown_terms, single=True)
    selector = terms.selector(shown_terms)
    return Filter(selector) if selector is not None else Sieve(shown_terms)


def _namespaces(
    target: paths.Target, who: identity.Identity, given: grants.Grants, known: Snapshot
) -> Decision:
    shown = given.of(target, get=bool(target.name)) or ()
    reflected = known.reflected(who)
    if target.name:
        return Sieve(
            (*shown, *terms.named(reflected)), tenants=frozenset(given.tenants), single=True
        )
    names = known.namespaces_shown(shown) | reflected if shown or reflected else frozenset()
    if not names:
        return Filter(_owned_by(given.tenants, known))
    owned = {name for tenant in given.tenants for name in known.namespaces_of(tenant)}
    return Filter(f"{constants.NAME_LABEL} in ({','.join(sorted(owned | names))})")


def _owned_by(tenants: tuple[str, ...], known: Snapshot) -> str:
    """Select by the tenant's label, so that a namespace made a moment ago is there already."""
    if not tenants:
        return terms.NOTHING
    selector = f"{constants.TENANT_LABEL} in ({','.join(sorted(tenants))})"
    impostors = known.impostors(tenants)
    if impostors:
        selector += f",{constants.NAME_LABEL} notin ({','.join(impostors)})"
    return selector


def _everywhere(who: identity.Identity, given: grants.Grants, known: Snapshot) -> Decision:
    owned = {name for tenant in given.tenants for name in known.namespaces_of(tenant)}
    owned |= known.reflected(who)
    if not given.tenants and not owned:
        return Pass()
    return Fanout(tuple(sorted(owned)))
