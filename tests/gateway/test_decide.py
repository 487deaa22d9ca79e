"""Each row of Capsule Proxy's module tables, and each of its defects, as a decision."""

from __future__ import annotations

from typing import Any

import pytest

from tenantry.gateway import decide, errors, identity, terms

from .conftest import USERS, Known, person, rule

ALICE, BOB, CAROL = person("alice"), person("bob"), person("carol")
STRANGER = identity.Identity("eve", ("system:authenticated",))
TENANT = "capsule.clastix.io/tenant"
NAME = "kubernetes.io/metadata.name"
TENANTS = "/apis/capsule.clastix.io/v1beta2/tenants"
STORAGE = "/apis/storage.k8s.io/v1/storageclasses"
NODES_LIST = {"proxySettings": [{"kind": "Nodes", "operations": ["List"]}]}


def listing(word: str, *operations: str) -> list[dict[str, Any]]:
    return [{"kind": word, "operations": list(operations or ("List",))}]


def owner(name: str, word: str, *operations: str) -> dict[str, Any]:
    return {"kind": "User", "name": name, "proxySettings": listing(word, *operations)}


def shown(decision: decide.Decision, name: str, **labels: str) -> bool:
    assert isinstance(decision, decide.Sieve)
    return terms.shows(decision.terms, name, labels)


# Namespaces.


@pytest.mark.parametrize("path", ["/api/v1/namespaces", "/api/v1/namespaces/"])
@pytest.mark.parametrize("query", ["", "?watch=true", "?limit=500"])
def test_namespaces_are_those_of_the_callers_tenants(known: Known, path: str, query: str) -> None:
    assert known.decide(ALICE, path + query) == decide.Filter(f"{TENANT} in (gas,oil)")
    assert known.decide(BOB, path + query) == decide.Filter(f"{TENANT} in (wind)")


def test_an_owner_by_group(known: Known) -> None:
    dave = person("dave", "gas-owners")
    assert known.decide(dave, "/api/v1/namespaces") == decide.Filter(f"{TENANT} in (gas)")


def test_a_service_account_owner(known: Known) -> None:
    account = "system:serviceaccount:oil-1:robot"
    known.tenant("sun", {"kind": "ServiceAccount", "name": account})
    who = identity.Identity(account, ("system:serviceaccounts", "system:authenticated"))
    assert known.decide(who, "/api/v1/namespaces") == decide.Filter(f"{TENANT} in (sun)")


def test_whoever_owns_nothing_sees_nothing(known: Known) -> None:
    assert known.decide(CAROL, "/api/v1/namespaces") == decide.Filter(terms.NOTHING)


def test_whoever_is_no_capsule_user_is_left_to_rbac(known: Known) -> None:
    assert known.decide(STRANGER, "/api/v1/namespaces") == decide.Pass()


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "HEAD"])
@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces",
        "/api/v1/namespaces/oil-1",
        "/api/v1/nodes",
        "/api/v1/nodes/n",
        STORAGE,
        TENANTS,
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/api/v1/pods",
    ],
)
def test_writes_are_always_the_callers_own(known: Known, method: str, path: str) -> None:
    """Defect D4: a collection for which the caller had no rule was written to as the proxy."""
    known.tenant("oil", owner("alice", "Nodes", "List", "Update", "Delete"))
    known.rules(rule("alice", "*", "*", {"matchLabels": {"a": "b"}}))
    assert known.decide(ALICE, path, method) == decide.Pass()


def test_a_namespace_is_seen_by_name_if_its_tenant_is_the_callers(known: Known) -> None:
    found = known.decide(ALICE, "/api/v1/namespaces/oil-1")
    assert found == decide.Sieve((), tenants=frozenset(("oil", "gas")), single=True)


def test_a_namespace_with_a_stolen_label_is_left_out(known: Known) -> None:
    known.namespace("impostor", label="oil")
    assert known.decide(ALICE, "/api/v1/namespaces") == decide.Filter(
        f"{TENANT} in (gas,oil),{NAME} notin (impostor)"
    )


def test_a_rule_adds_namespaces_and_what_is_listed_can_be_got(known: Known) -> None:
    """Defect D11: what a rule listed could not be got by name."""
    known.namespace("shared", labels={"public": "yes"})
    known.rules(rule("alice", "", "namespaces", {"matchLabels": {"public": "yes"}}))
    assert known.decide(ALICE, "/api/v1/namespaces") == decide.Filter(
        f"{NAME} in (gas-1,oil-1,oil-2,shared)"
    )
    found = known.decide(ALICE, "/api/v1/namespaces/shared")
    assert shown(found, "shared", public="yes")
    assert not shown(found, "kube-system")


def test_role_bindings_add_namespaces(known: Known) -> None:
    known.bound("kube-system", ("User", "alice"))
    known.bound("wind-1", ("Group", USERS))
    assert known.decide(ALICE, "/api/v1/namespaces") == decide.Filter(
        f"{NAME} in (gas-1,kube-system,oil-1,oil-2,wind-1)"
    )
    assert known.decide(CAROL, "/api/v1/pods") == decide.Fanout(("wind-1",))


# Tenants.


def test_tenants_are_the_callers(known: Known) -> None:
    found = known.decide(ALICE, TENANTS)
    assert [shown(found, name) for name in ("oil", "gas", "wind")] == [True, True, False]
    one = known.decide(ALICE, f"{TENANTS}/wind")
    assert isinstance(one, decide.Sieve)
    assert one.single
    assert not shown(one, "wind")


def test_a_tenant_called_global_is_like_any_other(known: Known) -> None:
    """Defect D7: subjects of GlobalProxySettings saw it."""
    known.tenant("global", "bob")
    known.namespace("global-1", "global")
    known.rules(rule("alice", "", "nodes", {"matchLabels": {"a": "b"}}))
    assert not shown(known.decide(ALICE, TENANTS), "global")
    assert known.decide(ALICE, "/api/v1/namespaces") == decide.Filter(f"{TENANT} in (gas,oil)")


# Nodes and their metrics.


@pytest.mark.parametrize("path", ["/api/v1/nodes", "/apis/metrics.k8s.io/v1beta1/nodes"])
def test_nodes_are_those_of_the_tenants_selector(known: Known, path: str) -> None:
    known.tenant("oil", owner("alice", "Nodes"), nodeSelector={"pool": "oil", "zone": "a"})
    assert known.decide(ALICE, path) == decide.Filter("pool=oil,zone=a")
    found = known.decide(ALICE, f"{path}/n1")
    assert shown(found, "n1", pool="oil", zone="a")
    assert not shown(found, "n1", pool="oil")


def test_nodes_of_two_tenants_are_an_alternative(known: Known) -> None:
    known.tenant("oil", owner("alice", "Nodes"), nodeSelector={"pool": "oil"})
    known.tenant("gas", owner("alice", "Nodes"), nodeSelector={"pool": "gas"})
    found = known.decide(ALICE, "/api/v1/nodes")
    assert shown(found, "a", pool="oil")
    assert shown(found, "b", pool="gas")
    assert not shown(found, "c", pool="wind")


def test_nodes_need_permission(known: Known) -> None:
    """Defect D3: every owner saw nodes, and all of them without a selector."""
    known.tenant("oil", "alice", nodeSelector={"pool": "oil"})
    assert known.decide(ALICE, "/api/v1/nodes") == decide.Pass()
    known.tenant("oil", owner("alice", "Nodes", "Update"), nodeSelector={"pool": "oil"})
    assert known.decide(ALICE, "/api/v1/nodes") == decide.Pass()


def test_who_was_given_the_nodes_of_a_tenant_without_a_selector_sees_all(known: Known) -> None:
    known.tenant("oil", owner("alice", "Nodes"))
    assert known.decide(ALICE, "/api/v1/nodes") == decide.Filter("")


# Classes and volumes.


@pytest.mark.parametrize(
    ("word", "path", "field"),
    [
        ("StorageClasses", STORAGE, "storageClasses"),
        ("IngressClasses", "/apis/networking.k8s.io/v1/ingressclasses", "ingress"),
        ("PriorityClasses", "/apis/scheduling.k8s.io/v1/priorityclasses", "priorityClasses"),
        ("RuntimeClasses", "/apis/node.k8s.io/v1/runtimeclasses", "runtimeClasses"),
    ],
)
def test_classes_by_name_expression_default_and_label(
    known: Known, word: str, path: str, field: str
) -> None:
    """Defect D10: exact names were searched in a list that was not sorted."""
    entry = {
        "allowed": ["zulu", "alpha", "mike"],
        "allowedRegex": "^fast-",
        "default": "standard",
        "matchLabels": {"for": "oil"},
    }
    spec = {"ingressOptions": {"allowedClasses": entry}} if field == "ingress" else {field: entry}
    known.tenant("oil", owner("alice", word), **spec)
    for found in (known.decide(ALICE, path), known.decide(ALICE, f"{path}/x")):
        for name in ("zulu", "alpha", "mike", "fast-1", "standard"):
            assert shown(found, name)
        assert shown(found, "any", **{"for": "oil"})
        assert not shown(found, "other")


def test_classes_by_label_alone_are_the_api_servers_to_filter(known: Known) -> None:
    expression = {"key": "tier", "operator": "In", "values": ["b", "a"]}
    entry = {"matchLabels": {"for": "oil"}, "matchExpressions": [expression]}
    known.tenant("oil", owner("alice", "StorageClasses"), storageClasses=entry)
    assert known.decide(ALICE, STORAGE) == decide.Filter("for=oil,tier in (a,b)")


def test_classes_without_permission_are_left_to_rbac(known: Known) -> None:
    known.tenant("oil", "alice", storageClasses={"allowed": ["fast"]})
    assert known.decide(ALICE, STORAGE) == decide.Pass()


def test_volumes_carry_the_tenants_label(known: Known) -> None:
    known.tenant("oil", owner("alice", "PersistentVolumes"))
    assert known.decide(ALICE, "/api/v1/persistentvolumes") == decide.Filter(f"{TENANT}=oil")
    found = known.decide(ALICE, "/api/v1/persistentvolumes/pv1")
    assert shown(found, "pv1", **{TENANT: "oil"})
    assert not shown(found, "pv1", **{TENANT: "wind"})


# Everything of a kind, in all the caller's namespaces.


@pytest.mark.parametrize(
    "path", ["/api/v1/pods", "/apis/apps/v1/deployments", "/api/v1/events", "/api/v1/pods/"]
)
def test_all_namespaces_are_the_callers_own(known: Known, path: str) -> None:
    """Defect D6: one namespace's review decided for the whole tenant."""
    assert known.decide(ALICE, path) == decide.Fanout(("gas-1", "oil-1", "oil-2"))
    assert known.decide(ALICE, f"{path}?watch=1") == decide.Fanout(("gas-1", "oil-1", "oil-2"))


def test_whoever_has_no_tenant_is_left_to_rbac(known: Known) -> None:
    assert known.decide(CAROL, "/api/v1/pods") == decide.Pass()


def test_a_kind_that_is_not_served_is_left_to_the_api_server(known: Known) -> None:
    assert known.decide(ALICE, "/apis/nobody.example/v1/things") == decide.Pass()


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/oil-1/pods",
        "/api/v1/namespaces/oil-1/pods/p/log?follow=true",
        "/api/v1/namespaces/oil-1/pods/p/exec",
        "/api/v1/namespaces/oil-1/status",
        "/api/v1/nodes/n/proxy/stats",
        "/api/v1/watch/namespaces",
        "/openapi/v2",
        "/version",
        "/api",
        "/apis",
        "/api/v1",
        "/healthz",
        "/API/v1/namespaces",
    ],
)
def test_the_rest_needs_no_identity(known: Known, path: str) -> None:
    request = decide.parse("GET", path)
    assert not decide.concerns(request)
    assert isinstance(known.decide(ALICE, path), decide.Pass)


# ProxySetting and GlobalProxySettings.


def test_a_subject_of_a_setting_sees_the_tenant_as_an_owner_does(known: Known) -> None:
    settings = listing("Nodes")
    known.tenant("oil", "alice", nodeSelector={"pool": "oil"})
    known.setting("oil-1", {"kind": "User", "name": "carol", "proxySettings": settings})
    assert known.decide(CAROL, "/api/v1/namespaces") == decide.Filter(f"{TENANT} in (oil)")
    assert known.decide(CAROL, "/api/v1/pods") == decide.Fanout(("oil-1", "oil-2"))
    assert known.decide(CAROL, "/api/v1/nodes") == decide.Filter("pool=oil")
    assert known.decide(ALICE, "/api/v1/nodes") == decide.Pass()


def test_a_setting_outside_any_tenant_means_nothing(known: Known) -> None:
    known.setting("kube-system", {"kind": "User", "name": "carol"})
    assert known.decide(CAROL, "/api/v1/namespaces") == decide.Filter(terms.NOTHING)


@pytest.mark.parametrize(
    ("groups", "resources", "matches"),
    [
        (["example.com"], ["widgets"], True),
        (["example.com/v1"], ["widgets"], True),
        (["example.com/*"], ["widgets"], True),
        (["*.com"], ["widgets"], True),
        (["ex*.com/v*"], ["widgets"], True),
        (["*"], ["*"], True),
        (["other", "example.com"], ["gadgets", "widgets"], True),
        (["example.com/v2"], ["widgets"], False),
        (["example"], ["widgets"], False),
        (["xample.com"], ["widgets"], False),
        (["example.com"], ["widget"], False),
        ([""], ["widgets"], False),
        ([], ["widgets"], False),
        (["example.com"], [], False),
        (["ex*ample"], ["widgets"], False),
    ],
)
def test_which_kinds_a_rule_is_about(
    known: Known, groups: list[str], resources: list[str], *, matches: bool
) -> None:
    selector = {"matchLabels": {"team": "a"}}
    given = rule("alice", "", "", selector)
    given["clusterResources"][0] |= {"apiGroups": groups, "resources": resources}
    known.rules(given)
    expected = decide.Filter("team=a") if matches else decide.Pass()
    assert known.decide(ALICE, "/apis/example.com/v1/widgets") == expected


@pytest.mark.parametrize("group", ["", "/v1", "*"])
def test_the_core_group_is_written_in_either_form(known: Known, group: str) -> None:
    known.rules(rule("alice", group, "nodes", {"matchLabels": {"a": "b"}}))
    assert known.decide(ALICE, "/api/v1/nodes") == decide.Filter("a=b")


def test_get_alone_does_not_list(known: Known) -> None:
    selector = {"matchLabels": {"a": "b"}}
    known.rules(rule("alice", "example.com", "widgets", selector, operations=["Get"]))
    assert known.decide(ALICE, "/apis/example.com/v1/widgets") == decide.Pass()
    assert shown(known.decide(ALICE, "/apis/example.com/v1/widgets/w"), "w", a="b")


@pytest.mark.parametrize("operations", [["Update"], ["List", "Delete"], []])
def test_words_of_the_older_schema_still_read(known: Known, operations: list[str]) -> None:
    selector = {"matchLabels": {"a": "b"}}
    known.rules(rule("alice", "example.com", "widgets", selector, operations=operations))
    assert known.decide(ALICE, "/apis/example.com/v1/widgets") == decide.Filter("a=b")


def test_rules_are_alternatives_of_conjunctions(known: Known) -> None:
    """Defect D5: any single requirement was enough to get, and lists made cross products."""
    both = {"matchLabels": {"team": "a", "tier": "gold"}}
    known.rules(
        rule("alice", "example.com", "widgets", both),
        rule("alice", "example.com", "widgets", {"matchLabels": {"team": "b"}}),
    )
    for path in ("/apis/example.com/v1/widgets", "/apis/example.com/v1/widgets/w"):
        found = known.decide(ALICE, path)
        assert shown(found, "w", team="a", tier="gold")
        assert shown(found, "w", team="b")
        assert not shown(found, "w", team="a")
        assert not shown(found, "w", tier="gold")


@pytest.mark.parametrize(
    "selector", [{}, {"matchExpressions": [{"key": "a", "operator": "Nonsense"}]}]
)
def test_an_empty_or_invalid_selector_selects_nothing(
    known: Known, selector: dict[str, Any]
) -> None:
    known.rules(rule("alice", "example.com", "widgets", selector))
    assert known.decide(ALICE, "/apis/example.com/v1/widgets") == decide.Filter(terms.NOTHING)


def test_legacy_words_and_rules_are_united(known: Known) -> None:
    known.tenant("oil", owner("alice", "StorageClasses"), storageClasses={"allowed": ["fast"]})
    known.rules(rule("alice", "storage.k8s.io", "storageclasses", {"matchLabels": {"a": "b"}}))
    found = known.decide(ALICE, STORAGE)
    assert shown(found, "fast")
    assert shown(found, "x", a="b")
    assert not shown(found, "x")


# Self reviews, ignored identities, upgrades.


@pytest.mark.parametrize("kind", ["selfsubjectaccessreviews", "selfsubjectrulesreviews"])
def test_self_reviews_of_capsule_users_are_corrected(known: Known, kind: str) -> None:
    """Defect D8: those of others were corrected too, though nothing is filtered for them."""
    path = f"/apis/authorization.k8s.io/v1/{kind}"
    assert known.decide(ALICE, path, "POST") == decide.Review()
    assert known.decide(STRANGER, path, "POST") == decide.Pass()


def test_ignored_identities_are_passed_on() -> None:
    known = Known(ignored_users=["alice"], ignored_groups=["operators"])
    known.tenant("oil", "alice", "bob")
    assert known.decide(ALICE, "/api/v1/namespaces") == decide.Pass()
    assert known.decide(person("bob", "operators"), "/api/v1/namespaces") == decide.Pass()
    assert known.decide(BOB, "/api/v1/namespaces") != decide.Pass()


def test_what_is_narrowed_is_watched_over_websocket_and_nothing_else(known: Known) -> None:
    paths = ("/api/v1/namespaces", "/api/v1/pods", "/api/v1/namespaces/oil-1")
    for path in paths:
        for query, served in (("", False), ("?watch=false", False), ("?watch=true", True)):
            request = decide.parse("GET", path + query, upgrade=True)
            plain = known.decide(ALICE, path + query)
            if served and path != paths[2]:
                # It is what it would be without.
                assert decide.decide(request, ALICE, known.snapshot) == plain
            else:
                with pytest.raises(errors.Malformed):
                    decide.decide(request, ALICE, known.snapshot)


def test_what_changes_is_seen_by_the_next_decision(known: Known) -> None:
    assert known.decide(ALICE, "/api/v1/namespaces") == decide.Filter(f"{TENANT} in (gas,oil)")
    known.tenant("oil", "bob")
    assert known.decide(ALICE, "/api/v1/namespaces") == decide.Filter(f"{TENANT} in (gas)")
    known.configure({"users": []})
    assert known.decide(ALICE, "/api/v1/namespaces") == decide.Pass()


@pytest.mark.parametrize(
    ("path", "gate"),
    [
        ("/api/v1/namespaces/n/pods/p", True),
        ("/apis/apps/v1/namespaces/n/deployments/d", True),
        ("/api/v1/namespaces/n/pods/p?watch=true", False),
        ("/api/v1/namespaces/n/pods", False),
        ("/api/v1/namespaces/n/pods/p/log", False),
        ("/api/v1/nodes/n/status", False),
    ],
)
def test_which_refusals_may_hide_a_missing_namespace(path: str, *, gate: bool) -> None:
    assert decide.passed(decide.parse("GET", path)) == decide.Pass(gate=gate)
    assert decide.passed(decide.parse("DELETE", path)) == decide.Pass()
