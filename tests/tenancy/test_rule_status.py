from __future__ import annotations

from typing import Any

import msgspec

from tenantry.tenancy import markings, rule_status

from .policy import policies

NAMESPACE = msgspec.structs.replace(
    policies.a_namespace(env="prod"), raw=b'{"metadata":{"name":"oil-prod"}}'
)


def filled(*rules: dict[str, Any]) -> rule_status.Filled:
    owner = policies.a_tenant(rules=list(rules))
    return rule_status.filled(owner, {"rules": list(rules)}, NAMESPACE)


def test_the_rules_that_select_the_namespace_in_their_order() -> None:
    first = {"enforce": {"action": "deny", "services": {"types": ["NodePort"]}, "new": 1}}
    second = {
        "enforce": {"workloads": {"schedulers": [{"exact": ["{{ .tenant.metadata.name }}"]}]}},
        "audience": [{"kind": "User", "name": "{{ .namespace.metadata.name }}"}],
        "namespaceSelector": {"matchLabels": {"env": "prod"}},
        "permissions": {"bindings": []},
        "quota": [{"name": "q", "hard": {"cpu": 1}}],
    }
    elsewhere = {**first, "namespaceSelector": {"matchLabels": {"env": "test"}}}

    assert filled(first, elsewhere, {"permissions": {}}, second) == rule_status.Filled(
        [
            # What this release does not know of is not lost.
            first,
            {
                "enforce": {"workloads": {"schedulers": [{"exact": ["oil"]}]}},
                "audience": [{"kind": "User", "name": "oil-prod"}],
            },
        ]
    )


def test_a_rule_that_cannot_be_filled_is_named() -> None:
    bad = {"enforce": {"workloads": {"schedulers": [{"exact": ["{{ .tenant.nowhere }}"]}]}}}
    good = {"enforce": {"action": "audit"}}
    owner = policies.a_tenant(rules=[good, bad])

    found = filled(good, bad)
    assert found.rules == [good]
    assert found.problem.startswith("spec.rules[1]: ")
    assert "nowhere" in found.problem
    assert rule_status.problem(owner, NAMESPACE) == found.problem
    assert rule_status.problem(policies.a_tenant(rules=[good]), NAMESPACE) == ""


def test_who_needs_one() -> None:
    extra = {"additionalMetadata": {"labels": {"a": "b"}}}

    assert rule_status.is_needed(policies.a_tenant(rules=[{"enforce": {}}]))
    assert rule_status.is_needed(policies.a_tenant(podOptions=extra))
    assert rule_status.is_needed(policies.a_tenant(serviceOptions=extra))
    assert not rule_status.is_needed(policies.a_tenant(rules=[{"permissions": {}}], podOptions={}))


def test_it_is_named_and_labelled_as_the_original() -> None:
    marks: markings.Marks = {("", "Pod"): {"labels": {"a": "1"}}}
    record = markings.Record((marks,), "u2")
    wanted = rule_status.desired(policies.a_tenant(), "oil-prod", [], record)

    assert wanted["metadata"]["name"] == "capsule-managed-rules"
    assert wanted["metadata"]["labels"] == {
        "projectcapsule.dev/managed-by": "controller",
        "projectcapsule.dev/tenant": "oil",
        "projectcapsule.dev/name": "capsule-managed-rules",
    }
    (owner,) = wanted["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Tenant", "oil", "u1")
    assert owner["controller"]
    assert rule_status.record_of(wanted) == record
    bare = rule_status.desired(policies.a_tenant(), "n", [], markings.Record())
    assert "annotations" not in bare["metadata"]


def test_what_capsule_left_is_read_from_its_status() -> None:
    body = {"enforce": {"metadata": [{"kinds": ["Pod"], "labels": {"a": {"managed": "1"}}}]}}

    assert rule_status.record_of({"metadata": {}, "status": {"rules": [body]}}) == (
        markings.Record(({("", "Pod"): {"labels": {"a": "1"}}},))
    )
    assert rule_status.record_of(None) == markings.Record()


def test_each_namespace_has_a_field_manager_of_its_own() -> None:
    name = rule_status.manager("oil-prod")

    assert name.startswith("projectcapsule.dev/rulestatus-")
    assert len(name) == len("projectcapsule.dev/rulestatus-") + 8
    assert name != rule_status.manager("oil-test")
