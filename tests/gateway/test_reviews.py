from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tenantry.gateway import identity, reviews

from .conftest import Known, person, rule

ALICE = person("alice")
STRANGER = identity.Identity("eve", ("system:authenticated",))


def review(**attributes: str) -> bytes:
    return msgspec.json.encode(
        {
            "kind": "SelfSubjectAccessReview",
            "apiVersion": "authorization.k8s.io/v1",
            "spec": {"resourceAttributes": attributes},
            "status": {"allowed": False, "denied": True, "reason": "no RBAC"},
        }
    )


def answer(known: Known, who: identity.Identity, body: bytes) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(reviews.corrected(body, who, known.snapshot))
    return found


@pytest.mark.parametrize(
    ("attributes", "granted"),
    [
        ({"verb": "list", "resource": "namespaces"}, True),
        ({"verb": "watch", "resource": "namespaces"}, True),
        ({"verb": "list", "resource": "namespaces", "namespace": "default"}, True),
        ({"verb": "get", "resource": "namespaces"}, False),
        ({"verb": "create", "resource": "namespaces"}, False),
        ({"verb": "list", "resource": "namespaces", "subresource": "status"}, False),
        ({"verb": "list", "resource": "pods"}, True),
        ({"verb": "watch", "group": "apps", "resource": "deployments", "version": "v1"}, True),
        ({"verb": "list", "resource": "pods", "namespace": "wind-1"}, False),
        ({"verb": "get", "resource": "pods"}, False),
        ({"verb": "deletecollection", "resource": "pods"}, False),
        ({"verb": "*", "resource": "pods"}, False),
        ({"verb": "list", "resource": "*"}, False),
        ({"verb": "list", "group": "example.com", "resource": "widgets"}, True),
        ({"verb": "get", "group": "example.com", "resource": "widgets"}, True),
        ({"verb": "update", "group": "example.com", "resource": "widgets"}, False),
        ({"verb": "list", "resource": "nodes"}, False),
        ({"verb": "list", "group": "nobody.example", "resource": "things"}, False),
        ({"verb": "list", "group": "capsule.clastix.io", "resource": "tenants"}, True),
        (
            {"verb": "get", "group": "capsule.clastix.io", "resource": "tenants", "name": "wind"},
            False,
        ),
    ],
)
def test_reads_that_are_shown_are_granted(
    known: Known, attributes: dict[str, str], *, granted: bool
) -> None:
    known.rules(rule("alice", "example.com", "widgets", {"matchLabels": {"a": "b"}}))
    status = answer(known, ALICE, review(**attributes))["status"]
    assert status["allowed"] is granted
    if granted:
        assert status == {"allowed": True, "reason": "granted by capsule-proxy"}


def test_others_are_answered_as_the_api_server_did(known: Known) -> None:
    """Defect D8: everybody was told that they could list namespaces."""
    body = review(verb="list", resource="namespaces")
    assert reviews.corrected(body, STRANGER, known.snapshot) == body


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        b'{"kind":"Status","status":"Failure"}',
        b'{"kind":"SelfSubjectAccessReview","spec":{"nonResourceAttributes":{"path":"/x"}}}',
    ],
)
def test_anything_else_stays_as_it_is(known: Known, body: bytes) -> None:
    assert reviews.corrected(body, ALICE, known.snapshot) == body


def test_the_rules_review_gains_rules_and_keeps_its_own(known: Known) -> None:
    known.rules(
        rule("alice", "example.com/v1", "widgets", {"matchLabels": {"a": "b"}}),
        rule("alice", "", "nodes", {"matchLabels": {"a": "b"}}, operations=["Get"]),
    )
    body = msgspec.json.encode(
        {"kind": "SelfSubjectRulesReview", "status": {"resourceRules": [{"verbs": ["x"]}]}}
    )
    found = answer(known, ALICE, body)["status"]["resourceRules"]
    assert found[0] == {"verbs": ["x"]}
    granted = [(r["apiGroups"], r["resources"], r["verbs"]) for r in found[1:]]
    assert ([""], ["namespaces"], ["list", "watch"]) in granted
    assert (["example.com"], ["widgets"], ["get", "list", "watch"]) in granted
    assert ([""], ["nodes"], ["get"]) in granted
    assert not any({"create", "update", "delete", "*"} & set(verbs) for *_, verbs in granted)
