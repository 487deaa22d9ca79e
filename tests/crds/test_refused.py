"""What a real API server refuses under the definitions, and how it says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.crds.conftest import Kubectl

pytestmark = pytest.mark.plane

Node = dict[str, Any]


def tenant(**spec: Any) -> Node:
    return {
        "apiVersion": "capsule.clastix.io/v1beta2",
        "kind": "Tenant",
        "metadata": {"name": "crd-malformed"},
        "spec": spec,
    }


def rule(**enforce: Any) -> Node:
    return tenant(rules=[{"enforce": enforce}])


MALFORMED = {
    "unknown field": (tenant(owner=[]), 'unknown field "spec.owner"'),
    "unknown nested field": (
        tenant(owners=[{"kind": "User", "name": "a", "role": "x"}]),
        'unknown field "spec.owners[0].role"',
    ),
    "unknown field of a core type": (
        tenant(networkPolicies={"items": [{"podSelector": {}, "ingres": []}]}),
        'unknown field "spec.networkPolicies.items[0].ingres"',
    ),
    "unknown field of a limit range": (
        tenant(limitRanges={"items": [{"limits": [{"type": "Pod", "maximum": {}}]}]}),
        'unknown field "spec.limitRanges.items[0].limits[0].maximum"',
    ),
    "kind of an owner": (
        tenant(owners=[{"kind": "Robot", "name": "a"}]),
        'spec.owners[0].kind: Unsupported value: "Robot": supported values: "User", "Group", '
        '"ServiceAccount"',
    ),
    "owner without name": (tenant(owners=[{"kind": "User"}]), "spec.owners[0].name: Required"),
    "quota of 0": (
        tenant(namespaceOptions={"quota": 0}),
        "spec.namespaceOptions.quota: Invalid value: 0: spec.namespaceOptions.quota in body "
        "should be greater than or equal to 1",
    ),
    "quota as text": (
        tenant(namespaceOptions={"quota": "three"}),
        'spec.namespaceOptions.quota: Invalid value: "string"',
    ),
    "name over 63 characters": (
        {**tenant(), "metadata": {"name": "t" * 64}},
        "metadata.name: Too long: may not be more than 63 bytes",
    ),
    "proxy operation": (
        tenant(owners=[{"kind": "User", "name": "a",
                        "proxySettings": [{"kind": "Nodes", "operations": ["Watch"]}]}]),
        "spec.owners[0].proxySettings[0].operations[0]: Unsupported value",
    ),
    "collision scope": (
        tenant(ingressOptions={"hostnameCollisionScope": "cluster"}),
        "spec.ingressOptions.hostnameCollisionScope: Unsupported value",
    ),
    "pull policy": (tenant(imagePullPolicies=["Sometimes"]), "spec.imagePullPolicies[0]"),
    "scope of quotas": (
        tenant(resourceQuotas={"scope": "Cluster"}),
        "spec.resourceQuotas.scope: Unsupported value",
    ),
    "quantity": (
        tenant(resourceQuotas={"items": [{"hard": {"cpu": "lots"}}]}),
        'spec.resourceQuotas.items[0].hard.cpu: Invalid value: "lots"',
    ),
    "quantity as fraction": (
        tenant(resourceQuotas={"items": [{"hard": {"cpu": 0.5}}]}),
        'spec.resourceQuotas.items[0].hard.cpu: Invalid value: "number"',
    ),
    "external address": (
        tenant(serviceOptions={"externalIPs": {"allowed": ["everywhere"]}}),
        "spec.serviceOptions.externalIPs.allowed[0]: Invalid value",
    ),
    "binding for nobody": (
        tenant(additionalRoleBindings=[{"clusterRoleName": "view", "subjects": []}]),
        "spec.additionalRoleBindings[0].subjects: Invalid value: 0",
    ),
    "operator of a selector": (
        tenant(permissions={"matchOwners": [
            {"matchExpressions": [{"key": "a", "operator": "Is"}]}]}),
        "spec.permissions.matchOwners[0].matchExpressions[0].operator: Unsupported value",
    ),
    "network without cidr": (
        tenant(networkPolicies={"items": [{"ingress": [{"from": [{"ipBlock": {}}]}]}]}),
        "spec.networkPolicies.items[0].ingress[0].from[0].ipBlock.cidr: Required",
    ),
    "limit range without limits": (
        tenant(limitRanges={"items": [{}]}),
        "spec.limitRanges.items[0].limits: Required",
    ),
    "two rule quotas of one name": (
        tenant(rules=[{"quota": [{"name": "a"}, {"name": "a"}]}]),
        'spec.rules[0].quota[1]: Duplicate value: {"name":"a"}',
    ),
    "name of a rule quota": (
        tenant(rules=[{"quota": [{"name": "GPU"}]}]),
        "spec.rules[0].quota[0].name: Invalid value",
    ),
    "long name of a rule quota": (
        tenant(rules=[{"quota": [{"name": "q" * 64}]}]),
        "spec.rules[0].quota[0].name: Too long",
    ),
    "action": (rule(action="forbid"), "spec.rules[0].enforce.action: Unsupported value"),
    "expression that says nothing": (
        rule(workloads={"schedulers": [{"negate": True}]}),
        "spec.rules[0].enforce.workloads.schedulers[0]: Invalid value: at least one of exact and "
        "exp must be set",
    ),
    "image expression that says nothing": (
        rule(workloads={"registries": [{"policy": ["Always"]}]}),
        "spec.rules[0].enforce.workloads.registries[0]: Invalid value",
    ),
    "empty expression": (
        rule(workloads={"registries": [{"exp": ""}]}),
        "spec.rules[0].enforce.workloads.registries[0].exp",
    ),
    "target": (rule(workloads={"targets": ["pods"]}), "enforce.workloads.targets[0]: Unsupported"),
    "resources that say nothing": (
        rule(workloads={"resources": {}}),
        "spec.rules[0].enforce.workloads.resources: Invalid value: at least one of requests and "
        "limits must be set",
    ),
    "request with a ratio": (
        rule(workloads={"resources": {"requests": {"cpu": {"policy": "Ratio", "value": 2}}}}),
        "spec.rules[0].enforce.workloads.resources.requests.cpu.policy: Unsupported value",
    ),
    "default without a value": (
        rule(workloads={"resources": {"requests": {"cpu": {"policy": "Default"}}}}),
        "spec.rules[0].enforce.workloads.resources.requests[cpu]: Invalid value: value is needed",
    ),
    "limit with a value of no use": (
        rule(workloads={"resources": {"limits": {"cpu": {"policy": "MatchRequest", "value": 2}}}}),
        "spec.rules[0].enforce.workloads.resources.limits[cpu]: Invalid value: value is needed",
    ),
    "service type": (rule(services={"types": ["Headless"]}), "enforce.services.types[0]"),
    "port 0": (
        rule(services={"nodePorts": {"ports": [{"from": 0, "to": 1}]}}),
        "spec.rules[0].enforce.services.nodePorts.ports[0].from: Invalid value: 0",
    ),
    "port 65536": (
        rule(services={"nodePorts": {"ports": [{"from": 1, "to": 65536}]}}),
        "spec.rules[0].enforce.services.nodePorts.ports[0].to: Invalid value: 65536",
    ),
    "ingress of no kind": (
        rule(ingress={"types": [], "hostnames": [{"exp": "a"}]}),
        "spec.rules[0].enforce.ingress.types: Invalid value: 0",
    ),
    "metadata rule that says nothing": (
        rule(metadata=[{"kinds": ["Pod"]}]),
        "spec.rules[0].enforce.metadata[0]: Invalid value: at least one of labels and annotations "
        "must be set",
    ),
    "metadata rule without kinds": (
        rule(metadata=[{"labels": {"a": {}}}]),
        "spec.rules[0].enforce.metadata[0].kinds: Required",
    ),
    "metadata rule for no kind": (
        rule(metadata=[{"kinds": [], "labels": {"a": {}}}]),
        "spec.rules[0].enforce.metadata[0].kinds: Invalid value: 0",
    ),
    "audience": (
        tenant(rules=[{"audience": [{"kind": "Everybody", "name": "x"}]}]),
        "spec.rules[0].audience[0].kind: Unsupported value",
    ),
    "owner object without kind": (
        {**tenant(name="a"), "kind": "TenantOwner"},
        "spec.kind: Required value",
    ),
    "user of the configuration": (
        {**tenant(users=[{"kind": "Human", "name": "a"}]), "kind": "CapsuleConfiguration"},
        "spec.users[0].kind: Unsupported value",
    ),
    "webhook client without address": (
        {**tenant(admission={"mutating": {"client": {}}}), "kind": "CapsuleConfiguration"},
        "spec.admission.mutating: Invalid value: client must have either url or service",
    ),
    "name of a service account": (
        {**tenant(impersonation={"tenantDefaultServiceAccount": "s" * 64}),
         "kind": "CapsuleConfiguration"},
        "spec.impersonation.tenantDefaultServiceAccount: Too long",
    ),
    "ledger without target": (
        {**tenant(), "kind": "QuantityLedger"},
        "spec.targetRef: Required value",
    ),
}  # fmt: skip


@pytest.fixture(scope="session")
def refusals(installed: Kubectl) -> tuple[str, str]:
    """Apply all malformed manifests at once; give what was let through, and the complaints."""
    given = []
    for index, (manifest, _) in enumerate(MALFORMED.values()):
        name = manifest["metadata"]["name"]
        own = f"{name}-{index}" if name == "crd-malformed" else name
        given.append({**manifest, "metadata": {**manifest["metadata"], "name": own}})
    done = installed("apply", "--dry-run=server", "-f", "-", given=given)
    return done.stdout, done.stderr


def test_nothing_malformed_is_let_through(refusals: tuple[str, str]) -> None:
    let_through, complaints = refusals

    assert let_through == ""
    assert len(complaints.splitlines()) >= len(MALFORMED)


@pytest.mark.parametrize("case", MALFORMED)
def test_what_is_malformed_is_named_by_its_field(refusals: tuple[str, str], case: str) -> None:
    said = MALFORMED[case][1]

    # On one line: no other case may speak for this one.
    assert [said in line for line in refusals[1].splitlines()].count(True) == 1


def test_owners_named_twice_pass_the_schema(installed: Kubectl) -> None:
    """Capsule merges them by kind and name, so the list is no map: admission judges, not schema."""
    alice = {"kind": "User", "name": "alice"}
    twice = tenant(owners=[alice, {**alice, "clusterRoles": ["view"]}])

    installed.ok("apply", "--dry-run=server", "-f", "-", given=[twice])


def test_a_large_tenant_is_within_the_budget_of_its_rules(installed: Kubectl) -> None:
    """Rules without bounds on their lists must not refuse what a large customer writes."""
    expressions = [{"exp": f"^harbor-{n}/"} for n in range(40)]
    value = {"values": [{"exact": [str(n)]} for n in range(10)]}
    block = {
        "enforce": {
            "workloads": {"registries": expressions, "schedulers": expressions},
            "metadata": [{"kinds": ["Pod"], "labels": {f"k{n}": value for n in range(10)}}],
        }
    }
    large = tenant(
        owners=[{"kind": "User", "name": f"user-{n}"} for n in range(300)], rules=[block] * 20
    )

    installed.ok("apply", "--dry-run=server", "--server-side", "-f", "-", given=[large])
