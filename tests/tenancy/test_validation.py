"""What the schema cannot say about Tenants, TenantOwners and the configuration: specs 5.7."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tenantry.api.capsule import configuration, tenant, tenant_owner
from tenantry.tenancy import validation


def tenant_of(spec: dict[str, Any], name: str = "oil") -> tenant.Tenant:
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, tenant.Tenant)


def owner(name: str = "alice", kind: str = "User", **more: Any) -> dict[str, Any]:
    return {"owners": [{"kind": kind, "name": name, **more}]}


def binding(*subjects: dict[str, str], role: str = "view", **more: Any) -> dict[str, Any]:
    entry = {"clusterRoleName": role, "subjects": list(subjects), **more}
    return {"additionalRoleBindings": [entry]}


def options(**found: Any) -> dict[str, Any]:
    return {"namespaceOptions": found}


BOB = {"kind": "User", "name": "bob"}
RBAC = "rbac.authorization.k8s.io"


@pytest.mark.parametrize(
    "spec",
    [
        {},
        owner(),
        owner("system:serviceaccount:ci:robot", "ServiceAccount"),
        owner("Jürgen Müller <j@example.com>"),
        owner(clusterRoles=["admin", "system:aggregate-to-view", "my role"], labels={"a": "b"}),
        owner(clusterRoles=[], annotations={"example.com/x": "any text at all"}),
        binding(BOB, {"kind": "Group", "name": "g", "apiGroup": RBAC}),
        binding({"kind": "ServiceAccount", "name": "robot", "namespace": "ci"}),
        # A RoleBinding's account without a namespace is that of the binding's own.
        binding({"kind": "ServiceAccount", "name": "default"}),
        {"nodeSelector": {"kubernetes.io/os": "linux", "pool": ""}},
        {"permissions": {"matchOwners": [{}, {"matchLabels": {"team": "a"}}]}},
        options(quota=3, forbiddenLabels={"denied": ["a"], "deniedRegex": "^evil/"}),
        options(requiredMetadata={"labels": {"cc": r"^\d+$"}, "annotations": {"Example.com/x": ""}}),
        options(additionalMetadata={"labels": {"a": "b"}, "annotations": {"x": "{{anything}}"}}),
        options(additionalMetadataList=[
            {"labels": {"t": "{{ tenant.name }}-{{namespace}}"}, "annotations": {"x": "{{namespace}}"},
             "namespaceSelector": {"matchLabels": {"env": "prod"}}}]),
        {"storageClasses": {"allowedRegex": "^fast"}, "containerRegistries": {"allowedRegex": "x"}},
        {"rules": [{}, {"namespaceSelector": {"matchLabels": {"a": "b"}},
                        "permissions": {"bindings": [
                            {"clusterRoleName": "view", "subjects": [BOB]}]}}]},
    ],
)  # fmt: skip
def test_good_tenants(spec: dict[str, Any]) -> None:
    assert validation.tenant_problems(tenant_of(spec)) == []


BAD_REGEX = "("


@pytest.mark.parametrize(
    ("spec", "path", "words"),
    [
        # Owners.
        (owner(""), "spec.owners[0].name", "must not be empty"),
        (owner("robot", "ServiceAccount"), "spec.owners[0].name",
         "system:serviceaccount:<namespace>:<name>"),
        (owner("system:serviceaccount:ci", "ServiceAccount"), "spec.owners[0].name",
         "a ServiceAccount must be named"),
        (owner("system:serviceaccount:ci:a:b", "ServiceAccount"), "spec.owners[0].name",
         "a ServiceAccount must be named"),
        (owner(clusterRoles=["view", "a/b"]), "spec.owners[0].clusterRoles[1]", "a ClusterRole"),
        (owner(clusterRoles=[""]), "spec.owners[0].clusterRoles[0]", "a ClusterRole"),
        (owner(clusterRoles=[".."]), "spec.owners[0].clusterRoles[0]", "a ClusterRole"),
        (owner(clusterRoles=["a%2Fb"]), "spec.owners[0].clusterRoles[0]", "a ClusterRole"),
        (owner(labels={"bad key": "x"}), "spec.owners[0].labels", "must be a key such as"),
        (owner(labels={"a": "bad value"}), "spec.owners[0].labels[a]", "at most 63 letters"),
        (owner(annotations={"bad key": "x"}), "spec.owners[0].annotations", "must be a key"),
        # Bindings.
        (binding(BOB, role=""), "spec.additionalRoleBindings[0].clusterRoleName", "a ClusterRole"),
        (binding(BOB, labels={"a": "-"}), "spec.additionalRoleBindings[0].labels[a]", "at most 63"),
        (binding({"kind": "Robot", "name": "x"}), "spec.additionalRoleBindings[0].subjects[0].kind",
         "must be one of User, Group, ServiceAccount"),
        (binding(BOB, {"kind": "User", "name": ""}),
         "spec.additionalRoleBindings[0].subjects[1].name", "must not be empty"),
        (binding({"kind": "Group", "name": "g", "apiGroup": "v1"}),
         "spec.additionalRoleBindings[0].subjects[0].apiGroup", f"must be {RBAC}"),
        (binding({"kind": "ServiceAccount", "name": "system:serviceaccount:ci:robot"}),
         "spec.additionalRoleBindings[0].subjects[0].name", "the account's name alone"),
        (binding({"kind": "ServiceAccount", "name": ""}),
         "spec.additionalRoleBindings[0].subjects[0].name", "the account's name alone"),
        # Rules.
        ({"rules": [{}, {"namespaceSelector": {"matchExpressions": [
            {"key": "a", "operator": "Is"}]}}]},
         "spec.rules[1].namespaceSelector.matchExpressions[0].operator", "must be one of In"),
        ({"rules": [{"permissions": {"bindings": [
            {"clusterRoleName": "x", "subjects": [{"kind": "X", "name": "y"}]}]}}]},
         "spec.rules[0].permissions.bindings[0].subjects[0].kind", "must be one of"),
        # Selectors and labels.
        ({"permissions": {"matchOwners": [{}, {"matchLabels": {"a": "bad value"}}]}},
         "spec.permissions.matchOwners[1].matchLabels[a]", "label value"),
        ({"nodeSelector": {"a": "x,y"}}, "spec.nodeSelector[a]", "at most 63 letters"),
        ({"nodeSelector": {"a=b": "x"}}, "spec.nodeSelector", "must be a key"),
        *(({field: {"additionalMetadata": {"labels": {"a": "b c"}}}},
           f"spec.{field}.additionalMetadata.labels[a]", "at most 63")
          for field in ("podOptions", "serviceOptions")),
        # Namespace options.
        (options(additionalMetadata={"labels": {"bad key": "x"}}),
         "spec.namespaceOptions.additionalMetadata.labels", "must be a key"),
        (options(additionalMetadata={"labels": {"a": "{{tenant.name}}"}}),
         "spec.namespaceOptions.additionalMetadata.labels[a]", "at most 63"),
        (options(additionalMetadata={"annotations": {"bad key": "x"}}),
         "spec.namespaceOptions.additionalMetadata.annotations", "must be a key"),
        (options(additionalMetadataList=[{}, {"labels": {"a": "{{unknown}}"}}]),
         "spec.namespaceOptions.additionalMetadataList[1].labels[a]", "at most 63"),
        (options(additionalMetadataList=[{"annotations": {"a": "{{tenant.name}} {{ unknown }}"}}]),
         "spec.namespaceOptions.additionalMetadataList[0].annotations[a]",
         "only {{tenant.name}} and {{namespace}} are filled in"),
        (options(additionalMetadataList=[{"labels": {"a": "-{{namespace}}"}}]),
         "spec.namespaceOptions.additionalMetadataList[0].labels[a]", "at most 63"),
        (options(additionalMetadataList=[{"namespaceSelector": {"matchLabels": {"": "x"}}}]),
         "spec.namespaceOptions.additionalMetadataList[0].namespaceSelector.matchLabels", "label key"),
        (options(additionalMetadata={"labels": {"capsule.clastix.io/tenant": "gas"}}),
         "spec.namespaceOptions.additionalMetadata.labels[capsule.clastix.io/tenant]",
         "ties a namespace to its tenant"),
        (options(additionalMetadataList=[{"labels": {"kubernetes.io/metadata.name": "x"}}]),
         "spec.namespaceOptions.additionalMetadataList[0].labels[kubernetes.io/metadata.name]",
         "ties a namespace to its tenant"),
        (options(additionalMetadata={
            "annotations": {"scheduler.alpha.kubernetes.io/node-selector": "a=b"}}),
         "spec.namespaceOptions.additionalMetadata.annotations"
         "[scheduler.alpha.kubernetes.io/node-selector]", "use spec.nodeSelector"),
        (options(requiredMetadata={"labels": {"bad key": "x"}}),
         "spec.namespaceOptions.requiredMetadata.labels", "must be a key"),
        (options(requiredMetadata={"annotations": {"bad key": "x"}}),
         "spec.namespaceOptions.requiredMetadata.annotations", "must be a key"),
        # Expressions, every place where one can stand.
        ({"storageClasses": {"allowedRegex": BAD_REGEX}}, "spec.storageClasses.allowedRegex",
         "unable to compile storageClasses allowedRegex: "),
        ({"runtimeClasses": {"allowedRegex": BAD_REGEX}}, "spec.runtimeClasses.allowedRegex", ""),
        ({"priorityClasses": {"allowedRegex": BAD_REGEX}}, "spec.priorityClasses.allowedRegex", ""),
        ({"deviceClasses": {"allowedRegex": BAD_REGEX}}, "spec.deviceClasses.allowedRegex", ""),
        ({"gatewayOptions": {"allowedClasses": {"allowedRegex": BAD_REGEX}}},
         "spec.gatewayOptions.allowedClasses.allowedRegex", ""),
        ({"ingressOptions": {"allowedClasses": {"allowedRegex": BAD_REGEX}}},
         "spec.ingressOptions.allowedClasses.allowedRegex",
         "unable to compile ingressClasses allowedRegex: "),
        ({"ingressOptions": {"allowedHostnames": {"allowedRegex": BAD_REGEX}}},
         "spec.ingressOptions.allowedHostnames.allowedRegex", ""),
        ({"containerRegistries": {"allowedRegex": BAD_REGEX}},
         "spec.containerRegistries.allowedRegex",
         "unable to compile containerRegistries allowedRegex: "),
        (options(forbiddenLabels={"deniedRegex": BAD_REGEX}),
         "spec.namespaceOptions.forbiddenLabels.deniedRegex",
         'unable to compile regex "(" for forbidden labels: '),
        (options(forbiddenAnnotations={"deniedRegex": BAD_REGEX}),
         "spec.namespaceOptions.forbiddenAnnotations.deniedRegex",
         'unable to compile regex "(" for forbidden annotations: '),
        ({"serviceOptions": {"forbiddenLabels": {"deniedRegex": BAD_REGEX}}},
         "spec.serviceOptions.forbiddenLabels.deniedRegex", ""),
        ({"serviceOptions": {"forbiddenAnnotations": {"deniedRegex": BAD_REGEX}}},
         "spec.serviceOptions.forbiddenAnnotations.deniedRegex", ""),
        (options(requiredMetadata={"labels": {"cc": BAD_REGEX}}),
         "spec.namespaceOptions.requiredMetadata.labels[cc]", ""),
        (options(requiredMetadata={"annotations": {"cc": r"(?=x)"}}),
         "spec.namespaceOptions.requiredMetadata.annotations[cc]", "RE2"),
    ],
)  # fmt: skip
def test_each_problem_names_its_place(spec: dict[str, Any], path: str, words: str) -> None:
    (problem,) = validation.tenant_problems(tenant_of(spec))
    assert f"{path}: " in problem
    assert words in problem


@pytest.mark.parametrize(
    ("name", "valid"),
    [("oil", True), ("a" * 63, True), ("a" * 64, False), ("oil.gas", False), ("Oil", False)],
)
def test_a_tenants_name_becomes_a_label_value_and_a_prefix(name: str, valid: bool) -> None:
    problems = validation.tenant_problems(tenant_of({}, name))
    assert (problems == []) is valid
    assert valid or problems[0].startswith(
        f'metadata.name: Invalid value: "{name}": must be at most'
    )


def test_a_label_is_judged_with_the_tenants_real_name() -> None:
    spec = options(additionalMetadataList=[{"labels": {"a": "{{tenant.name}}-and-more-text"}}])
    assert validation.tenant_problems(tenant_of(spec)) == []
    assert validation.tenant_problems(tenant_of(spec, "t" * 60)) != []


def test_all_problems_are_shown_at_once() -> None:
    spec = {**owner(""), "nodeSelector": {"bad key": "bad value"}}
    problems = validation.tenant_problems(tenant_of(spec, "Oil"))
    assert len(problems) == 4


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, 'Tenant "oil" is invalid: p0'),
        (2, 'Tenant "oil" is invalid: [p0, p1]'),
        (10, f'Tenant "oil" is invalid: [{", ".join(f"p{i}" for i in range(10))}]'),
        (12, f'Tenant "oil" is invalid: [{", ".join(f"p{i}" for i in range(10))}, and 2 more]'),
    ],
)
def test_message(count: int, expected: str) -> None:
    assert validation.message("Tenant", "oil", [f"p{i}" for i in range(count)]) == expected


def test_a_duplicate_owner_is_a_warning() -> None:
    spec = {"owners": [
        {"kind": "User", "name": "alice"},
        {"kind": "Group", "name": "alice"},
        {"kind": "User", "name": "alice", "clusterRoles": ["view"]},
        {"kind": "User", "name": "alice"},
    ]}  # fmt: skip
    found = tenant_of(spec)
    assert validation.tenant_problems(found) == []
    assert validation.tenant_warnings(found) == [
        'spec.owners[2]: Duplicate value: User "alice" is also spec.owners[0]; '
        "their cluster roles are merged",
        'spec.owners[3]: Duplicate value: User "alice" is also spec.owners[0]; '
        "their cluster roles are merged",
    ]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containerRegistries": {"allowed": ["docker.io"]}}, "spec.containerRegistries"),
        ({"resourceQuotas": {"scope": "Tenant", "items": [{"hard": {"pods": "1"}}]}},
         "spec.resourceQuotas"),
        ({"serviceOptions": {"allowedServices": {"nodePort": False}}}, "spec.serviceOptions"),
        ({"podOptions": {"additionalMetadata": {"labels": {"a": "b"}}}}, "spec.podOptions"),
        ({"limitRanges": {"items": [{"limits": []}]}}, "spec.limitRanges"),
        ({"networkPolicies": {"items": [{"podSelector": {}}]}}, "spec.networkPolicies"),
        ({"namespaceOptions": {"additionalMetadata": {"labels": {"a": "b"}}}},
         "spec.namespaceOptions.additionalMetadata"),
        ({"namespaceOptions": {"additionalMetadataList": [{"labels": {"a": "b"}}]}},
         "spec.namespaceOptions.additionalMetadataList"),
        ({"namespaceOptions": {"requiredMetadata": {"labels": {"a": "b"}}}},
         "spec.namespaceOptions.requiredMetadata"),
        ({"namespaceOptions": {"forbiddenLabels": {"denied": ["a"]}}},
         "spec.namespaceOptions.forbiddenLabels"),
        ({"namespaceOptions": {"forbiddenAnnotations": {"deniedRegex": "a"}}},
         "spec.namespaceOptions.forbiddenAnnotations"),
        ({"storageClasses": {"allowedRegex": "a"}}, "spec.storageClasses.allowedRegex"),
        ({"gatewayOptions": {"allowedClasses": {"allowedRegex": "a"}}},
         "spec.gatewayOptions.allowedClasses.allowedRegex"),
    ],
)  # fmt: skip
def test_deprecated_fields_are_named(spec: dict[str, Any], field: str) -> None:
    (warning,) = validation.tenant_warnings(tenant_of(spec))
    assert warning.startswith(f"{field} is deprecated")
    # What takes its place does nothing yet, and nobody shall find that out the hard way.
    if "favour" in warning:
        assert "no effect in this release yet" in warning


def test_what_is_not_deprecated_warns_of_nothing() -> None:
    spec: dict[str, Any] = {
        "namespaceOptions": {"quota": 3},
        "storageClasses": {"allowed": ["fast"]},
        "ingressOptions": {"allowedHostnames": {"allowedRegex": "a"}},
        "nodeSelector": {"a": "b"},
    }
    assert validation.tenant_warnings(tenant_of(spec)) == []


def test_counts_in_annotations_are_deprecated_too() -> None:
    found = tenant_of({})
    found.metadata.annotations["quota.resources.capsule.clastix.io/a.b_v1"] = "3"
    (warning,) = validation.tenant_warnings(found)
    assert "quota.resources.capsule.clastix.io/" in warning


def test_no_value_floods_a_message() -> None:
    (problem,) = validation.tenant_problems(tenant_of(owner("x" * 5000, "ServiceAccount")))
    assert len(problem) < 400


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"kind": "User", "name": "erin"}, None),
        ({"kind": "User", "name": ""}, "spec.name"),
        ({"kind": "ServiceAccount", "name": "robot"}, "spec.name"),
        ({"kind": "User", "name": "erin", "clusterRoles": ["a/b"]}, "spec.clusterRoles[0]"),
    ],
)
def test_tenant_owners(spec: dict[str, Any], path: str | None) -> None:
    found = msgspec.convert({"metadata": {"name": "x"}, "spec": spec}, tenant_owner.TenantOwner)
    problems = validation.tenant_owner_problems(found)
    assert [problem.partition(": ")[0] for problem in problems] == ([path] if path else [])


def configured(**spec: Any) -> configuration.CapsuleConfiguration:
    return msgspec.convert(
        {"metadata": {"name": "default"}, "spec": spec}, configuration.CapsuleConfiguration
    )


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, None),
        ({"protectedNamespaceRegex": "^(kube|capsule)-"}, None),
        ({"users": [{"kind": "Group", "name": "projectcapsule.dev"}]}, None),
        ({"nodeMetadata": {"forbiddenLabels": {"deniedRegex": "x"}}}, None),
        ({"nodeMetadata": {}}, None),
        ({"users": [BOB, {"kind": "ServiceAccount", "name": "x"}]}, "spec.users[1].name: "),
        ({"administrators": [{"kind": "User", "name": ""}]}, "spec.administrators[0].name: "),
        (
            {"protectedNamespaceRegex": "("},
            'spec.protectedNamespaceRegex "(" is not a valid regular expression: ',
        ),
        (
            {"nodeMetadata": {"forbiddenLabels": {"deniedRegex": "("}}},
            'spec.nodeMetadata.forbiddenLabels.regex "(" is not a valid regular expression: ',
        ),
        (
            {"nodeMetadata": {"forbiddenAnnotations": {"deniedRegex": "("}}},
            'spec.nodeMetadata.forbiddenAnnotations.regex "(" is not a valid',
        ),
        ({"rbac": {"administrationClusterRoles": ["a/b"]}}, "administrationClusterRoles[0]: "),
        ({"rbac": {"promotionClusterRoles": [""]}}, "spec.rbac.promotionClusterRoles[0]: "),
        ({"rbac": {"provisioner": "a/b"}}, "spec.rbac.provisioner: "),
        ({"rbac": {"deleter": ""}}, "spec.rbac.deleter: "),
        *(({"cacheInvalidation": text}, None) for text in ("24h0m0s", "1.5h", "30m", "0")),
        *(({"cacheInvalidation": text}, "spec.cacheInvalidation: ") for text in ("", "5", "1d")),
        ({"events": {"namespace": "a.b"}}, "spec.events.namespace: Invalid value: "),
        ({"rbac": {"deleter": "x", "provisioner": "x"}}, "must differ from spec.rbac.provisioner"),
        ({"impersonation": {"globalDefaultServiceAccount": "a"}}, "must both be set or both"),
        ({"impersonation": {"globalDefaultServiceAccountNamespace": "a"}}, "must both be set"),
        (
            {
                "impersonation": {
                    "globalDefaultServiceAccount": "a",
                    "globalDefaultServiceAccountNamespace": "b",
                }
            },
            None,
        ),
    ],
)
def test_the_configuration(spec: dict[str, Any], words: str | None) -> None:
    problems = validation.configuration_problems(configured(**spec))
    if words is None:
        assert problems == []
    else:
        (problem,) = problems
        assert words in problem


def test_deprecated_fields_of_the_configuration_are_warned_about() -> None:
    assert validation.configuration_warnings(configured(userNames=["a"], userGroups=["b"])) == [
        "spec.userNames is deprecated; use spec.users",
        "spec.userGroups is deprecated; use spec.users",
    ]
    assert validation.configuration_warnings(configured(users=[BOB])) == []
