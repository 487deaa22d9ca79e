"""Copies in the words in which the API server keeps them (defaults of core/v1, networking/v1)."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.tenancy import families


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        # A limit that is missing is the maximum, a request the limit, or else the minimum.
        (
            {
                "type": "Container",
                "max": {"cpu": "2", "memory": "1Gi"},
                "default": {"cpu": "1000m"},
                "min": {"cpu": 0.1, "storage": "1024Mi"},
            },
            {
                "type": "Container",
                "max": {"cpu": "2", "memory": "1Gi"},
                "default": {"cpu": "1", "memory": "1Gi"},
                "defaultRequest": {"cpu": "1", "memory": "1Gi", "storage": "1Gi"},
                "min": {"cpu": "100m", "storage": "1Gi"},
            },
        ),
        (
            {"type": "Container", "default": {"cpu": 2}, "defaultRequest": {"cpu": "1"}, "max": {}},
            {"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}},
        ),
        # Of containers only.
        ({"type": "Pod", "max": {"cpu": "0.5"}}, {"type": "Pod", "max": {"cpu": "500m"}}),
        # What is wrong is for the API server to refuse.
        ({"type": "Pod", "max": {"cpu": "x"}}, {"type": "Pod", "max": {"cpu": "x"}}),
    ],
)
def test_limits(written: dict[str, Any], stored: dict[str, Any]) -> None:
    assert families.as_stored(families.LIMIT_RANGES, {"limits": [written]}) == {"limits": [stored]}


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ({}, {"podSelector": {}, "policyTypes": ["Ingress"]}),
        (
            {"podSelector": {}, "egress": [{}], "ingress": []},
            {"podSelector": {}, "egress": [{}], "policyTypes": ["Ingress", "Egress"]},
        ),
        (
            {
                "policyTypes": ["Egress"],
                "podSelector": {"matchLabels": {"a": "b"}},
                "egress": [
                    {"ports": [{"port": 53}, {"port": 53, "protocol": "UDP"}], "to": []},
                    {"to": [{"podSelector": {}}]},
                ],
            },
            {
                "policyTypes": ["Egress"],
                "podSelector": {"matchLabels": {"a": "b"}},
                "egress": [
                    {"ports": [{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]},
                    {"to": [{"podSelector": {}}]},
                ],
            },
        ),
    ],
)
def test_network_policies(written: dict[str, Any], stored: dict[str, Any]) -> None:
    assert families.as_stored(families.NETWORK_POLICIES, written) == stored
