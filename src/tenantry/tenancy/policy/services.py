"""What Services may be: types, addresses, ports (specs/capsule 1.1 `serviceOptions`, 5.8)."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tenantry.api.capsule import constants, rules, tenant
from tenantry.core import errors
from tenantry.tenancy.policy import blocks, engine

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Object = dict[str, Any]

CLUSTER_IP = "ClusterIP"
NODE_PORT = "NodePort"
LOAD_BALANCER = "LoadBalancer"
EXTERNAL_NAME = "ExternalName"

FORBIDDEN_TYPE = (
    "{type} service types are forbidden for the tenant: please, reach out to the system "
    "administrators"
)
NO_EXTERNAL_IPS = "The current Tenant does not allow the use of Service with external IPs"
EXTERNAL_IPS = (
    "The selected external IPs for the current Service are violating the following enforced "
    "CIDRs: {cidrs}"
)
RANGES_NEEDED = (
    "Service requires spec.loadBalancerIP or spec.loadBalancerSourceRanges because loadBalancer "
    "CIDR constraints are enforced by namespace rule"
)
PORT_NEEDED = (
    "Service requires an explicit spec.ports[{index}].nodePort because nodePort constraints are "
    "enforced by namespace rule"
)

#: Type that the deprecated field refuses -> reason of the event.
_LEGACY_EVENTS = {
    NODE_PORT: constants.FORBIDDEN_NODE_PORT_EVENT,
    EXTERNAL_NAME: constants.FORBIDDEN_EXTERNAL_NAME_EVENT,
    LOAD_BALANCER: constants.FORBIDDEN_LOAD_BALANCER_EVENT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRules:
    """What a tenant says about Services; empty parts limit nothing."""

    types: tuple[engine.RuleSet[str], ...] = ()
    external_ips: tuple[engine.RuleSet[str], ...] = ()
    external_names: tuple[engine.RuleSet[str], ...] = ()
    load_balancers: tuple[engine.RuleSet[str], ...] = ()
    node_ports: tuple[engine.RuleSet[int], ...] = ()


def compiled(spec: tenant.TenantSpec, selected: Sequence[blocks.Block]) -> ServiceRules:
    """Compile everything a Tenant says about Services."""
    options = spec.service_options
    with_services = [
        (block, block.enforce.services) for block in selected if block.enforce.services is not None
    ]
    return ServiceRules(
        types=(
            *(_legacy_types(options.allowed_services) if options else ()),
            *blocks.listed_set(
                "service type",
                "Allowed service types",
                constants.FORBIDDEN_SERVICE_TYPE_EVENT,
                [(block, found.types) for block, found in with_services],
            ),
        ),
        external_ips=_external_ips(options),
        external_names=blocks.expression_set(
            "externalName hostname",
            "Allowed hostnames",
            constants.FORBIDDEN_EXTERNAL_NAME_EVENT,
            [
                (block, found.external_names.hostnames, "services.externalNames.hostnames")
                for block, found in with_services
                if found.external_names is not None
            ],
        ),
        load_balancers=_load_balancers(with_services),
        node_ports=_node_ports(with_services),
    )


def _legacy_types(allowed: tenant.AllowedServices | None) -> tuple[engine.RuleSet[str], ...]:
    if allowed is None:
        return ()
    refused = frozenset(
        kind
        for kind, fine in (
            (NODE_PORT, allowed.node_port),
            (EXTERNAL_NAME, allowed.external_name),
            (LOAD_BALANCER, allowed.load_balancer),
        )
        if not fine
    )
    clause: engine.Clause[str] = blocks.legacy(
        lambda kind: kind not in refused, "", "spec.serviceOptions.allowedServices"
    )
    return (
        engine.RuleSet(
            name="allowedServices",
            clauses=(clause,),
            event_of=lambda kind: _LEGACY_EVENTS.get(kind, constants.FORBIDDEN_SERVICE_TYPE_EVENT),
            word=lambda kind: FORBIDDEN_TYPE.format(type=kind),
        ),
    )


def _external_ips(options: tenant.ServiceOptions | None) -> tuple[engine.RuleSet[str], ...]:
    if options is None or options.external_ips is None:
        return ()
    written = options.external_ips.allowed
    source = "spec.serviceOptions.externalIPs.allowed"
    words = EXTERNAL_IPS.format(cidrs=", ".join(written)) if written else NO_EXTERNAL_IPS
    broken, allowed = "", list[Network]()
    try:
        allowed = [network(one, f"{source}[{index}]") for index, one in enumerate(written)]
    except errors.InvalidValueError as problem:
        broken = str(problem)
    clause: engine.Clause[str] = blocks.legacy(
        lambda value: _inside(value, allowed), words, source, broken=broken
    )
    return (
        engine.RuleSet(
            name="externalIPs",
            clauses=(clause,),
            event=constants.FORBIDDEN_EXTERNAL_IP_EVENT,
            word=lambda _: words,
        ),
    )


def network(written: str, field: str) -> Network:
    """Parse an address or a network.

    :raises InvalidValueError: when it is neither
    """
    try:
        return ipaddress.ip_network(written.strip(), strict=False)
    except ValueError:
        raise errors.InvalidValueError(
            field, written, "must be an address or a network such as 10.0.0.0/24"
        ) from None


def _parsed(value: str) -> Network | None:
    try:
        return network(value, "")
    except errors.InvalidValueError:
        return None


def _inside(value: str, allowed: Sequence[Network]) -> bool:
    found = _parsed(value)
    return found is not None and any(_contains(one, found) for one in allowed)


def _contains(outer: Network, inner: Network) -> bool:
    if isinstance(outer, ipaddress.IPv4Network):
        return isinstance(inner, ipaddress.IPv4Network) and inner.subnet_of(outer)
    return isinstance(inner, ipaddress.IPv6Network) and inner.subnet_of(outer)


def _touches(value: str, denied: Sequence[Network]) -> bool:
    """Tell whether a range has any address in common; one that nobody can read may have."""
    found = _parsed(value)
    return found is None or any(
        one.version == found.version and one.overlaps(found) for one in denied
    )


def _load_balancers(
    found: Sequence[tuple[blocks.Block, rules.Services]],
) -> tuple[engine.RuleSet[str], ...]:
    clauses = [
        _cidrs(block, services.load_balancers.cidrs)
        for block, services in found
        if services.load_balancers is not None and services.load_balancers.cidrs
    ]
    if not clauses:
        return ()
    return (
        engine.RuleSet(
            name="loadBalancer CIDR",
            clauses=tuple(clauses),
            allowed="Allowed CIDRs",
            event=constants.FORBIDDEN_CIDR_EVENT,
        ),
    )


def _cidrs(block: blocks.Block, cidrs: Sequence[str]) -> engine.Clause[str]:
    def build() -> tuple[Callable[[str], bool], str]:
        rendered = block.rendered(list(cidrs))
        field = f"{block.source}.enforce.services.loadBalancers.cidrs"
        networks = [network(one, f"{field}[{index}]") for index, one in enumerate(rendered)]
        # To be allowed a range lies in what is allowed; to be denied a part of it is enough.
        test = _inside if block.enforce.action == engine.ALLOW else _touches
        return lambda value: test(value, networks), ", ".join(rendered)

    return block.clause(build)


def _node_ports(
    found: Sequence[tuple[blocks.Block, rules.Services]],
) -> tuple[engine.RuleSet[int], ...]:
    clauses = [
        _ports(block, services.node_ports.ports)
        for block, services in found
        if services.node_ports is not None and services.node_ports.ports
    ]
    if not clauses:
        return ()
    return (
        engine.RuleSet(
            name="nodePort",
            clauses=tuple(clauses),
            allowed="Allowed ranges",
            event=constants.FORBIDDEN_NODE_PORT_EVENT,
        ),
    )


def _ports(block: blocks.Block, ports: Sequence[rules.PortRange]) -> engine.Clause[int]:
    def build() -> tuple[Callable[[int], bool], str]:
        ranges = [(one.from_, one.to) for one in ports]
        words = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)
        return lambda port: any(a <= port <= b for a, b in ranges), words

    return block.clause(build)
