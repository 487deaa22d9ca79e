"""What `tenantry tenancy check` says of tenants: specs/capsule 1, 2, 4 and 10 are what Capsule does."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from tenantry.api.capsule import configuration, constants, tenant_owner
from tenantry.tenancy import promotions, state
from tenantry.tenancy.checking import findings, managed, spaces, tenants, views

Object = dict[str, Any]
UID = "u-oil"
#: Of `admin` to User alice, computed by Go's `hash/fnv` (tests/tenancy/test_bindings.py).
ALICE = "capsule:managed:f93a4d3523f699fb"


def encoded(obj: Object) -> bytes:
    return json.dumps(obj).encode()


def tenant(name: str = "oil", *, metadata: Object | None = None, **spec: Any) -> views.Tenant:
    return views.tenant_view(
        encoded({"metadata": {"name": name, "uid": f"u-{name}", **(metadata or {})}, "spec": spec})
    )


def space(
    name: str = "oil-prod",
    label: str | None = "oil",
    *references: tuple[str, str],
    labels: Object | None = None,
    managed_fields: list[Object] | None = None,
    **metadata: Any,
) -> views.Space:
    found: Object = {
        "name": name,
        "labels": {constants.NAME_LABEL: name, **(labels or {})},
        "ownerReferences": [
            {"apiVersion": constants.API_VERSION, "kind": "Tenant", "name": to, "uid": uid}
            for to, uid in references
        ],
        "managedFields": managed_fields or [],
        **metadata,
    }
    if label is not None:
        found["labels"][constants.TENANT_LABEL] = label
    kept = views.space_view(encoded({"metadata": found}))
    assert kept is not None
    return kept


def own(name: str = "oil-prod", **more: Any) -> views.Space:
    return space(name, "oil", ("oil", UID), **more)


def binding(
    name: str = ALICE,
    role: str = "admin",
    *,
    who: str = "alice",
    namespace: str = "oil-prod",
    managers: Iterable[str] = (),
    **labels: str,
) -> views.Binding:
    followed = {constants.MANAGED_BY_LABEL: "controller", constants.ROLE_BINDING_LABEL: "x"}
    return views.binding_view(
        encoded(
            {
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "labels": labels or followed,
                    "managedFields": [
                        {"manager": one, "operation": "Update", "fieldsV1": {}} for one in managers
                    ],
                },
                "roleRef": {"kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "User", "name": who}],
            }
        )
    )


def told(found: Iterable[findings.Finding]) -> list[tuple[str, str, str, str]]:
    return [(one.severity, one.kind, one.name, one.field) for one in findings.ordered(found)]


def only(found: Iterable[findings.Finding]) -> findings.Finding:
    (one,) = found
    return one


# ---- tenants ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        ({"owners": [{"kind": "User", "name": "alice"}], "cordoned": True}, []),
        (
            {"resourceQuotas": {"items": [{"hard": {"pods": "1"}}]}},
            [
                ("blocks", "spec.resourceQuotas"),
                ("note", "spec"),  # deprecated
            ],
        ),
        ({"fieldOfTomorrow": 1}, [("blocks", "spec.fieldOfTomorrow")]),
        (
            {"owners": [{"kind": "User", "name": "a", "proxySettings": [
                {"kind": "Nodes", "operations": ["List"]}]}]},
            [("blocks", "spec.owners[].proxySettings")],
        ),
        ({"owners": [{"kind": "ServiceAccount", "name": "robot"}]},
         [("blocks", "spec.owners[0].name")]),
        ({"owners": [{"kind": "User", "name": "a"}, {"kind": "User", "name": "a"}]},
         [("note", "spec.owners[1]")]),
        # RE2 knows no look-ahead.
        ({"storageClasses": {"allowedRegex": "(?=x)"}},
         [("blocks", "spec.storageClasses.allowedRegex"), ("note", "spec")]),
        ({"rules": [{"enforce": {"workloads": {"schedulers": [
            {"exact": ["{{ .tenant.metadata.name | nosuchfunction }}"]}]}}}]},
         [("blocks", "spec.rules[0].enforce.workloads.schedulers[0].exact[0]")]),
        ({"rules": [{}] * 501}, [("blocks", "spec.rules")]),
        # Defect 1: without a selector these admit everything; the others do not.
        ({"runtimeClasses": {"allowed": ["gvisor"]}}, [("changes", "spec.runtimeClasses")]),
        ({"deviceClasses": {"allowed": ["gpu"]}}, [("changes", "spec.deviceClasses")]),
        ({"runtimeClasses": {"allowed": ["gvisor"], "matchLabels": {"a": "b"}}}, []),
        ({"priorityClasses": {"allowed": ["high"]}}, []),
        # Defect 3.
        ({"priorityClasses": {"allowed": ["High", "low"]}},
         [("note", "spec.priorityClasses.allowed")]),
        ({"limitRanges": {"items": [{"limits": []}]}}, [("note", "spec")]),
    ],
)  # fmt: skip
def test_what_a_tenant_says(spec: Object, expected: list[tuple[str, str]]) -> None:
    found = tenants.examine(views.Tenancy(tenants=[tenant(**spec)]))
    assert [(severity, field) for severity, _, _, field in told(found)] == expected


def test_words_name_what_is_what_will_be_and_what_to_do() -> None:
    found = only(tenants.examine(views.Tenancy(tenants=[tenant(fieldOfTomorrow="x")])))
    assert found.place == "Tenant oil"
    assert found.then == "has no effect: what it limits or grants is no longer kept"
    assert found.remedy


def test_a_tenant_that_cannot_be_read_blocks() -> None:
    found = only(tenants.examine(views.Tenancy(tenants=[tenant(owners="alice")])))
    assert found.severity == "blocks"
    assert found.now.startswith("cannot be read: ")


def test_a_name_that_cannot_be_a_label_blocks() -> None:
    found = only(tenants.examine(views.Tenancy(tenants=[tenant("oil.eu")])))
    assert (found.severity, found.field) == ("blocks", "metadata.name")


def test_counted_custom_resources_block() -> None:
    key = "quota.resources.capsule.clastix.io/things.example.com_v1"
    found = [*tenants.examine(
        views.Tenancy(tenants=[tenant(metadata={"annotations": {key: "3"}})])
    )]  # fmt: skip
    assert ("blocks", "Tenant", "oil", "metadata.annotations") in told(found)
    assert key in findings.ordered(found)[0].now


@pytest.mark.parametrize(("annotated", "changes"), [(False, True), (True, False)])
def test_finalizers_of_a_tenant_being_deleted_stay(annotated: bool, changes: bool) -> None:
    metadata: Object = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    if annotated:
        metadata["annotations"] = {constants.STRIP_ANNOTATION: "true"}
    found = [*tenants.examine(views.Tenancy(tenants=[tenant(metadata=metadata)]))]
    assert bool(found) == changes


@pytest.mark.parametrize(("number", "noted"), [(1, False), (2, False), (3, True)])
def test_a_tenant_over_its_quota_is_noted(number: int, noted: bool) -> None:
    known = views.Tenancy(
        tenants=[tenant(namespaceOptions={"quota": 2})],
        spaces=[own(f"oil-{index}") for index in range(number)],
    )
    assert [one.severity for one in tenants.examine(known)] == ["note"] * noted


@pytest.mark.parametrize(
    ("role", "there", "almighty", "severity"),
    [
        ("admin", True, False, None),
        ("view", True, False, None),
        ("deployer", True, False, "blocks"),
        ("deployer", True, True, "changes"),
        ("aggregated", True, False, None),
        ("nowhere", False, False, "note"),
    ],
)
def test_roles_that_the_controller_may_not_give(
    role: str, there: bool, almighty: bool, severity: str | None
) -> None:
    known = views.Tenancy(
        tenants=[tenant(owners=[{"kind": "User", "name": "a", "clusterRoles": [role]}])],
        roles=[views.Role(name=role, aggregated=role == "aggregated")] if there else [],
        almighty=almighty,
    )
    found = [one for one in tenants.examine(known) if one.field.endswith("clusterRoles")]
    assert [one.severity for one in found] == ([severity] if severity else [])
    if severity in {"blocks", "changes"}:
        assert found[0].remedy == (
            f"kubectl label clusterrole {role} projectcapsule.dev/aggregate-to-controller=true"
        )


def test_a_command_to_copy_says_nothing_but_what_it_says() -> None:
    role = "x; kubectl delete namespaces --all"
    known = views.Tenancy(
        tenants=[tenant(owners=[{"kind": "User", "name": "a", "clusterRoles": [role]}])],
        roles=[views.Role(name=role, aggregated=False)],
    )
    assert f"clusterrole '{role}' " in only(tenants.examine(known)).remedy


def test_owners_that_are_objects_of_their_own() -> None:
    spec = {"kind": "ServiceAccount", "name": "robot", "clusterRoles": ["deployer", "admin"]}
    one = state.tenant_owner_view(encoded({"metadata": {"name": "ci"}, "spec": spec}))
    known = views.Tenancy(
        tenant_owners=[one], roles=[views.Role(name="deployer", aggregated=False)]
    )
    assert told(tenants.of_owners(known)) == [
        ("blocks", "TenantOwner", "ci", "spec.clusterRoles"),
        ("blocks", "TenantOwner", "ci", "spec.name"),
    ]


def test_many_problems_of_one_tenant_are_counted() -> None:
    bad = [{"kind": "ServiceAccount", "name": f"robot-{index}"} for index in range(50)]
    found = [*tenants.examine(views.Tenancy(tenants=[tenant(owners=bad)]))]
    assert len(found) == findings.MOST_OF_ONE + 1
    assert "and 40 more like these" in {one.now for one in found}


# ---- namespaces ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "severity"),
    [
        (own(), None),
        (space("a", None, ("oil", UID)), "blocks"),
        (space("a", "oil"), "changes"),
        (space("a", "oil", ("gas", "u-gas")), "blocks"),
        (space("a", "oil", ("oil", UID), ("gas", "u-gas")), "blocks"),
        (space("a", "oil", ("oil", "u-earlier")), "blocks"),
        (space("a", "water", ("water", "u-water")), "changes"),
    ],
)
def test_whose_a_namespace_is(found: views.Space, severity: str | None) -> None:
    known = views.Tenancy(tenants=[tenant(), tenant("gas")], spaces=[found])
    told = [one.severity for one in spaces.examine(known)]
    assert told == ([severity] if severity else [])


def test_a_namespace_without_a_tenant_is_not_looked_at() -> None:
    assert views.space_view(encoded({"metadata": {"name": "default"}})) is None


def test_a_restored_namespace_is_tied_anew_as_the_guide_says() -> None:
    known = views.Tenancy(tenants=[tenant()], spaces=[space("a", "oil", ("oil", "u-earlier"))])
    found = only(spaces.examine(known))
    assert found.field == "metadata.ownerReferences[].uid"
    assert found.remedy.endswith(
        'kubectl patch namespace a --type=merge -p \'{"metadata":{"ownerReferences":null}}\''
    )


def test_of_a_tenant_that_cannot_be_read_no_namespace_is_called_lost() -> None:
    known = views.Tenancy(tenants=[tenant(owners="alice")], spaces=[own()])
    assert [*spaces.examine(known)] == []


def test_protected_names_are_noted_and_vital_namespaces_change() -> None:
    known = views.Tenancy(
        config=configuration.CapsuleConfigurationSpec(protected_namespace_regex="^oil-"),
        tenants=[tenant()],
        spaces=[own(), own("kube-system"), own("capsule-system"), own("other")],
    )
    assert told(spaces.examine(known)) == [
        ("changes", "Namespace", "capsule-system", ""),
        ("changes", "Namespace", "kube-system", ""),
        ("note", "Namespace", "oil-prod", ""),
    ]


def test_labels_that_the_tenant_wants_and_namespaces_lack() -> None:
    known = views.Tenancy(
        tenants=[tenant(namespaceOptions={"additionalMetadata": {"labels": {"cost": "7"}}})],
        spaces=[own("oil-a", labels={"cost": "7"}), own("oil-b"), own("oil-c")],
    )
    found = only(spaces.examine(known))
    assert (found.severity, found.field) == ("changes", "namespaces: metadata.labels[cost]")
    assert found.now == "differs on 2 namespaces: oil-b, oil-c"


def test_labels_that_capsule_put_and_nobody_wants() -> None:
    wrote = {"manager": "capsule", "operation": "Update",
             "fieldsV1": {"f:metadata": {"f:labels": {"f:example.com/old": {}}}}}  # fmt: skip
    labels = {"example.com/old": "x"}
    theirs = {**wrote, "manager": "kubectl-label"}
    known = views.Tenancy(
        tenants=[tenant()],
        spaces=[
            own("oil-a", labels=labels, managed_fields=[wrote]),
            own("oil-b", labels=labels, managed_fields=[theirs]),
        ],
    )
    found = only(spaces.examine(known))
    assert found.field == "namespaces: metadata.labels[example.com/old]"
    assert found.now == "differs on 1 namespace: oil-a"
    assert found.then.startswith("goes: ")


# ---- what is managed ----------------------------------------------------------------------------

ALICE_ADMIN: Object = {"owners": [{"kind": "User", "name": "alice", "clusterRoles": ["admin"]}]}


def of_bindings(*there: views.Binding, **more: Any) -> list[findings.Finding]:
    known: dict[str, Any] = {"tenants": [tenant(**ALICE_ADMIN)], "spaces": [own()]}
    return [*managed.examine(views.Tenancy(bindings=there, **{**known, **more}))]


def test_bindings_that_stay_as_they_are_are_not_told() -> None:
    assert of_bindings(binding()) == []


def test_bindings_that_are_missing_wrong_or_too_many() -> None:
    assert [one.now for one in of_bindings()] == [
        f"1 RoleBinding is wanted and not there: oil-prod/{ALICE}"
    ]
    assert [one.now for one in of_bindings(binding(who="mallory"))] == [
        f"1 RoleBinding says something else than is wanted: oil-prod/{ALICE}"
    ]
    found = of_bindings(binding(), binding("a", who="bob"), binding("b", who="eve"))
    assert [(one.now, one.then) for one in found] == [
        ("2 RoleBindings are there and not wanted: oil-prod/a, oil-prod/b", "are deleted")
    ]


def test_bindings_of_0_11_are_told_to_go() -> None:
    old = {constants.ROLE_BINDING_LABEL: "0", constants.TENANT_LABEL: "oil"}
    found = only(of_bindings(binding(), binding("capsule-oil-0-admin", **old)))
    assert found.then == "is deleted"


def test_bindings_where_there_is_no_tenant() -> None:
    found = only(of_bindings(binding(), binding(namespace="elsewhere")))
    assert (found.kind, found.name) == ("RoleBinding", "*")
    assert found.now.endswith(f"elsewhere/{ALICE}")


def test_who_owns_by_other_ways_is_known() -> None:
    extra = state.tenant_owner_view(
        encoded(
            {
                "metadata": {"name": "x", "labels": {constants.MANAGED_TENANT_LABEL: "oil"}},
                "spec": {"kind": "User", "name": "alice", "clusterRoles": ["admin"]},
            }
        )
    )
    assert isinstance(extra, tenant_owner.TenantOwner)
    assert of_bindings(binding(), tenants=[tenant()], tenant_owners=[extra]) == []
    assert of_bindings(binding(), tenants=[tenant()]) != []


def test_without_all_owners_nobody_is_said_to_lose_access() -> None:
    for unread in ("tenant_owners", "promoted", "accounts"):
        assert of_bindings(binding("a", who="bob"), **{unread: None}) == []


def test_promoted_accounts_keep_their_roles() -> None:
    rule = {"permissions": {"promotions": [{"clusterRoles": ["view"]}]}}
    robot = promotions.Account(namespace="oil-prod", name="robot", labels={})
    found = of_bindings(tenants=[tenant(rules=[rule])], accounts=[robot])
    assert len(found) == 1
    assert found[0].now.startswith("1 RoleBinding is wanted")


def limit_range(name: str, spec: Object, *, namespace: str = "oil-prod") -> views.Copy:
    labels = {constants.MANAGED_BY_LABEL: "controller", constants.LIMIT_RANGE_LABEL: "0"}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return views.copy_view(encoded({"metadata": metadata, "spec": spec}))


LIMITS = {"limits": [{"type": "Container", "max": {"cpu": "1000m"}}]}


def stored(cpu: str) -> Object:
    """Return such limits as the API server writes them."""
    amounts = {field: {"cpu": cpu} for field in ("max", "default", "defaultRequest")}
    return {"limits": [{"type": "Container", **amounts}]}


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ([limit_range("capsule-oil-0", stored("1"))], []),
        ([limit_range("capsule-oil-0", stored("2"))], ["is put right"]),
        ([], ["is made"]),
        ([limit_range("capsule-oil-0", stored("1")), limit_range("capsule-oil-1", stored("1"))],
         ["is deleted"]),
    ],
)  # fmt: skip
def test_copied_objects(there: list[views.Copy], expected: list[str]) -> None:
    known = views.Tenancy(
        tenants=[tenant(limitRanges={"items": [LIMITS]})],
        spaces=[own()],
        copies={"limitranges": there, "networkpolicies": []},
    )
    assert [one.then for one in managed.examine(known)] == expected


def test_fields_that_change_hands_are_counted_by_kind() -> None:
    there = [binding(managers=["capsule"]), binding(managers=["cmd"], namespace="oil-dev")]
    found = of_bindings(*there, spaces=[own(), own("oil-dev")])
    one = only(found)
    assert (one.severity, one.kind, one.name) == ("note", "RoleBinding", "*")
    assert one.now == "2 objects with fields of manager capsule, cmd (Update)"
    assert of_bindings(binding(managers=["kubectl"])) == []


@pytest.mark.parametrize(
    ("found", "wanted", "same"),
    [
        ({"a": 1, "default": "x"}, {"a": 1}, True),
        ({}, {"a": []}, True),
        ({}, {"a": 0}, False),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": "1Gi"}, {"a": "1024Mi"}, True),
        ({"a": "1"}, {"a": 1}, True),
        ({"a": "x"}, {"a": "y"}, False),
    ],
)
def test_what_the_server_writes_in_its_own_words(found: Object, wanted: Object, same: bool) -> None:
    assert managed.covers(found, wanted) is same


# ---- words --------------------------------------------------------------------------------------


@pytest.mark.parametrize("letter", ["\x1b", "\r", "\n", "\x9b", "\x7f", "\u202e", "\u2028"])
def test_nothing_that_steers_a_terminal_is_printed(letter: str) -> None:
    hostile = tenant(owners=[{"kind": "ServiceAccount", "name": f"a{letter}[2Jb"}])
    found = only(tenants.examine(views.Tenancy(tenants=[hostile])))
    assert found.now.isprintable()
    assert letter.encode("unicode_escape").decode() in found.now


def test_a_megabyte_is_cut() -> None:
    hostile = tenant(owners=[{"kind": "ServiceAccount", "name": "a" * 2**20}])
    found = only(tenants.examine(views.Tenancy(tenants=[hostile])))
    assert len(found.now) <= findings.LONGEST


def test_the_worst_comes_first() -> None:
    def one(severity: findings.Severity) -> findings.Finding:
        return findings.Finding(severity=severity, kind="K", name="n", now="", then="")

    found = findings.ordered([one("note"), one("blocks"), one("changes")])
    assert [each.severity for each in found] == ["blocks", "changes", "note"]
