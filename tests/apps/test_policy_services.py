"""Which Services may be in a tenant's namespaces (specs/capsule 1.1, 5.6, 5.8)."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.api import resources
from tenantry.kube import errors

from .content import in_force, put
from .harness import Object, World, eventually, refused

pytestmark = pytest.mark.plane


def service(kind: str = "ClusterIP", metadata: Object | None = None, **spec: Any) -> Object:
    ports = {} if kind == "ExternalName" else {"ports": [{"port": 80}]}
    return {"metadata": {"name": "s", **(metadata or {})}, "spec": {"type": kind, **ports, **spec}}


async def test_the_deprecated_fields(world: World) -> None:
    await world.tenant(
        serviceOptions={
            "allowedServices": {"nodePort": False, "externalName": False, "loadBalancer": False},
            "externalIPs": {"allowed": ["10.20.0.0/24", "192.168.1.2"]},
            "forbiddenLabels": {"denied": ["a"], "deniedRegex": "^x[.]io/"},
            "forbiddenAnnotations": {"denied": ["b"]},
        }
    )
    await world.tenant("closed", serviceOptions={"externalIPs": {"allowed": []}})
    await world.namespace(tenant="oil")
    await world.namespace("closed", tenant="closed")
    await put(world, resources.SERVICES, service(), dry_run=False)
    await put(world, resources.SERVICES, service(metadata={"name": "t"}, externalIPs=["10.20.0.9"]))
    for kind, more in (
        ("NodePort", {}),
        ("LoadBalancer", {}),
        ("ExternalName", {"externalName": "a.b"}),
    ):
        words = (
            f"{kind} service types are forbidden for the tenant: please, reach out to the system "
            "administrators"
        )
        await refused(put(world, resources.SERVICES, service(kind, {"name": "t"}, **more)), words)
        change: Object = {"spec": {"type": kind, **more}}
        where = world.name("prod")
        if kind != "ExternalName":
            await refused(
                world.admin.patch(resources.SERVICES, "s", where, kind="merge", body=change), words
            )
    await refused(
        put(world, resources.SERVICES, service(metadata={"name": "t"}, externalIPs=["8.8.8.8"])),
        "The selected external IPs for the current Service are violating the following enforced "
        "CIDRs: 10.20.0.0/24, 192.168.1.2",
    )
    await refused(
        put(world, resources.SERVICES, service(externalIPs=["10.20.0.9"]), where="closed"),
        "The current Tenant does not allow the use of Service with external IPs",
    )
    await refused(
        put(world, resources.SERVICES, service(metadata={"name": "t", "labels": {"x.io/y": "1"}})),
        "labels validation failed: label x.io/y is forbidden for the current Tenant. Forbidden are "
        "one of the following (a) or matching the regex ^x[.]io/",
    )
    await refused(
        put(world, resources.SERVICES, service(metadata={"name": "t", "annotations": {"b": "1"}})),
        "annotations validation failed: annotation b is forbidden for the current Tenant. Forbidden "
        "are one of the following (b) or matching the regex",
    )


async def test_rules(world: World) -> None:
    names = {"hostnames": [{"exp": "[.]example[.]com$"}]}
    ports = {"ports": [{"from": 30100, "to": 30110}]}
    await world.tenant(
        rules=[
            {"enforce": {"action": "allow", "services": {
                "types": ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"],
                "externalNames": names, "nodePorts": ports,
                "loadBalancers": {"cidrs": ["10.0.0.0/8"]},
            }}},
            {"enforce": {"services": {"types": ["NodePort"]}},
             "audience": [{"kind": "Custom", "name": "TenantOwner"}]},
        ]
    )  # fmt: skip
    await world.namespace()
    await world.bound()
    port = {"port": 80, "nodePort": 30105}
    await put(world, resources.SERVICES, service("NodePort", ports=[port]))
    await refused(
        put(world, resources.SERVICES, service("NodePort", ports=[port]), by=world.user()),
        'service type "NodePort" at spec.type is denied by namespace rule: '
        "matched denied rule NodePort",
    )
    await refused(
        put(world, resources.SERVICES, service("NodePort", ports=[{**port, "nodePort": 30111}])),
        'nodePort "30111" at spec.ports[0].nodePort is not allowed by namespace rule: value did '
        "not match any allowed rule. Allowed ranges: 30100-30110",
    )
    await refused(
        put(world, resources.SERVICES, service("NodePort")),
        "Service requires an explicit spec.ports[0].nodePort because nodePort constraints are "
        "enforced by namespace rule",
    )
    closed: Object = {"allocateLoadBalancerNodePorts": False}
    await put(
        world, resources.SERVICES, service("LoadBalancer", loadBalancerIP="10.1.1.1", **closed)
    )
    await refused(
        put(world, resources.SERVICES, service("LoadBalancer", **closed)),
        "Service requires spec.loadBalancerIP or spec.loadBalancerSourceRanges because "
        "loadBalancer CIDR constraints are enforced by namespace rule",
    )
    wide: Object = {"loadBalancerSourceRanges": ["10.0.0.0/7"], **closed}
    await refused(
        put(world, resources.SERVICES, service("LoadBalancer", **wide)),
        'loadBalancer CIDR "10.0.0.0/7" at spec.loadBalancerSourceRanges[0] is not allowed by '
        "namespace rule: value did not match any allowed rule. Allowed CIDRs: 10.0.0.0/8",
    )
    await put(world, resources.SERVICES, service("ExternalName", externalName="a.example.com"))
    await refused(
        put(world, resources.SERVICES, service("ExternalName", externalName="e.io")),
        'externalName hostname "e.io" at spec.externalName is not allowed by namespace rule: value '
        "did not match any allowed rule. Allowed hostnames: exp: [.]example[.]com$",
    )
    await in_force(world)


async def test_an_owner_revoked_a_moment_ago_is_no_audience(world: World) -> None:
    """What a rule lets owners alone do ends with their ownership, whatever RBAC still lets through."""
    node_ports = {"services": {"types": ["NodePort"]}}
    owners = [{"kind": "Custom", "name": "TenantOwner"}]
    tenant = await world.tenant(
        rules=[
            {"enforce": {"action": "deny", **node_ports}},
            {"enforce": {"action": "allow", **node_ports}, "audience": owners},
        ]
    )
    await world.namespace()
    for name in ("alice", "bob"):
        await world.grant(world.name(name), "create", what=("services",))
    alice, bob = world.user(), world.user("bob")
    await put(world, resources.SERVICES, service("NodePort"), by=alice)
    words = (
        'service type "NodePort" at spec.type is denied by namespace rule: matched denied rule '
        "NodePort"
    )
    await refused(put(world, resources.SERVICES, service("NodePort"), by=bob), words)
    await world.change(tenant, owners=[world.owner("bob")])

    async def revoked() -> bool:
        # Services are judged by memory, which is some milliseconds behind.
        try:
            await put(world, resources.SERVICES, service("NodePort"), by=alice)
        except errors.Forbidden as problem:
            return problem.message.endswith(words)
        return False

    await eventually(revoked, seconds=3)
    await put(world, resources.SERVICES, service("NodePort"), by=bob)
