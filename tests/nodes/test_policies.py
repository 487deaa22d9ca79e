"""What the policy about nodes guards."""

from __future__ import annotations

from typing import Any

import msgspec

from tenantry.api.tenantry import node_pool
from tenantry.nodes import policies


def pool(**spec: Any) -> node_pool.TenantNodePool:
    body = {"metadata": {"name": "p"}, "spec": {"tenant": "team", **spec}}
    return msgspec.convert(body, node_pool.TenantNodePool, strict=False)


def test_without_pools_it_is_what_every_pool_has() -> None:
    assert policies.keys([]) == policies.Keys()
    ((_, policy), _) = policies.policies(["system:serviceaccount:tenantry:webhook"])
    assert len(policy["spec"]["validations"]) == 3


def test_keys_of_pools_are_guarded_and_what_is_no_key_is_not_believed() -> None:
    selector = {
        "matchLabels": {"rack": "r7", "it's": "x", "team": "y"},
        "matchExpressions": [{"key": "example.com/gpu", "operator": "Exists"}, {}, {"key": 1}],
    }
    found = policies.keys(
        [pool(selector=selector, labelKey="team", taintKey="only"), pool(taintKey="a'] || [")]
    )
    assert found == policies.Keys(
        ("node-pool", "team", "tenantry.io/dedicated-to", "tenantry.io/node-pool"),
        ("only", "tenant-dedicated"),
        ("example.com/gpu", "rack"),
    )
    ((_, policy), _) = policies.policies([], found)
    texts = [one["expression"] for one in policy["spec"]["validations"]]
    assert "['example.com/gpu', 'rack'].all(" in texts[-1]
    assert "t.key in ['only', 'tenant-dedicated']" in texts[2]
