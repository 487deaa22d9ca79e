"""What a real API server says to the definitions, and to manifests under them."""

from __future__ import annotations

import copy
import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from tests.crds.conftest import Kubectl

pytestmark = pytest.mark.plane

ROOT = Path(__file__).parents[2]
CRDS = str(ROOT / "deploy" / "crds")
Node = dict[str, Any]


@pytest.fixture
def prefix(installed: Kubectl) -> Iterator[str]:
    """Give a name of one's own, and remove afterwards what carries it."""
    own = f"crd-{uuid.uuid4().hex[:6]}"
    yield own
    kinds = "tenants,tenantowners,capsuleconfigurations,quantityledgers,rulestatuses"
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


def read(run: Kubectl, manifests: list[Node]) -> list[Node]:
    """Read the objects of several manifests at once, in their order."""
    found: Node = json.loads(run.ok("get", "-f", "-", "-o", "json", given=manifests))
    items: list[Node] = found.get("items", [found])
    return items


def test_definitions_are_established_without_complaint(installed: Kubectl) -> None:
    listed = json.loads(installed.ok("get", "-f", CRDS, "-o", "json"))

    for definition in listed["items"]:
        conditions = {c["type"]: c["status"] for c in definition["status"]["conditions"]}
        assert conditions["Established"] == "True"
        assert conditions["NamesAccepted"] == "True"
        assert "NonStructuralSchema" not in conditions


def test_installing_again_changes_nothing(installed: Kubectl) -> None:
    def versions() -> str:
        path = "-o=jsonpath={.items[*].metadata.resourceVersion}"
        return installed.ok("get", "-f", CRDS, path)

    before = versions()
    installed.install()

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
def test_explain_says_something(installed: Kubectl, path: str, said: str) -> None:
    # The API server publishes a new schema some time after the definition is established.
    deadline = time.monotonic() + 30
    text = ""
    while said not in text and time.monotonic() < deadline:
        text = " ".join(installed("explain", path).stdout.split())
    assert said in text


@pytest.mark.parametrize("way", [(), ("--server-side",)], ids=["client-side", "server-side"])
def test_manifests_apply_and_read_back_unchanged(
    installed: Kubectl,
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
    installed: Kubectl, prefix: str, manifests: list[Node]
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
    installed: Kubectl,
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


def test_the_listing_of_tenants(installed: Kubectl, prefix: str) -> None:
    def tenant(name: str, **spec: Any) -> Node:
        kind = {"apiVersion": "capsule.clastix.io/v1beta2", "kind": "Tenant"}
        return {**kind, "metadata": {"name": f"{prefix}-{name}"}, "spec": spec}

    own = [
        tenant("plain", owners=[{"kind": "User", "name": "alice"}]),
        tenant("quota", namespaceOptions={"quota": 3}, nodeSelector={"pool": "a"}),
    ]
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
