"""What a real API server says to the definitions, and to manifests under them."""

from __future__ import annotations

import copy
import json
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest
import yaml

pytestmark = pytest.mark.plane

ROOT = Path(__file__).parents[2]
Node = dict[str, Any]

#: Taking over from whoever installed them before, Capsule's chart for one.
APPLY = ("apply", "--server-side", "--force-conflicts", "--field-manager=tenantry", "-f")


class Runner(Protocol):
    def __call__(
        self, *arguments: str, given: Sequence[Any] = ()
    ) -> subprocess.CompletedProcess[str]: ...
    def ok(self, *arguments: str, given: Sequence[Any] = ()) -> str: ...


@pytest.fixture(scope="module")
def installed(kubectl: Runner) -> Runner:
    """Install the definitions as an installation does, without a warning."""
    crds = str(ROOT / "deploy" / "crds")
    kubectl.ok(*APPLY, crds)
    kubectl.ok("wait", "--for=condition=Established", "--timeout=30s", "-f", crds)
    return kubectl


@pytest.fixture
def prefix(installed: Runner) -> Iterator[str]:
    """Give a name of one's own, and remove afterwards what carries it."""
    own = f"crd-{uuid.uuid4().hex[:6]}"
    yield own
    kinds = "tenants,tenantowners,capsuleconfigurations,quantityledgers"
    names = installed.ok("get", kinds, "-A", "-o", "name", "--ignore-not-found").splitlines()
    mine = [name for name in names if f"/{own}" in name]
    if mine:
        installed("delete", "-n", "default", "--wait=false", *mine)


def under(prefix: str, manifest: Node) -> Node:
    """Give the manifest under a name that no other test uses."""
    renamed = copy.deepcopy(manifest)
    renamed["metadata"]["name"] = f"{prefix}-{manifest['metadata']['name']}"
    return renamed


def defaulted(value: Any, node: Node) -> Any:
    """Fill in the defaults of a schema as the API server does."""
    if isinstance(value, list):
        return [defaulted(item, node.get("items", {})) for item in value]
    if not isinstance(value, dict):
        return value
    filled = dict(value)
    properties = node.get("properties", {})
    for key, child in properties.items():
        if "default" in child:
            filled.setdefault(key, copy.deepcopy(child["default"]))
    more = node.get("additionalProperties", {})
    return {key: defaulted(item, properties.get(key, more)) for key, item in filled.items()}


def tenant(**spec: Any) -> Node:
    return {
        "apiVersion": "capsule.clastix.io/v1beta2",
        "kind": "Tenant",
        "metadata": {"name": "crd-malformed"},
        "spec": spec,
    }


def rule(**enforce: Any) -> Node:
    return tenant(rules=[{"enforce": enforce}])


def read(run: Runner, manifests: list[Node]) -> list[Node]:
    """Read the objects of several manifests at once, in their order."""
    found: Node = json.loads(run.ok("get", "-f", "-", "-o", "json", given=manifests))
    items: list[Node] = found.get("items", [found])
    return items


def test_definitions_are_established_without_complaint(installed: Runner) -> None:
    listed = json.loads(installed.ok("get", "-f", str(ROOT / "deploy" / "crds"), "-o", "json"))

    for definition in listed["items"]:
        conditions = {c["type"]: c["status"] for c in definition["status"]["conditions"]}
        assert conditions["Established"] == "True"
        assert conditions["NamesAccepted"] == "True"
        assert "NonStructuralSchema" not in conditions


def test_installing_again_changes_nothing(installed: Runner) -> None:
    crds = str(ROOT / "deploy" / "crds")

    def versions() -> str:
        path = "-o=jsonpath={.items[*].metadata.resourceVersion}"
        return installed.ok("get", "-f", crds, path)

    before = versions()
    installed.ok(*APPLY, crds)

    assert versions() == before


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("tenant.spec.owners", "Who creates namespaces in this tenant"),
        ("tenant.spec.namespaceOptions.quota", "Most namespaces the tenant may have"),
        ("tnt.spec.rules.enforce.workloads.resources.limits", "policy: MatchRequest"),
        ("tenantowner.spec.aggregate", "Default: true"),
        ("capsuleconfiguration.spec.users", "Users of the platform"),
        ("quantityledger.spec.targetRef", "Object whose limit is counted"),
    ],
)
def test_explain_says_something(installed: Runner, path: str, said: str) -> None:
    # The API server publishes a new schema some time after the definition is established.
    deadline = time.monotonic() + 30
    text = ""
    while said not in text and time.monotonic() < deadline:
        text = " ".join(installed("explain", path).stdout.split())
    assert said in text


@pytest.mark.parametrize("way", [(), ("--server-side",)], ids=["client-side", "server-side"])
def test_manifests_apply_and_read_back_unchanged(
    installed: Runner,
    prefix: str,
    manifests: list[Node],
    schemas: dict[str, Node],
    way: tuple[str, ...],
) -> None:
    own = [under(prefix, manifest) for manifest in manifests]

    installed.ok("apply", *way, "-f", "-", given=own)

    for manifest, stored in zip(own, read(installed, own), strict=True):
        spec = schemas[manifest["kind"]]["properties"]["spec"]
        if "spec" in manifest:
            assert stored["spec"] == defaulted(manifest["spec"], spec), manifest["metadata"]["name"]
        else:
            assert "spec" not in stored


def test_applying_again_changes_nothing(
    installed: Runner, prefix: str, manifests: list[Node]
) -> None:
    own = [under(prefix, manifest) for manifest in manifests]

    def versions() -> list[str]:
        return [stored["metadata"]["resourceVersion"] for stored in read(installed, own)]

    installed.ok("apply", "-f", "-", given=own)
    before = versions()
    installed.ok("apply", "-f", "-", given=own)

    assert versions() == before
    assert installed.ok("diff", "-f", "-", given=own) == ""


@pytest.mark.parametrize(
    "kind", ["Tenant", "TenantOwner", "CapsuleConfiguration", "QuantityLedger"]
)
def test_a_status_with_every_field_is_kept(
    installed: Runner,
    prefix: str,
    manifests: list[Node],
    schemas: dict[str, Node],
    kind: str,
) -> None:
    path = ROOT / "tests" / "fixtures" / "capsule" / "status" / f"{kind.lower()}.yaml"
    status = yaml.safe_load(path.read_text(encoding="utf-8"))
    own = under(prefix, next(m for m in manifests if m["kind"] == kind))
    installed.ok("apply", "-f", "-", given=[own])

    patch = json.dumps({"status": status})
    name = f"{kind.lower()}/{own['metadata']['name']}"
    installed.ok("patch", name, "-n=default", "--subresource=status", "--type=merge", f"-p={patch}")

    (stored,) = read(installed, [own])
    assert stored["status"] == status
    assert set(status) == set(schemas[kind]["properties"]["status"]["properties"])


def test_the_listing_of_tenants(installed: Runner, prefix: str) -> None:
    plain = tenant(owners=[{"kind": "User", "name": "alice"}])
    full = tenant(namespaceOptions={"quota": 3}, nodeSelector={"pool": "a"})
    own = [under(prefix, plain), under(prefix, full)]
    own[1]["metadata"]["name"] = f"{prefix}-z"
    installed.ok("apply", "-f", "-", given=own)
    ready = {"type": "Ready", "status": "True", "reason": "Succeeded", "message": "reconciled"}
    cordoned = {"type": "Cordoned", "status": "False", "reason": "Active", "message": "no"}
    since = {"lastTransitionTime": "2026-08-21T10:00:00Z"}
    status = {"size": 1, "conditions": [{**ready, **since}, {**cordoned, **since}]}
    for manifest in own:
        installed.ok(
            "patch", "tenant", manifest["metadata"]["name"], "--subresource=status",
            "--type=merge", "-p", json.dumps({"status": status}),
        )  # fmt: skip

    header, *rows = installed.ok("get", "tnt", *(m["metadata"]["name"] for m in own)).splitlines()

    assert header.split() == (
        [
            "NAME",
            "STATE",
            "NAMESPACE",
            "QUOTA",
            "NAMESPACE",
            "COUNT",
            "NODE",
            "SELECTOR",
            "READY",
            "STATUS",
            "AGE",
        ]
    )
    starts = [
        header.index(title)
        for title in (
            "STATE",
            "NAMESPACE QUOTA",
            "NAMESPACE COUNT",
            "NODE SELECTOR",
            "READY",
            "STATUS",
            "AGE",
        )
    ]
    cells = [
        [row[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)]
        for row in rows
    ]  # fmt: skip
    assert [row[:-1] for row in cells] == [
        ["Active", "", "1", "", "True", "reconciled"],
        ["Active", "3", "1", '{"pool":"a"}', "True", "reconciled"],
    ]


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
        "spec.resourceQuotas.items[0].hard.cpu: Invalid value",
    ),
    "quantity as fraction": (
        tenant(resourceQuotas={"items": [{"hard": {"cpu": 0.5}}]}),
        "spec.resourceQuotas.items[0].hard.cpu: Invalid value",
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


@pytest.fixture(scope="module")
def refusals(installed: Runner) -> tuple[str, str]:
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
    assert MALFORMED[case][1] in refusals[1]


def test_owners_named_twice_pass_the_schema(installed: Runner) -> None:
    """Capsule merges them by kind and name, so the list is no map: admission judges, not schema."""
    alice = {"kind": "User", "name": "alice"}
    twice = tenant(owners=[alice, {**alice, "clusterRoles": ["view"]}])

    installed.ok("apply", "--dry-run=server", "-f", "-", given=[twice])


def test_a_large_tenant_is_within_the_budget_of_its_rules(installed: Runner) -> None:
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
