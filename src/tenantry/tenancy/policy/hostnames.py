"""Host names that come in from outside: which may be used, and by whom already (specs 1.1, 5.6, 5.8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tenantry.api import meta
from tenantry.api.capsule import constants, rules, tenant
from tenantry.core import errors
from tenantry.tenancy.policy import blocks, engine, matching

Object = Mapping[str, Any]

CLUSTER, TENANT, NAMESPACE, DISABLED = "Cluster", "Tenant", "Namespace", "Disabled"

EMPTY = "empty hostname is not allowed for the current Tenant: {words}"
NOT_VALID = "Hostnames {names} are not valid for the current Tenant, {words}"
WILDCARD = "Wildcard denied for tenant {tenant}"
COLLISION = (
    "hostname {name} is already used across the cluster: please, reach out to the system "
    "administrators"
)
NEEDED = "hostname is required at {path} because hostname rules target {kind}"
EMPTY_NOTED = "empty hostname detected at {path} for {kind} by audit namespace rule"


@dataclass(frozen=True, slots=True)
class Host:
    """A host name that an object asks for; "" where it says nothing, which stands for all."""

    kind: str
    path: str
    name: str


# ---- what objects ask for -----------------------------------------------------------------------


def of(kind: str, obj: Object | None) -> list[Host]:
    """Return every host name of an object of one of the kinds that rules speak of."""
    spec: Object = (obj or {}).get("spec") or {}
    gather = _GATHER.get(kind)
    return list(gather(kind, spec)) if gather is not None and obj is not None else []


def _ingress(kind: str, spec: Object) -> Iterator[Host]:
    found = spec.get("rules") or ()
    for index, rule in enumerate(found):
        yield Host(kind, f"spec.rules[{index}].host", rule.get("host") or "")
    if not found:
        # A default backend alone takes every name.
        yield Host(kind, "spec.rules[].host", "")
    for index, tls in enumerate(spec.get("tls") or ()):
        hosts = tls.get("hosts") or ()
        for number, name in enumerate(hosts):
            yield Host(kind, f"spec.tls[{index}].hosts[{number}]", name)
        if not hosts:
            yield Host(kind, f"spec.tls[{index}].hosts", "")


def _listeners(kind: str, spec: Object) -> Iterator[Host]:
    for index, listener in enumerate(spec.get("listeners") or ()):
        yield Host(kind, f"spec.listeners[{index}].hostname", listener.get("hostname") or "")


def _routes(kind: str, spec: Object) -> Iterator[Host]:
    found = spec.get("hostnames") or ()
    for index, name in enumerate(found):
        yield Host(kind, f"spec.hostnames[{index}]", name)
    if not found:
        yield Host(kind, "spec.hostnames[]", "")


def _route(kind: str, spec: Object) -> Iterator[Host]:
    yield Host(kind, "spec.host", spec.get("host") or "")


_GATHER: dict[str, Callable[[str, Object], Iterator[Host]]] = {
    "Ingress": _ingress,
    "Gateway": _listeners,
    "ListenerSet": _listeners,
    "HTTPRoute": _routes,
    "GRPCRoute": _routes,
    "TLSRoute": _routes,
    "Route": _route,
}


def kind_of(group: str, kind: str) -> str:
    """Return the kind as rules call it, "" for what they do not speak of."""
    if group == "gateway.networking.x-k8s.io":
        return "ListenerSet" if kind == "XListenerSet" else ""
    groups = ("networking.k8s.io", "extensions", "gateway.networking.k8s.io", "route.openshift.io")
    return kind if kind in _GATHER and group in groups else ""


# ---- what a Tenant says -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRules:
    """What a tenant says about host names.

    :param allowed: None when any name may be used
    """

    tenant: str = ""
    allowed: engine.RuleSet[str] | None = None
    words: str = ""
    wildcards: bool = False
    scope: str = DISABLED
    hosts: engine.RuleSet[Host] | None = None


def compiled(owner: tenant.Tenant, selected: Sequence[blocks.Block]) -> HostRules:
    """Compile everything a Tenant says about host names."""
    options = owner.spec.ingress_options or tenant.IngressOptions()
    allowed, words = None, ""
    if options.allowed_hostnames is not None:
        source, broken = "spec.ingressOptions.allowedHostnames", ""
        listed = matching.Names()
        try:
            listed = matching.names(options.allowed_hostnames, source)
        except errors.InvalidValueError as problem:
            broken = str(problem)
        words = _words(options.allowed_hostnames.allowed, options.allowed_hostnames.allowed_regex)
        clause: engine.Clause[str] = blocks.legacy(
            lambda name: listed.matches(name, None), words, source, broken=broken
        )
        allowed = engine.RuleSet(
            name=source, clauses=(clause,), event=constants.HOSTNAME_NOT_VALID_EVENT
        )
    return HostRules(
        tenant=owner.metadata.name,
        allowed=allowed,
        words=words,
        wildcards=bool(options.allow_wildcard_hostnames),
        scope=options.hostname_collision_scope,
        hosts=_hosts(selected),
    )


def _words(allowed: Sequence[str], expression: str) -> str:
    parts = [f"specify one of the following ({', '.join(allowed)})"] if allowed else []
    if expression:
        parts.append(
            f"or matching the regex {expression}"
            if parts
            else f"specify one matching the regex {expression}"
        )
    return ", ".join(parts) or "none is allowed"


def _hosts(selected: Sequence[blocks.Block]) -> engine.RuleSet[Host] | None:
    clauses = [
        _clause(block, block.enforce.ingress)
        for block in selected
        if block.enforce.ingress is not None
    ]
    if not clauses:
        return None
    return engine.RuleSet(
        name="ingress hostname",
        clauses=tuple(clauses),
        allowed="Allowed hostnames",
        event=constants.FORBIDDEN_HOSTNAME_EVENT,
        show=lambda host: host.name,
    )


def _clause(block: blocks.Block, found: rules.Ingress) -> engine.Clause[Host]:
    kinds = frozenset(found.types)

    def build() -> tuple[Callable[[Host], bool], str]:
        field = f"{block.source}.enforce.ingress.hostnames"
        entries = [
            matching.expression(one, f"{field}[{index}]", block.render)
            for index, one in enumerate(found.hostnames)
        ]
        return (
            lambda host: any(entry.matches(host.name) for entry in entries),
            engine.listed([entry.words for entry in entries]),
        )

    return block.clause(build, applies=lambda host: host.kind in kinds)


def judged_host(found: engine.RuleSet[Host], host: Host, who: engine.Who) -> engine.Judgement:
    """Judge a host name; one that is missing is none of those allowed, and any of those denied."""
    if host.name:
        return found.check(host, host.path, who)
    clauses = [
        clause
        for clause in found.clauses
        if clause.audience.includes(who) and (clause.applies is None or clause.applies(host))
    ]
    if any(clause.action != engine.AUDIT for clause in clauses):
        message = NEEDED.format(path=host.path, kind=host.kind)
        return engine.Judgement(message, event=constants.HOSTNAME_EMPTY_EVENT)
    noted = EMPTY_NOTED.format(path=host.path, kind=host.kind)
    return engine.Judgement(
        notes=tuple(engine.Note(noted, clause.source, found.name) for clause in clauses)
    )


# ---- who uses what ------------------------------------------------------------------------------


class View(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What is kept of an Ingress."""

    namespace: str
    name: str
    uid: str
    pairs: tuple[tuple[str, str], ...]


class _Wire(msgspec.Struct, gc=False):
    metadata: meta.ObjectMeta
    spec: dict[str, Any] = {}


_WIRE = msgspec.json.Decoder(_Wire)


def view(raw: bytes) -> View:
    """Project one Ingress."""
    found = _WIRE.decode(raw)
    return View(
        namespace=found.metadata.namespace,
        name=found.metadata.name,
        uid=found.metadata.uid,
        pairs=tuple(pairs({"spec": found.spec})),
    )


def pairs(obj: Object | None) -> list[tuple[str, str]]:
    """Return host and path of every rule of an Ingress; what is the same to a router is equal."""
    spec: Object = (obj or {}).get("spec") or {}
    found = []
    for rule in spec.get("rules") or ():
        host = (rule.get("host") or "").lower()
        paths: Sequence[Object] = (rule.get("http") or {}).get("paths") or ({},)
        found += [(host, (one.get("path") or "/").rstrip("/") or "/") for one in paths]
    return list(dict.fromkeys(found))
