from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tenantry.api.capsule import (
    configuration,
    quantity_ledger,
    resources,
    rule_status,
    tenant,
    tenant_owner,
)
from tenantry.core import yamls

STRUCTS: dict[str, type[msgspec.Struct]] = {
    "Tenant": tenant.Tenant,
    "TenantOwner": tenant_owner.TenantOwner,
    "CapsuleConfiguration": configuration.CapsuleConfiguration,
    "QuantityLedger": quantity_ledger.QuantityLedger,
    "RuleStatus": rule_status.RuleStatus,
}
MANIFESTS = [
    document
    for path in sorted((Path(__file__).parents[2] / "fixtures" / "capsule").glob("*.yaml"))
    for document in yamls.read(path.read_text(encoding="utf-8"))
]


def lean(value: Any) -> Any:
    """Drop empty maps, lists and strings, nulls and false: what absence means as well."""
    if isinstance(value, dict):
        kept = {key: lean(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in ({}, [], "", None, False)}
    return [lean(item) for item in value] if isinstance(value, list) else value


def covers(decoded: Any, written: Any) -> bool:
    """Say whether all that is written is in `decoded`, which may hold defaults besides."""
    if isinstance(written, dict):
        return isinstance(decoded, dict) and all(
            key in decoded and covers(decoded[key], item) for key, item in written.items()
        )
    if isinstance(written, list):
        return len(decoded) == len(written) and all(map(covers, decoded, written))
    return bool(decoded == written)


def everything(value: Any) -> Any:
    """Encode Structs with all their fields, defaults included."""
    if isinstance(value, msgspec.Struct):
        return {
            field.encode_name: everything(getattr(value, field.name))
            for field in msgspec.structs.fields(value)
        }
    if isinstance(value, dict):
        return {key: everything(item) for key, item in value.items()}
    return [everything(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "manifest", MANIFESTS, ids=lambda m: f"{m['kind']}-{m['metadata']['name']}"
)
def test_decoding_loses_nothing_of_a_spec(manifest: dict[str, Any]) -> None:
    decoded = msgspec.json.decode(msgspec.json.encode(manifest), type=STRUCTS[manifest["kind"]])

    assert covers(everything(decoded)["spec"], lean(manifest.get("spec", {})))


@pytest.mark.parametrize("kind", STRUCTS)
def test_every_kind_has_its_place(kind: str) -> None:
    (place,) = [place for place in resources.ALL if place.kind == kind]

    assert place.api_version == "capsule.clastix.io/v1beta2"
    assert place.plural == {"RuleStatus": "rulestatuses"}.get(kind, f"{kind.lower()}s")


def test_paths_follow_the_scope() -> None:
    assert resources.TENANTS.path(name="solar") == "/apis/capsule.clastix.io/v1beta2/tenants/solar"
    assert resources.QUANTITY_LEDGERS.path("ns", "x", "status") == (
        "/apis/capsule.clastix.io/v1beta2/namespaces/ns/quantityledgers/x/status"
    )


def test_a_bare_tenant_has_its_defaults() -> None:
    bare = msgspec.json.decode(b'{"metadata":{"name":"a"}}', type=tenant.Tenant)

    assert bare.spec == tenant.TenantSpec()
    assert bare.spec.permissions.allow_owner_promotion
    assert bare.status.state == "Active"
    assert msgspec.json.encode(bare.status) == b"{}"


def test_unknown_fields_are_dropped_and_never_written_back() -> None:
    raw = b'{"metadata":{"name":"a"},"spec":{"owners":[{"kind":"User","name":"x","new":1}],"n":2}}'

    decoded = msgspec.json.decode(raw, type=tenant.Tenant)

    assert msgspec.json.decode(msgspec.json.encode(decoded.spec)) == {
        "owners": [
            {
                "kind": "User",
                "name": "x",
                "clusterRoles": ["admin", "capsule-namespace-deleter"],
            }
        ],
        "permissions": {},
    }


def test_what_an_older_schema_let_through_can_still_be_read() -> None:
    """Bounds are the API server's; a stored quota of 0 must not blind the controller."""
    raw = b'{"metadata":{"name":"a"},"spec":{"namespaceOptions":{"quota":0}}}'

    decoded = msgspec.json.decode(raw, type=tenant.Tenant)

    assert decoded.spec.namespace_options is not None
    assert decoded.spec.namespace_options.quota == 0


def test_defaults_are_not_shared_between_objects() -> None:
    first = tenant.Owner(kind="User", name="a")
    first.cluster_roles.append("view")
    first.labels["a"] = "b"

    second = tenant.Owner(kind="User", name="b")
    assert second.cluster_roles == ["admin", "capsule-namespace-deleter"]
    assert second.labels == {}


def test_a_wrong_enum_names_its_place() -> None:
    raw = b'{"metadata":{"name":"a"},"spec":{"owners":[{"kind":"Robot","name":"x"}]}}'

    with pytest.raises(msgspec.ValidationError, match=r"\$\.spec\.owners\[0\]\.kind"):
        msgspec.json.decode(raw, type=tenant.Tenant)
