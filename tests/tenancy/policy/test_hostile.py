"""What owners of tenants send to wear out the webhook: large objects against many rules."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from tenantry.runtime import admission, webhook
from tenantry.tenancy import rule_status, validation
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


def schedulers(*expressions: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a rule for each expression."""
    return [{"enforce": {"workloads": {"schedulers": [one]}}} for one in expressions]


def test_templates_and_expressions_are_bounded_together() -> None:
    for exact in ("{{ .namespace.metadata.name }}" + "x" * 300, "{{ `" + "x" * 330 + "` }}"):
        found = policies.a_tenant(rules=schedulers(*[{"exact": [exact]}] * 500))
        assert validation.tenant_problems(found) == [
            "spec.rules: Too long: templates must have at most 131072 characters together"
        ]
    for length, expression in enumerate(["a{1000}b{1000}c{1000}", "(((a{99}){99}){99}){99}"]):
        rules = schedulers(*({"exp": f"{expression}{'x' * n}"} for n in range(400)))
        began = time.process_time()
        assert validation.tenant_problems(policies.a_tenant(rules=rules)) == [
            "spec.rules: Too large: expressions must compile to at most 500000 instructions together "
            "(one that cannot be read counts as 20000): repeat less"
        ], length
        # Without the bound, the same for each of 400, and of each other Tenant.
        assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "text",
    [
        "{{ range until 40000 }}x{{ end }}",
        "{{ range until 1000000 }}{{ range until 1000000 }}x{{ end }}{{ end }}",
        "{{ range until 9999 }}{{ toYaml (list 1 2 3 4 5 6) }}{{ end }}",
    ],
)
def test_all_rules_of_a_namespace_share_what_their_templates_may_use(text: str) -> None:
    rules = schedulers(*[{"exact": [text]}] * 400)
    owner = policies.a_tenant(rules=rules)
    assert validation.tenant_problems(owner) == []
    began = time.process_time()
    compiled = policies.policy(rules=rules)
    told = rule_status.problem(owner, policies.a_namespace())
    filled = rule_status.filled(owner, {"rules": rules}, policies.a_namespace())
    # Each by itself would take its half minute.
    assert time.process_time() - began < 5
    assert "takes more than 30000 steps" in told or "builds more than 131072 characters" in told
    assert told == filled.problem
    pod = {"metadata": {}, "spec": {"schedulerName": "x", "containers": CONTAINERS[:1]}}
    review = policies.a_review("pods", pod, kind="Pod")
    decision = pods.VALIDATING.decide(review, policies.known(compiled))
    assert policies.message(decision), "what could not be filled refuses"


def test_many_templates_of_the_usual_kind_have_room() -> None:
    text = '{{ .namespace.metadata.labels.team | default "x" | lower }}-{{ .tenant.metadata.name }}'
    rules = schedulers(*[{"exact": [text]}] * 500)
    namespace = msgspec.structs.replace(
        policies.a_namespace(team="A"), raw=b'{"metadata":{"labels":{"team":"A"}}}'
    )
    owner = policies.a_tenant(rules=rules)
    assert validation.tenant_problems(owner) == []
    assert rule_status.problem(owner, namespace) == ""
    filled = rule_status.filled(owner, {"rules": rules}, namespace)
    assert filled.rules[499] == schedulers({"exact": ["a-oil"]})[0]


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
