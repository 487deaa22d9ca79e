"""Self reviews as typed clients send them: in protobuf, before a real API server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tenantry.gateway import protobuf

from . import harness
from .harness import USERS, Caller, World

pytestmark = [pytest.mark.plane, pytest.mark.timeout(240)]

AUTHORIZATION, AUTHENTICATION = "authorization.k8s.io/v1", "authentication.k8s.io/v1"
PROTOBUF = "application/vnd.kubernetes.protobuf"


@pytest.fixture(scope="module")
def people(world: World) -> dict[str, Path]:
    """Two at the gateway; `direct` is alice at the API server itself."""
    alice = world.kubeconfig("alice", USERS)
    return {"alice": alice, "robot": world.robot, "direct": world.direct(alice)}


def message(*fields: tuple[int, bytes]) -> bytes:
    """Write a message in protobuf, none of whose fields is long."""
    return b"".join(bytes((number << 3 | 2, len(value))) + value for number, value in fields)


def asked(
    caller: Caller, group: str, kind: str, spec: bytes, *, path: str = "", accept: str = ""
) -> tuple[int, bytes]:
    """Post a review; return the code and the body."""
    types = message((1, group.encode()), (2, kind.encode()))
    body = b"k8s\0" + message((1, types), (2, message((1, b""), (2, spec))))
    sent = {
        **caller.headers, "Content-Type": PROTOBUF,
        "Accept": accept or f"{PROTOBUF},application/json",
    }  # fmt: skip
    connection = caller.connection()
    try:
        connection.request("POST", f"/apis/{group}/{path or kind.lower() + 's'}", body, sent)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("verb", "resource", "there", "here"),
    [("list", b"namespaces", False, True), ("watch", b"configmaps", False, True),
     ("deletecollection", b"namespaces", False, False), ("list", b"secrets/x", False, False)],
)  # fmt: skip
def test_access_reviews_in_protobuf_tell_what_those_in_json_do(
    callers: dict[str, Caller], verb: str, resource: bytes, there: bool, here: bool
) -> None:
    kind = "SelfSubjectAccessReview"
    attributes = message((2, verb.encode()), (4, b"v1"), (5, resource))
    told = {
        who: asked(callers[who], AUTHORIZATION, kind, message((1, attributes)),
                   accept=harness.JSON if who == "direct" else "")
        for who in ("direct", "alice", "robot")
    }  # fmt: skip
    assert {code for code, _ in told.values()} == {201}
    allowed = {who: json.loads(body)["status"]["allowed"] for who, (_, body) in told.items()}
    assert allowed == {"direct": there, "alice": here, "robot": here}


def test_rules_reviews_in_protobuf_list_what_is_shown(callers: dict[str, Caller]) -> None:
    spec = message((1, b"oil-1"))
    code, body = asked(callers["alice"], AUTHORIZATION, "SelfSubjectRulesReview", spec)
    assert code == 201
    rules = json.loads(body)["status"]["resourceRules"]
    assert any("list" in rule["verbs"] and "namespaces" in rule["resources"] for rule in rules)


def test_reviews_of_oneself_in_protobuf_are_the_api_servers(callers: dict[str, Caller]) -> None:
    for who, name in (("alice", b"alice"), ("robot", harness.ACCOUNT.encode())):
        code, body = asked(callers[who], AUTHENTICATION, "SelfSubjectReview", b"")
        assert code == 201
        assert protobuf.is_it(body)
        assert name in body
        assert b"tenantry-gateway" not in body


def test_a_review_is_what_its_path_says(callers: dict[str, Caller]) -> None:
    """The API server reads it; here nobody believes what a caller wrote."""
    access, rules = "SelfSubjectAccessReview", "SelfSubjectRulesReview"
    allowed = message((1, message((2, b"delete"), (5, b"nodes"))))
    for kind, path, accept, expected in (
        (rules, "selfsubjectaccessreviews", "", 400),
        (access, "selfsubjectrulesreviews", "", 400),
        ("TokenReview", "selfsubjectaccessreviews", "", 400),
        (access, "subjectaccessreviews", "", 400),
        # What is corrected is read here, and that is JSON.
        (access, "selfsubjectaccessreviews", PROTOBUF, 406),
    ):
        told = asked(callers["alice"], AUTHORIZATION, kind, allowed, path=path, accept=accept)
        assert told[0] == (403 if path.startswith("subject") else expected), told
    # An answer that a caller gave itself is none: status, allowed.
    given = message((1, message((2, b"delete"), (5, b"nodes"))))
    body = message((1, b""), (2, given), (3, b"\x08\x01"))
    types = message((1, AUTHORIZATION.encode()), (2, access.encode()))
    connection = callers["alice"].connection()
    try:
        connection.request(
            "POST", f"/apis/{AUTHORIZATION}/selfsubjectaccessreviews",
            b"k8s\0" + message((1, types), (2, body)),
            {**callers["alice"].headers, "Content-Type": PROTOBUF, "Accept": harness.JSON},
        )  # fmt: skip
        assert json.loads(connection.getresponse().read())["status"]["allowed"] is False
    finally:
        connection.close()
