"""What owners of tenants send to wear out the webhook: large objects against many rules."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from tenantry.runtime import admission, webhook
from tenantry.tenancy import validation
from tenantry.tenancy.admission import labelling, pods
from tenantry.tenancy.policy import engine, validating

from . import policies

#: As many as a Tenant may have.
RULES: list[dict[str, Any]] = [
    {
        "enforce": {
            "action": "deny",
            "metadata": [
                {"kinds": ["Pod"], "annotations": {f"k{n}.*": {"values": [{"exp": "^bad"}]}}}
            ],
            "workloads": {
                "registries": [{"exp": f"^bad-{n}"}],
                "resources": {"requests": {"cpu": {"policy": "Remove"}}},
            },
        }
    }
    for n in range(validating.MOST_RULES)
]
NEEDED = [
    {
        "enforce": {
            "action": "allow",
            "metadata": [{"kinds": ["Pod"], "annotations": {f"a-{n}.*": {"required": True}}}],
        }
    }
    for n in range(validating.MOST_RULES)
]
CONTAINERS = [
    {"name": f"c{n}", "image": f"r.io/{n}", "imagePullPolicy": "Always"} for n in range(10_000)
]


def timed(step: admission.Step[Any], obj: dict[str, Any], rules: list[dict[str, Any]]) -> str:
    known = policies.known(policies.policy(rules=rules))
    review = policies.a_review("pods", obj, kind="Pod")
    began = time.process_time()
    decision = step.decide(review, known)
    # Without the bound it takes half a minute; with it, some tenths of a second.
    assert time.process_time() - began < 5
    return policies.message(decision)


@pytest.mark.parametrize(
    ("step", "obj", "rules"),
    [
        (labelling.VALIDATING[0], {"metadata": {"annotations": {f"a-{n}": "v" for n in range(20_000)}}}, RULES),
        (labelling.VALIDATING[0], {"metadata": {"annotations": {f"a-{n}": "v" for n in range(20_000)}}}, NEEDED),
        (pods.VALIDATING, {"metadata": {}, "spec": {"containers": CONTAINERS}}, RULES),
        (pods.VALIDATING, {"metadata": {}, "spec": {"containers": CONTAINERS}},
         [{"enforce": {"action": "deny", "workloads": {"resources": {"limits": {f"x.io/{n}": {"policy": "Remove"} for n in range(1000)}}}}}]),
    ],
)  # fmt: skip
def test_an_object_with_more_than_can_be_compared_is_refused(
    step: admission.Step[Any], obj: dict[str, Any], rules: list[dict[str, Any]]
) -> None:
    assert timed(step, obj, rules) == engine.TOO_MUCH


def test_what_is_refused_for_its_size_was_not_filled_for_long() -> None:
    limits = {f"x.io/{n}": {"policy": "Default", "value": "1"} for n in range(1000)}
    rules = [{"enforce": {"workloads": {"resources": {"limits": limits}}}}]
    timed(pods.MUTATING, {"metadata": {}, "spec": {"containers": CONTAINERS}}, rules)


def test_a_common_object_has_room_under_as_many_rules_as_there_may_be() -> None:
    obj = {
        "metadata": {"annotations": {f"a-{n}": "v" for n in range(20)}},
        "spec": {"containers": CONTAINERS[:10]},
    }
    for step in (labelling.VALIDATING[0], pods.VALIDATING):
        assert timed(step, obj, RULES) == ""


def test_more_rules_than_can_be_looked_at_are_refused() -> None:
    rule: dict[str, Any] = {"enforce": {"action": "audit"}}
    found = validation.tenant_problems(policies.a_tenant(rules=[rule] * 10_000))
    assert found == ["spec.rules: Too many: 10000: must have at most 500 items"]
    labels = {f"k{n}": {"values": [{"exact": ["a"]}]} for n in range(1_001)}
    entry = {"enforce": {"metadata": [{"kinds": ["Pod"], "labels": labels}]}}
    assert validation.tenant_problems(policies.a_tenant(rules=[entry])) == [
        "spec.rules: Too many: 2002: must hold at most 2000 expressions, keys of metadata and "
        "resources together"
    ]
    assert validation.tenant_problems(policies.a_tenant(rules=RULES)) == []


def test_deep_nesting_is_refused_and_breaks_nothing() -> None:
    deep = b'{"a":' * 20_000 + b"1" + b"}" * 20_000
    review = msgspec.json.encode(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "u",
                "kind": {"group": "x.io", "version": "v1", "kind": "Thing"},
                "resource": {"group": "x.io", "version": "v1", "resource": "things"},
                "operation": "CREATE",
                "userInfo": {},
                "object": msgspec.Raw(deep),
            },
        }
    )
    with pytest.raises(ValueError, match="recursion"):
        webhook.decode(review)


@pytest.mark.parametrize(
    "expression", ["(((a{1,99}){1,99}){1,99}){1,99}", "a{1000}{1000}", "x" * 5000]
)
def test_expressions_that_grow_are_refused(expression: str) -> None:
    rule = {"enforce": {"workloads": {"registries": [{"exp": expression}]}}}
    (problem,) = validation.tenant_problems(policies.a_tenant(rules=[rule]))
    assert problem.startswith("spec.rules[0].enforce.workloads.registries[0].exp: Invalid value")
