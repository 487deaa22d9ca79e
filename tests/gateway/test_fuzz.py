"""Requests that nobody would send, to find a decision that nobody would want."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenantry.gateway import decide, errors

from .conftest import Known, person, rule

#: Seconds of a long run.
SECONDS = 60.0
WORDS = [
        "api", "apis", "v1", "namespaces", "nodes", "pods", "oil-1", "wind-1", "kube-system",
        "capsule.clastix.io", "v1beta2", "tenants", "oil", "wind", "storage.k8s.io",
        "storageclasses", "authorization.k8s.io", "selfsubjectaccessreviews", "status", "watch",
        "..", ".", "", "%2e", "%2F", "a;b", "proxy", "exec", "N", "nodes ", "metrics.k8s.io",
]  # fmt: skip
PATHS = st.lists(st.sampled_from(WORDS), max_size=9).map(lambda parts: "/" + "/".join(parts))
QUERIES = st.one_of(
    st.just(""),
    st.text("watch=true&labelSelector=()!,%20in;\x7f\u00e9", max_size=60).map(lambda q: "?" + q),
)
METHODS = st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])


def world() -> Known:
    known = Known()
    known.tenant(
        "oil",
        {"kind": "User", "name": "alice", "proxySettings": [
            {"kind": "Nodes", "operations": ["List", "Update", "Delete"]}]},
        nodeSelector={"pool": "oil"},
    )  # fmt: skip
    known.tenant("wind", "bob")
    known.namespace("oil-1", "oil")
    known.namespace("wind-1", "wind")
    known.rules(rule("carol", "*", "*", {"matchLabels": {"public": "yes"}}))
    return known


KNOWN = world()


def check(method: str, target: str, who: str) -> None:
    """Decide; whatever comes out may not let anybody write, or read what is another's."""
    identity = person(who)
    try:
        request = decide.parse(method, target)
        decision = decide.decide(request, identity, KNOWN.snapshot)
    except errors.Malformed:
        return
    if isinstance(decision, decide.Pass):
        return
    if isinstance(decision, decide.Review):
        assert method == "POST"
        return
    assert method == "GET"
    found = request.target
    assert found is not None
    assert not found.namespace
    assert not found.subresource
    # What is sent is written anew, from parts that have one meaning.
    assert found.path == request.path.rstrip("/")
    if isinstance(decision, decide.Fanout):
        owned = {"alice": {"oil-1"}, "bob": {"wind-1"}, "carol": set[str]()}
        assert set(decision.namespaces) <= owned[who]
    if isinstance(decision, decide.Filter):
        assert decision.selector
        written = request.query.narrowed(decision.selector)
        assert written.count("labelSelector=") == 1
    if isinstance(decision, decide.Sieve):
        assert not {"oil", "wind"} - {"alice": {"oil"}, "bob": {"wind"}}.get(who, set()) <= (
            decision.tenants
        )


PEOPLE_NAMES = st.sampled_from(["alice", "bob", "carol"])


@given(METHODS, PATHS, QUERIES, PEOPLE_NAMES)
def test_decisions(method: str, path: str, query: str, who: str) -> None:
    check(method, path + query, who)


@pytest.mark.long
def test_decisions_for_long() -> None:
    dice = random.Random(20)
    methods = ["GET", "GET", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
    letters = "watch=true&labelSelector=()!,%20in;\x7f\u00e9"
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        path = "/" + "/".join(dice.choices(WORDS, k=dice.randrange(9)))
        query = "".join(dice.choices(letters, k=dice.randrange(40))) if dice.random() < 0.5 else ""
        target = f"{path}?{query}" if query else path
        check(dice.choice(methods), target, dice.choice(["alice", "bob", "carol"]))
