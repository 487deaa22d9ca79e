"""Rules that can mean nothing are refused, with field, value and what is accepted."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tenantry.api.capsule import rules
from tenantry.tenancy.policy import validating


def problems(enforce: dict[str, Any], **more: Any) -> list[str]:
    rule = msgspec.convert({"enforce": enforce, **more}, rules.Rule, strict=False)
    return validating.problems([rule], "spec.rules")


@pytest.mark.parametrize(
    "enforce",
    [
        {},
        {"workloads": {"registries": [{"exp": "^r[.]io/", "policy": ["Always"]}]}},
        {"workloads": {"targets": ["pod/volumes"], "registries": [{"exact": ["a"]}]}},
        {"workloads": {"targets": ["pod", "pod/containers"],
                       "resources": {"limits": {"cpu": {"policy": "Ratio", "value": "1.5"}}}}},
        {"workloads": {"qosClasses": ["{{ .tenant.spec.data.qos }}"]}},
        {"services": {"loadBalancers": {"cidrs": ["10.0.0.0/8", "{{ .tenant.spec.data.net }}"]}}},
        {"ingress": {"types": ["Ingress"], "hostnames": [{"exp": "{{ .namespace.metadata.name }}$"}]}},
        {"metadata": [{"kinds": ["*"], "labels": {"a/*": {"required": True}}}]},
        {"metadata": [{"kinds": ["Deployment", "Pod"], "apiGroups": ["v1", "apps/v1"],
                       "labels": {"a": {}}}]},
        {"metadata": [{"kinds": ["Namespace", "ServiceAccount", "N*"], "apiGroups": ["v1"],
                       "labels": {"a": {}}}]},
        {"metadata": [{"kinds": ["Pod"], "labels": {"a": {"managed": "{{ .tenant.metadata.name }}"}}}]},
    ],
)  # fmt: skip
def test_what_is_fine(enforce: dict[str, Any]) -> None:
    assert problems(enforce) == []


@pytest.mark.parametrize(
    ("enforce", "words"),
    [
        ({"workloads": {"registries": [{"exp": "("}]}},
         'spec.rules[0].enforce.workloads.registries[0].exp: Invalid value: "(": must be a valid'),
        ({"workloads": {"registries": [{}]}}, "at least one of exact and exp must be set"),
        ({"workloads": {"registries": [{"exp": "a", "policy": ["Sometimes"]}]}},
         'registries[0].policy: Unsupported value: "Sometimes": must be one of Always'),
        ({"workloads": {"registries": [{"exp": "{{ if }}"}]}}, "line 1:"),
        ({"workloads": {"schedulers": [{"exact": ["{{ nobody 1 }}"]}]}}, "exact[0]: Invalid value"),
        ({"workloads": {"qosClasses": ["Best"]}}, "must be one of Guaranteed"),
        ({"workloads": {"targets": ["pod"], "registries": [{"exp": "a"}]}},
         "enforce.workloads.targets: Invalid value: pod: registries can only be about"),
        ({"workloads": {"targets": ["pod/volumes"],
                        "resources": {"requests": {"cpu": {"policy": "Remove"}}}}},
         "resources can only be about pod, pod/containers"),
        ({"workloads": {"resources": {"requests": {"cpu": {"policy": "Default"}}}}},
         "requests[cpu].value"),
        ({"workloads": {"resources": {"limits": {"cpu": {"policy": "Remove", "value": "1"}}}}},
         "must be set with policy Default or Ratio, and only then"),
        ({"workloads": {"resources": {"limits": {"cpu": {"policy": "Ratio", "value": "0.5"}}}}},
         "a ratio must be at least 1"),
        ({"workloads": {"resources": {"limits": {"x/gpu": {"policy": "Ratio", "value": "2"}}}}},
         "is only for cpu, memory, ephemeral-storage"),
        ({"workloads": {"resources": {"limits": {"cpu": {"policy": "Default", "value": "many"}}}}},
         "must be a quantity"),
        ({"services": {"loadBalancers": {"cidrs": ["10.0.0.300/8"]}}}, "an address or a network"),
        ({"services": {"nodePorts": {"ports": [{"from": 9, "to": 8}]}}}, "from must not be above to"),
        ({"ingress": {"types": ["Ingress"]}}, "ingress.hostnames: Required value"),
        ({"ingress": {"hostnames": [{"exp": "a"}]}}, "ingress.types: Required value"),
        ({"metadata": [{"kinds": ["Pod"], "labels": {"a*": {"default": "x"}}}]}, "needs one key"),
        ({"metadata": [{"kinds": ["P*"], "labels": {"a": {"managed": "x"}}}]}, "concrete kinds"),
        ({"metadata": [{"kinds": ["Pod", "Deployment"], "labels": {"a": {}}}]},
         'metadata[0].kinds[1]: Invalid value: "Deployment": is no kind of v1'),
        ({"metadata": [{"kinds": ["Node"], "apiGroups": ["v1"], "labels": {"a": {}}}]},
         'metadata[0].kinds[0]: Invalid value: "Node": is no kind of v1 that namespaces hold'),
        ({"metadata": [{"kinds": ["pod"], "labels": {"a": {}}}]}, 'kinds[0]: Invalid value: "pod"'),
        ({"metadata": [{"kinds": ["Pod"], "labels": {"(": {}}}]}, "labels[(]: Invalid value"),
    ],
)  # fmt: skip
def test_what_is_refused(enforce: dict[str, Any], words: str) -> None:
    (problem,) = problems(enforce)
    assert problem.startswith("spec.rules[0].enforce.")
    assert words in problem


def test_audiences() -> None:
    (problem,) = problems({}, audience=[{"kind": "Custom", "name": "Everybody"}])
    assert problem == (
        'spec.rules[0].audience[0].name: Unsupported value: "Everybody": must be one of '
        "CapsuleUser, Administrator, TenantOwner, Controller"
    )
    assert problems({}, audience=[{"kind": "User", "name": ""}]) != []
    assert problems({}, audience=[{"kind": "Custom", "name": "TenantOwner"}]) == []
