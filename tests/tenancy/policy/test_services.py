"""Services against policy: types, addresses, ports, metadata, and the words of each refusal."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.runtime import admission
from tenantry.tenancy.admission import services

from . import policies

Object = dict[str, Any]
ADMINS = "please, reach out to the system administrators"


def service(kind: str = "ClusterIP", metadata: Object | None = None, **spec: Any) -> Object:
    port = {"port": 80, "protocol": "TCP"}
    return {
        "metadata": {"name": "x", **(metadata or {})},
        "spec": {"type": kind, "ports": [port], **spec},
    }


def ported(number: int | None, kind: str = "NodePort", **spec: Any) -> Object:
    port: Object = {"port": 80, "protocol": "TCP"}
    return service(kind, ports=[port if number is None else {**port, "nodePort": number}], **spec)


def decided(step: admission.Step[Any], obj: Object, old: Object | None, spec: Object) -> str:
    review = policies.a_review("services", obj, old)
    assert step.matches(review)
    return policies.message(step.decide(review, policies.known(policies.policy(**spec))))


def refusal(obj: Object, spec: Object, old: Object | None = None) -> str:
    return decided(services.VALIDATING[0], obj, old, spec)


def refused_early(obj: Object, spec: Object, old: Object | None = None) -> str:
    return decided(services.MUTATING[0], obj, old, spec)


def options(**more: Any) -> Object:
    return {"serviceOptions": more}


def rule(action: str, **more: Any) -> Object:
    return {"rules": [{"enforce": {"action": action, "services": more}}]}


# ---- the deprecated fields ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "field"),
    [("NodePort", "nodePort"), ("LoadBalancer", "loadBalancer"), ("ExternalName", "externalName")],
)
def test_types(kind: str, field: str) -> None:
    off = options(allowedServices={field: False})
    words = f"{kind} service types are forbidden for the tenant: {ADMINS}"
    assert refusal(service(kind), off) == words
    assert refusal(service(kind), off, service()) == words
    assert refusal(service(), off) == ""
    assert refusal(service(kind), options(allowedServices={})) == ""
    assert refusal(service(kind), options()) == ""
    # What was there before may be changed elsewhere.
    assert refusal(service(kind), off, service(kind)) == ""


@pytest.mark.parametrize(
    ("addresses", "fine"),
    [
        (["10.20.0.4"], True), (["192.168.1.2"], True), (["10.20.1.4"], False),
        (["10.20.0.4", "8.8.8.8"], False), (["192.168.1.3"], False), (["2001:db8::1"], False),
        (["::ffff:10.20.0.4"], False), (["10.20.0.256"], False), (["junk"], False),
    ],
)  # fmt: skip
def test_external_addresses(addresses: list[str], fine: bool) -> None:
    allowed = options(externalIPs={"allowed": ["10.20.0.0/24", "192.168.1.2"]})
    words = (
        "The selected external IPs for the current Service are violating the following enforced "
        "CIDRs: 10.20.0.0/24, 192.168.1.2"
    )
    assert refusal(service(externalIPs=addresses), allowed) == ("" if fine else words)
    assert refusal(service(externalIPs=addresses), allowed, service()) == ("" if fine else words)


def test_no_external_addresses_at_all() -> None:
    none = options(externalIPs={"allowed": []})
    assert refusal(service(externalIPs=["10.0.0.1"]), none) == (
        "The current Tenant does not allow the use of Service with external IPs"
    )
    assert refusal(service(), none) == ""
    assert refusal(service(externalIPs=["10.0.0.1"]), options()) == ""


@pytest.mark.parametrize(("part", "kind"), [("labels", "label"), ("annotations", "annotation")])
def test_metadata(part: str, kind: str) -> None:
    field = f"forbidden{part.capitalize()}"
    forbidden = options(**{field: {"denied": ["a"], "deniedRegex": "^x[.]io/"}})
    tail = "Forbidden are one of the following (a) or matching the regex ^x[.]io/"
    for key in ("a", "x.io/y"):
        assert refusal(service(metadata={part: {key: "1"}}), forbidden) == (
            f"{part} validation failed: {kind} {key} is forbidden for the current Tenant. {tail}"
        )
    assert refusal(service(metadata={part: {"b": "1"}}), forbidden) == ""
    had = service(metadata={part: {"a": "1"}})
    assert refusal(service(metadata={part: {"a": "1", "b": "2"}}), forbidden, had) == ""
    assert refusal(service(metadata={part: {"a": "2"}}), forbidden, had) != ""
    broken = options(**{field: {"deniedRegex": "("}})
    assert refusal(service(metadata={part: {"b": "1"}}), broken) != ""


# ---- rules --------------------------------------------------------------------------------------


def test_types_by_rule() -> None:
    allow = rule("allow", types=["ClusterIP", "NodePort"])
    assert refusal(service("NodePort"), allow) == ""
    assert refusal(service("LoadBalancer"), allow) == (
        'service type "LoadBalancer" at spec.type is not allowed by namespace rule: value did not '
        "match any allowed rule. Allowed service types: ClusterIP, NodePort"
    )
    assert refusal(service("NodePort"), rule("deny", types=["NodePort"])) == (
        'service type "NodePort" at spec.type is denied by namespace rule: '
        "matched denied rule NodePort"
    )
    # A Service that says nothing is of the usual type.
    bare = service()
    del bare["spec"]["type"]
    assert '"ClusterIP"' in refusal(bare, rule("deny", types=["ClusterIP"]))


def test_external_names() -> None:
    allow = rule("allow", externalNames={"hostnames": [{"exp": r"[.]example[.]com$"}]})
    assert refusal(service("ExternalName", externalName="a.example.com"), allow) == ""
    assert refusal(service("ExternalName", externalName="e.io"), allow) == (
        'externalName hostname "e.io" at spec.externalName is not allowed by namespace rule: value '
        r"did not match any allowed rule. Allowed hostnames: exp: [.]example[.]com$"
    )
    assert refusal(service(externalName="e.io"), allow) == ""
    before = service("ExternalName", externalName="a.example.com")
    assert refusal(service("ExternalName", externalName="e.io"), allow, before) != ""
    # Set before it counted, and brought into use by a change of type.
    turned = service("ExternalName", externalName="e.io")
    assert refusal(turned, allow, service(externalName="e.io")) != ""


def lb(**spec: Any) -> Object:
    return service("LoadBalancer", **spec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"loadBalancerIP": "10.1.2.3"}, ""),
        ({"loadBalancerSourceRanges": ["10.1.0.0/16", "10.0.0.0/8"]}, ""),
        ({"loadBalancerSourceRanges": [" 10.1.0.0/16 "]}, ""),
        ({"loadBalancerIP": "8.8.8.8"},
         'loadBalancer CIDR "8.8.8.8" at spec.loadBalancerIP is not allowed by namespace rule: '
         "value did not match any allowed rule. Allowed CIDRs: 10.0.0.0/8"),
        ({"loadBalancerIP": "10.1.2.3", "loadBalancerSourceRanges": ["0.0.0.0/0"]},
         'loadBalancer CIDR "0.0.0.0/0" at spec.loadBalancerSourceRanges[0] is not allowed by '
         "namespace rule: value did not match any allowed rule. Allowed CIDRs: 10.0.0.0/8"),
        ({}, "Service requires spec.loadBalancerIP or spec.loadBalancerSourceRanges because "
             "loadBalancer CIDR constraints are enforced by namespace rule"),
    ],
)  # fmt: skip
def test_load_balancers(spec: Object, message: str) -> None:
    allow = rule("allow", loadBalancers={"cidrs": ["10.0.0.0/8"]})
    assert refusal(lb(**spec), allow) == message
    assert refusal(lb(**spec), allow, service()) == message
    assert refusal(service(**spec), allow) == ""


def test_a_range_that_contains_what_is_denied_is_denied() -> None:
    deny = rule("deny", loadBalancers={"cidrs": ["10.0.0.0/8"]})
    for value in ("10.1.1.1/32", "0.0.0.0/0", "10.0.0.0/7"):
        assert "is denied by namespace rule" in refusal(lb(loadBalancerSourceRanges=[value]), deny)
    assert refusal(lb(loadBalancerSourceRanges=["8.0.0.0/8", "2001:db8::/32"]), deny) == ""
    # Without a range it is open to all.
    assert "requires spec.loadBalancerIP" in refusal(lb(), deny)
    open_to_some = lb(loadBalancerSourceRanges=["8.0.0.0/8"])
    assert "requires spec.loadBalancerIP" in refusal(lb(), deny, open_to_some)
    assert refusal(lb(), deny, lb()) == ""
    assert refusal(lb(), rule("audit", loadBalancers={"cidrs": ["10.0.0.0/8"]})) == ""


def test_node_ports() -> None:
    allow = rule(
        "allow", nodePorts={"ports": [{"from": 30000, "to": 30010}, {"from": 31000, "to": 31000}]}
    )
    assert refusal(ported(30005), allow) == ""
    assert refusal(ported(30011), allow) == (
        'nodePort "30011" at spec.ports[0].nodePort is not allowed by namespace rule: value did '
        "not match any allowed rule. Allowed ranges: 30000-30010, 31000"
    )
    assert "30011" in refusal(ported(30011, "LoadBalancer"), allow)
    assert "30011" in refusal(ported(30011), allow, ported(30005))
    assert refusal(ported(30011), allow, ported(30011)) == ""
    closed = ported(30011, "LoadBalancer", allocateLoadBalancerNodePorts=False)
    assert refusal(closed, allow) == ""
    assert refusal(
        ported(30005), rule("deny", nodePorts={"ports": [{"from": 1, "to": 40000}]})
    ) == (
        'nodePort "30005" at spec.ports[0].nodePort is denied by namespace rule: '
        "matched denied rule 1-40000"
    )


def test_a_port_must_be_chosen_where_ports_are_limited() -> None:
    ports = {"ports": [{"from": 30000, "to": 30010}]}
    allow = rule("allow", nodePorts=ports)
    words = (
        "Service requires an explicit spec.ports[0].nodePort because nodePort constraints are "
        "enforced by namespace rule"
    )
    for kind in ("NodePort", "LoadBalancer"):
        assert refused_early(ported(None, kind), allow) == words
        assert refused_early(ported(None, kind), allow, service()) == words
        assert refused_early(ported(30001, kind), allow) == ""
        # The API server keeps the port that it has.
        assert refused_early(ported(None, kind), allow, ported(30001, kind)) == ""
    closed = ported(None, "LoadBalancer", allocateLoadBalancerNodePorts=False)
    assert refused_early(closed, allow) == ""
    assert refused_early(service(), allow) == ""
    assert refused_early(ported(None), rule("audit", nodePorts=ports)) == ""
    assert refused_early(ported(None), {}) == ""


def test_an_address_that_cannot_be_read_refuses() -> None:
    broken = rule("deny", loadBalancers={"cidrs": ["nonsense"]})
    found = refusal(lb(loadBalancerIP="8.8.8.8"), broken)
    assert found.startswith("spec.rules[0] of the Tenant cannot be evaluated")
