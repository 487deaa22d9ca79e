from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tenantry.api.capsule import configuration, quantity_ledger, rule_status, tenant, tenant_owner

Node = dict[str, Any]
STRUCTS: dict[str, type[msgspec.Struct]] = {
    "Tenant": tenant.Tenant,
    "TenantOwner": tenant_owner.TenantOwner,
    "CapsuleConfiguration": configuration.CapsuleConfiguration,
    "QuantityLedger": quantity_ledger.QuantityLedger,
    "RuleStatus": rule_status.RuleStatus,
}


def fields(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """Give every field of a schema with its path; items are [], values of maps *."""
    for name, child in node.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield here, child
        if child.get("properties", {}).keys() != {"matchLabels", "matchExpressions"}:
            yield from fields(child, here)
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(node.get(key), dict):
            yield from fields(node[key], path + mark)


def used(value: Any, node: Node, path: str = "") -> Iterator[str]:
    """Give the path of every field that a manifest sets."""
    if isinstance(value, list):
        for item in value:
            yield from used(item, node.get("items", {}), f"{path}[]")
    elif isinstance(value, dict):
        for key, item in value.items():
            child = node.get("properties", {}).get(key)
            if child is not None:
                here = f"{path}.{key}" if path else key
                yield here
                yield from used(item, child, here)
            elif isinstance(node.get("additionalProperties"), dict):
                yield from used(item, node["additionalProperties"], f"{path}.*")


def test_columns_of_tenants_are_those_of_the_original(definitions: dict[str, Node]) -> None:
    columns = definitions["Tenant"]["spec"]["versions"][0]["additionalPrinterColumns"]

    assert [(c["name"].upper(), c["jsonPath"]) for c in columns] == [
        ("STATE", '.status.conditions[?(@.type=="Cordoned")].reason'),
        ("NAMESPACE QUOTA", ".spec.namespaceOptions.quota"),
        ("NAMESPACE COUNT", ".status.size"),
        ("NODE SELECTOR", ".spec.nodeSelector"),
        ("READY", '.status.conditions[?(@.type=="Ready")].status'),
        ("STATUS", '.status.conditions[?(@.type=="Ready")].message'),
        ("AGE", ".metadata.creationTimestamp"),
    ]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Tenant", ("tenants", "Cluster", ["tnt"])),
        ("TenantOwner", ("tenantowners", "Cluster", ["to"])),
        ("CapsuleConfiguration", ("capsuleconfigurations", "Cluster", None)),
        ("QuantityLedger", ("quantityledgers", "Namespaced", ["ql"])),
        ("RuleStatus", ("rulestatuses", "Namespaced", None)),
    ],
)
def test_names(definitions: dict[str, Node], kind: str, expected: tuple[object, ...]) -> None:
    spec = definitions[kind]["spec"]
    names = spec["names"]
    version, *others = spec["versions"]

    assert (names["plural"], spec["scope"], names.get("shortNames")) == expected
    assert definitions[kind]["metadata"]["name"] == f"{names['plural']}.capsule.clastix.io"
    assert (version["name"], version["served"], version["storage"]) == ("v1beta2", True, True)
    assert version["subresources"] == {"status": {}}
    # Whoever installs the kinds says nothing of who converts them.
    assert "conversion" not in spec
    assert [(v["name"], v["served"], v["storage"]) for v in others] == (
        [("v1beta1", True, False)] if kind == "Tenant" else []
    )


def test_columns_of_old_tenants_are_those_of_the_original(definitions: dict[str, Node]) -> None:
    columns = definitions["Tenant"]["spec"]["versions"][1]["additionalPrinterColumns"]

    assert [(c["name"].upper(), c["jsonPath"]) for c in columns] == [
        ("STATE", ".status.state"),
        ("NAMESPACE QUOTA", ".spec.namespaceOptions.quota"),
        ("NAMESPACE COUNT", ".status.size"),
        ("NODE SELECTOR", ".spec.nodeSelector"),
        ("AGE", ".metadata.creationTimestamp"),
    ]


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("TenantOwner", ["Ready", "Age"]),
        ("CapsuleConfiguration", ["Ready", "Status", "Age"]),
        ("QuantityLedger", ["TargetKind", "TargetNamespace", "TargetName", "Reserved", "Age"]),
    ],
)
def test_columns(definitions: dict[str, Node], kind: str, columns: list[str]) -> None:
    version = definitions[kind]["spec"]["versions"][0]

    assert [column["name"] for column in version["additionalPrinterColumns"]] == columns


def test_nothing_is_required_of_a_tenant(schemas: dict[str, Node]) -> None:
    tenants = schemas["Tenant"]

    assert "required" not in tenants
    assert "required" not in tenants["properties"]["spec"]


@pytest.mark.parametrize("kind", STRUCTS)
def test_every_field_is_explained(schemas: dict[str, Node], kind: str) -> None:
    own = {"apiVersion", "kind", "metadata"}
    silent = [
        path
        for path, node in fields(schemas[kind])
        if path not in own and path != "metadata.name" and not node.get("description", "").strip()
    ]

    assert silent == []


@pytest.mark.parametrize("kind", STRUCTS)
def test_texts_end_like_sentences_and_are_short(schemas: dict[str, Node], kind: str) -> None:
    for path, node in fields(schemas[kind]):
        text = node.get("description", ".")
        assert text.endswith("."), path
        assert len(text) < 320, path


@pytest.mark.parametrize("kind", STRUCTS)
def test_the_manifests_set_every_field_of_the_spec(
    schemas: dict[str, Node], manifests: list[Node], kind: str
) -> None:
    spec = schemas[kind]["properties"]["spec"]
    known = {path for path, _ in fields(spec)}
    seen = {
        path
        for manifest in manifests
        if manifest["kind"] == kind
        for path in used(manifest.get("spec", {}), spec)
    }

    # A webhook is reached by url or by service; the manifest shows each once.
    either = {path for path in known if path.startswith("admission.mutating.client.url")}
    either |= {path for path in known if path.startswith("admission.validating.client.service")}
    assert known - seen == either


@pytest.mark.parametrize("kind", STRUCTS)
def test_python_and_the_schema_agree_on_defaults(schemas: dict[str, Node], kind: str) -> None:
    """What the API server fills in and what decoding fills in are the same value."""

    def compare(struct: type[msgspec.Struct], node: Node, path: str) -> None:
        for field in msgspec.structs.fields(struct):
            child = node["properties"].get(field.encode_name, {})
            value = field.default
            if field.default_factory is not msgspec.NODEFAULT:
                value = field.default_factory()
            here = f"{path}.{field.encode_name}"
            if isinstance(value, msgspec.Struct):
                if "properties" in child and field.encode_name != "metadata":
                    compare(type(value), child, here)
                    given = msgspec.convert(child.get("default", {}), type(value))
                    assert given == value, here
            elif "default" in child:
                assert value == child["default"], here
            else:
                assert value is msgspec.NODEFAULT or not value, here

    compare(STRUCTS[kind], schemas[kind], kind)


def test_enums_keep_the_order_in_which_they_are_declared(schemas: dict[str, Node]) -> None:
    by_path = dict(fields(schemas["Tenant"]))

    assert by_path["spec.ingressOptions.hostnameCollisionScope"]["enum"] == [
        "Cluster", "Tenant", "Namespace", "Disabled",
    ]  # fmt: skip
    assert by_path["spec.rules[].enforce.workloads.resources.limits.*.policy"]["enum"] == [
        "Preserve", "Default", "Remove", "MatchRequest", "Ratio",
    ]  # fmt: skip
