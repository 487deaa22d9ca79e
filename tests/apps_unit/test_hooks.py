"""Which requests come to the webhooks: security and liveness, said once and held here."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest

from tenantry.api.capsule import constants
from tenantry.apps import hooks, ownership_policy, settings

OWN = "capsule-system"
CONTROLLERS = settings.Settings().controllers
CLIENT = hooks.endpoint("", OWN, b"PEM")
OPERATIONS = {"CREATE", "UPDATE", "DELETE", "CONNECT"}

(VALIDATING_RESOURCE, VALIDATING), (MUTATING_RESOURCE, MUTATING) = hooks.configurations(
    CLIENT, OWN, CONTROLLERS
)
ALL: list[dict[str, Any]] = [*VALIDATING["webhooks"], *MUTATING["webhooks"]]
EACH = pytest.mark.parametrize("hook", ALL, ids=lambda hook: hook["name"])


def named(name: str) -> dict[str, Any]:
    (found,) = [hook for hook in ALL if hook["name"].startswith(name)]
    return found


def test_where_requests_go_outside_of_a_cluster() -> None:
    client = hooks.endpoint("https://127.0.0.1:9443/", OWN, b"PEM")
    assert client == {
        "url": "https://127.0.0.1:9443",
        "caBundle": base64.b64encode(b"PEM").decode(),
    }
    (_, validating), (_, mutating) = hooks.configurations(client, OWN, CONTROLLERS)
    assert {hook["clientConfig"]["url"] for hook in validating["webhooks"]} == {
        "https://127.0.0.1:9443/validate"
    }
    assert {hook["clientConfig"]["url"] for hook in mutating["webhooks"]} == {
        "https://127.0.0.1:9443/mutate"
    }
    assert hooks.server_names("https://127.0.0.1:9443/", OWN) == ["127.0.0.1"]
    assert hooks.server_names("https://hook.example.com/x", OWN) == ["hook.example.com"]


def test_where_requests_go_in_a_cluster() -> None:
    service = {"namespace": OWN, "name": "capsule-webhook-service", "port": 443}
    assert {str(hook["clientConfig"]["service"]) for hook in VALIDATING["webhooks"]} == {
        str({**service, "path": "/validate"})
    }
    assert {str(hook["clientConfig"]["service"]) for hook in MUTATING["webhooks"]} == {
        str({**service, "path": "/mutate"})
    }
    # The API server checks the certificate for `<service>.<namespace>.svc`.
    assert "capsule-webhook-service.capsule-system.svc" in hooks.server_names("", OWN)


def test_the_objects_themselves() -> None:
    assert (VALIDATING_RESOURCE.kind, VALIDATING["kind"]) == (
        "ValidatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    )
    assert (MUTATING_RESOURCE.kind, MUTATING["kind"]) == (
        "MutatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
    )
    for found in (VALIDATING, MUTATING):
        assert found["apiVersion"] == "admissionregistration.k8s.io/v1"
        assert found["metadata"]["labels"] == {"projectcapsule.dev/created-by": "controller"}


def test_names_are_unique_and_qualified_as_the_api_server_asks() -> None:
    names = [hook["name"] for hook in ALL]
    assert len(names) == len(set(names))
    # At least three segments of a DNS subdomain.
    assert all(re.fullmatch(r"[a-z]+\.[a-z]+\.tenantry\.io", name) for name in names)


@EACH
def test_every_hook_is_complete(hook: dict[str, Any]) -> None:
    assert hook["admissionReviewVersions"] == ["v1"]
    assert hook["sideEffects"] in {"None", "NoneOnDryRun"}
    assert hook["failurePolicy"] in {"Fail", "Ignore"}
    assert hook["matchPolicy"] == "Equivalent"
    # The quota ledger may use six seconds of it.
    assert 6 < hook["timeoutSeconds"] <= 30
    for rule in hook["rules"]:
        assert set(rule["operations"]) <= OPERATIONS
        assert rule["scope"] in {"Cluster", "Namespaced"}
        # Our own kinds come in the version that we read, whatever was sent.
        own = rule["apiGroups"] == ["capsule.clastix.io"]
        assert rule["apiVersions"] == (["v1beta2"] if own else ["*"])
    conditions = [condition["name"] for condition in hook["matchConditions"]]
    assert len(conditions) == len(set(conditions))


@EACH
def test_the_platforms_own_writes_are_not_asked_about(hook: dict[str, Any]) -> None:
    ours = hook["matchConditions"][0]
    assert ours["expression"] == (
        "!(request.userInfo.username in ['system:serviceaccount:capsule-system:capsule', "
        "'system:serviceaccount:capsule-system:tenantry-webhook'])"
    )


@EACH
def test_what_keeps_a_cluster_alive_is_outside_of_all_rules(hook: dict[str, Any]) -> None:
    for rule in hook["rules"]:
        if rule["scope"] == "Cluster":
            # Never nodes, never everything.
            assert set(rule["resources"]) <= {
                "namespaces", "namespaces/status", "namespaces/finalize", "tenants",
                "tenantowners", "capsuleconfigurations", "tenantnodepools",
            }  # fmt: skip
            continue
        # Whatever is namespaced: not in kube-system (leases of the control plane), not in ours.
        expressions = hook["namespaceSelector"]["matchExpressions"]
        assert {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": ["capsule-system", "kube-system"],
        } in expressions


@EACH
def test_only_what_carries_our_marks_is_asked_about_when_it_could_be_anything(
    hook: dict[str, Any],
) -> None:
    for rule in hook["rules"]:
        if "*/*" in rule["resources"]:
            marks = {
                **hook["namespaceSelector"].get("matchLabels", {}),
                **hook.get("objectSelector", {}).get("matchLabels", {}),
            }
            assert marks
            assert all(key.startswith("projectcapsule.dev/") for key in marks)


def test_nodes_report_also_from_frozen_namespaces() -> None:
    conditions = named("cordoning")["matchConditions"]
    assert "!('system:nodes' in request.userInfo.groups)" in {c["expression"] for c in conditions}


def test_hooks_that_write_events_say_so() -> None:
    writing = {hook["name"].partition(".")[0] for hook in ALL if hook["sideEffects"] != "None"}
    assert writing == {"namespaces", "cordoning", "serviceaccounts", "content"}


def test_masters_can_mend_what_the_cluster_rests_on() -> None:
    for name in ("namespaces.validating", "namespaces.mutating"):
        (condition,) = [
            c
            for c in named(name)["matchConditions"]
            if c["name"] == "not-a-master-at-a-vital-namespace"
        ]
        # A name alone lets nobody through, and what has no name yet is no error.
        assert condition["expression"] == (
            "!('system:masters' in request.userInfo.groups && has(request.name) && request.name "
            "in ['capsule-system', 'default', 'kube-node-lease', 'kube-public', 'kube-system'])"
        )


def test_ownership_is_asked_about_for_every_verb_and_subresource() -> None:
    (rule,) = named("namespaces.validating")["rules"]
    assert rule["resources"] == ["namespaces", "namespaces/status", "namespaces/finalize"]
    assert rule["operations"] == ["CREATE", "UPDATE", "DELETE"]
    assert named("namespaces.validating")["sideEffects"] == "NoneOnDryRun"
    (rule,) = named("namespaces.mutating")["rules"]
    assert rule["resources"] == ["namespaces"]
    assert rule["operations"] == ["CREATE", "UPDATE"]


def test_a_broken_webhook_keeps_neither_the_configuration_from_repair_nor_namespaces() -> None:
    ignoring = {hook["name"] for hook in ALL if hook["failurePolicy"] == "Ignore"}
    assert ignoring == {"configuration.validating.tenantry.io", "retention.validating.tenantry.io"}


def test_retention_asks_about_the_namespace_controller_only() -> None:
    hook = named("retention.validating")
    (condition,) = [c for c in hook["matchConditions"] if c["name"] == "the-namespace-controller"]
    assert condition["expression"] == (
        "request.userInfo.username in ['system:kube-controller-manager', "
        "'system:serviceaccount:kube-system:namespace-controller']"
    )
    (rule,) = hook["rules"]
    assert (rule["resources"], rule["operations"]) == (["rolebindings"], ["DELETE"])


def test_promotion_is_asked_about_when_either_label_comes_or_goes() -> None:
    (_, condition) = named("serviceaccounts")["matchConditions"]
    for obj in ("object", "oldObject"):
        for label in (constants.PROMOTE_OWNER_LABEL, constants.PROMOTE_LABEL):
            assert f"'{label}' in {obj}.metadata.labels" in condition["expression"]


def test_the_policy_that_holds_without_us() -> None:
    (_, policy), (_, binding) = ownership_policy.policies()
    assert binding["spec"] == {
        "policyName": policy["metadata"]["name"],
        "validationActions": ["Deny"],
    }
    spec = policy["spec"]
    assert spec["failurePolicy"] == "Fail"
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert rule["resources"] == ["namespaces", "namespaces/status", "namespaces/finalize"]
    assert rule["operations"] == ["CREATE", "UPDATE"]
    (validation,) = spec["validations"]
    assert "consistently or both be absent" in validation["message"]


def test_labels_of_anything_are_asked_about_for_those_who_have_rules_about_them() -> None:
    assert not [hook for hook in ALL if hook["name"].startswith("metadata")]
    for _, configuration in hooks.configurations(CLIENT, OWN, CONTROLLERS, ["oil", "gas"]):
        (hook,) = [one for one in configuration["webhooks"] if one["name"].startswith("metadata")]
        (rule,) = hook["rules"]
        assert (rule["apiGroups"], rule["resources"], rule["operations"]) == (
            ["*"],
            ["*"],
            ["CREATE", "UPDATE"],
        )
        chosen, elsewhere = hook["namespaceSelector"]["matchExpressions"]
        assert chosen == {
            "key": constants.TENANT_LABEL,
            "operator": "In",
            "values": ["gas", "oil"],
        }
        assert elsewhere["values"] == ["capsule-system", "kube-system"]
        # What the other hook asks about is not asked about twice.
        (twice,) = [c for c in hook["matchConditions"] if c["name"] == "not-asked-about-anyway"]
        (content,) = [o for o in configuration["webhooks"] if o["name"].startswith("content")]
        for asked in content["rules"]:
            group = asked["apiGroups"][0]
            names = [name for name in asked["resources"] if "/" not in name]
            assert f"request.resource.group == '{group}'" in twice["expression"]
            assert str(names) in twice["expression"]


def test_upstreams_paths_stay() -> None:
    paths = (*hooks.UPSTREAM_MUTATING, *hooks.UPSTREAM_VALIDATING)
    assert len(paths) == len(set(paths))
    assert {"/namespaces/mutating", "/namespaces/validating", "/tenants/validating"} <= set(paths)


def test_nodes_only_where_the_configuration_speaks_of_them() -> None:
    assert not any(hook["name"].startswith("nodes.") for hook in ALL)
    (_, validating), (_, mutating) = hooks.configurations(CLIENT, OWN, CONTROLLERS, nodes=True)
    (hook,) = [found for found in validating["webhooks"] if found["name"].startswith("nodes.")]
    assert not any(found["name"].startswith("nodes.") for found in mutating["webhooks"])
    (rule,) = hook["rules"]
    # Neither heartbeats (a subresource) nor new nodes, and kubelets are never asked about.
    assert (rule["resources"], rule["operations"]) == (["nodes"], ["UPDATE"])
    names = {condition["name"] for condition in hook["matchConditions"]}
    assert {"not-a-node", "not-a-master", "metadata-changes"} <= names
