"""Metrics of specs/capsule 6.2, from objects to samples."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from tenantry.api.capsule import configuration, tenant, tenant_owner
from tenantry.runtime import metrics
from tenantry.tenancy import measures


def condition(kind: str, status: str) -> dict[str, str]:
    return {"type": kind, "status": status}


def made(name: str, **more: Any) -> tenant.Tenant:
    return msgspec.convert({"metadata": {"name": name}, **more}, tenant.Tenant, strict=False)


OIL = made(
    "oil",
    spec={"namespaceOptions": {"quota": 5}},
    status={
        "size": 2,
        "conditions": [condition("Ready", "False"), condition("Cordoned", "True")],
        "spaces": [
            {"name": "oil-a", "conditions": [condition("Ready", "True")]},
            {"name": "oil-b", "conditions": [condition("Ready", "Unknown")]},
        ],
    },
)
NEW = made("new", spec={})


def test_of_tenants() -> None:
    both = [OIL, NEW]
    assert list(measures.relationships(both)) == [(("oil", "oil-a"), 1), (("oil", "oil-b"), 1)]
    assert list(measures.namespace_conditions(both)) == [
        (("oil", "oil-a", "Ready"), 1),
        (("oil", "oil-b", "Ready"), 0),
    ]
    assert list(measures.tenant_conditions(both)) == [
        (("oil", "Ready"), 0),
        (("oil", "Cordoned"), 1),
    ]
    assert list(measures.namespace_counts(both)) == [(("oil",), 2), (("new",), 0)]
    assert list(measures.usages(both)) == [(("oil", "namespaces", ""), 2)]
    assert list(measures.limits(both)) == [(("oil", "namespaces", ""), 5)]


def test_of_the_others() -> None:
    held = {"metadata": {"name": "x"}, "status": {"conditions": [condition("Ready", "True")]}}
    found = msgspec.convert(held, configuration.CapsuleConfiguration, strict=False)
    assert list(measures.configuration_conditions([found])) == [(("x", "Ready"), 1)]
    owner = msgspec.convert(
        {**held, "spec": {"kind": "User", "name": "a"}}, tenant_owner.TenantOwner, strict=False
    )
    assert list(measures.owner_conditions([owner])) == [(("x", "Ready"), 1)]


def test_of_rules_that_are_written_strangely() -> None:
    """Only the controller writes them, but a fault of one must not take all metrics away."""
    texts = (
        {"metadata": {"name": "r", "namespace": "a"}, "status": {"conditions": None}},
        {"metadata": {"name": "r", "namespace": "b"}, "spec": [{"unknown": 1}]},
        {
            "metadata": {"name": "r", "namespace": "c"},
            "status": {"rules": "x", "conditions": [condition("Ready", "True")]},
        },
    )
    found = measures.rule_conditions(json.dumps(each).encode() for each in texts)
    assert list(found) == [(("r", "c", "Ready"), 1)]


def test_looked_up_at_every_reading() -> None:
    held = {"a": 1.0}
    registry = metrics.Registry()
    registry.register(
        metrics.Observed(
            "x", "X.", ("of",), read=lambda: (((key,), each) for key, each in held.items())
        )
    )
    assert registry.exposition().splitlines()[1:] == ["# TYPE x gauge", 'x{of="a"} 1']
    held.clear()
    held['"'] = 2
    assert registry.exposition().splitlines()[2:] == ['x{of="\\""} 2']
