"""Verbs, subresources and forms beyond what kubectl does all day, before a real API server."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from urllib import parse

import pytest

from tenantry.gateway import pages, protobuf

from . import harness
from .harness import TABLE, USERS, Caller, World

pytestmark = [pytest.mark.plane, pytest.mark.timeout(240)]

NAMESPACES = "/api/v1/namespaces"
CONFIG_MAPS = "/api/v1/configmaps"
NODES = "/api/v1/nodes"
TENANTS = "/apis/capsule.clastix.io/v1beta2/tenants"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
METADATA = "application/%s;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
BINARY = "vnd.kubernetes.protobuf"
#: What is listed -> how it is narrowed differs for each: by selector, by looking, by namespaces.
LISTED = (NAMESPACES, CLASSES, CONFIG_MAPS)


@pytest.fixture(scope="module")
def people(world: World) -> dict[str, Path]:
    """Each at the gateway; `direct` is alice at the API server itself."""
    return {
        "admin": world.kubeconfig("admin", "system:masters"),
        "alice": world.kubeconfig("alice", USERS),
        "bob": world.kubeconfig("bob", USERS, "wind-owners"),
        "robot": world.robot,
        "direct": world.direct(world.kubeconfig("alice", USERS)),
    }


def everything(admin: Caller) -> set[tuple[str, str]]:
    """Return all that could be missing afterwards, with what it was."""
    found = set()
    for path in (NAMESPACES, CONFIG_MAPS, NODES, TENANTS, CLASSES):
        code, listed = admin.ask("GET", path)
        assert code == 200
        for one in listed["items"]:
            meta = one["metadata"]
            if "deletionTimestamp" in meta or not meta["name"].startswith(("wind", "n-", "kube-")):
                continue
            found.add((path + "/" + meta.get("namespace", ""), meta["name"]))
    return found


# Deleting whole collections.

SIGNS = ["", "?labelSelector=", "?fieldSelector=metadata.name%21%3Dx", "?watch=true",
         "?limit=1&resourceVersion=0", "?labelSelector=kubernetes.io/metadata.name%3Dwind-1"]  # fmt: skip


@pytest.mark.parametrize("who", ["alice", "robot", "bob"])
def test_no_collection_is_deleted_across_tenants(callers: dict[str, Caller], who: str) -> None:
    """Defect D4: what is no GET must not become a request of the gateway's, whatever it says."""
    before = everything(callers["admin"])
    for path in (NAMESPACES, TENANTS, NODES, CLASSES, CONFIG_MAPS, "/api/v1/pods",
                 "/apis/apps/v1/deployments", "/api/v1/secrets", f"{NAMESPACES}/"):  # fmt: skip
        for sign in SIGNS:
            for more in ({}, {"X-HTTP-Method-Override": "GET"}):
                code, found = callers[who].ask("DELETE", path + sign, None, **more)
                assert (code, found["reason"]) == (403, "Forbidden"), (path, sign)
                assert "deletecollection" in found["message"]
    assert everything(callers["admin"]) == before


def test_a_collection_is_deleted_in_ones_own_namespace_only(callers: dict[str, Caller]) -> None:
    alice, before = callers["alice"], everything(callers["admin"])
    there = f"{NAMESPACES}/oil-2/configmaps"
    for name in ("drop-1", "drop-2", "keep"):
        labels = {"drop": "yes" if name != "keep" else "no"}
        code, _ = alice.ask("POST", there, {"metadata": {"name": name, "labels": labels}})
        assert code == 201
    try:
        code, found = alice.ask("DELETE", f"{there}?labelSelector=drop%3Dyes")
        assert code == 200, found
        left = alice.names(there) or []
        assert "keep" in left
        assert not {"drop-1", "drop-2"} & set(left)
        for where in ("wind-1", "default", "kube-system"):
            code, found = alice.ask("DELETE", f"{NAMESPACES}/{where}/configmaps")
            assert (code, found["reason"]) == (403, "Forbidden")
    finally:
        alice.ask("DELETE", f"{there}/keep")
    assert everything(callers["admin"]) == before


# Writes where reads are narrowed.


@pytest.mark.parametrize("who", ["alice", "robot"])
@pytest.mark.parametrize(
    "path", [f"{NAMESPACES}/wind-1", f"{NAMESPACES}/kube-system", f"{TENANTS}/wind",
             f"{TENANTS}/oil", f"{NODES}/n-oil", f"{NODES}/n-wind", f"{CLASSES}/oil-fast"],
)  # fmt: skip
def test_what_is_read_as_the_gateway_is_not_written_as_it(
    callers: dict[str, Caller], who: str, path: str
) -> None:
    code, found = callers["admin"].ask("GET", path)
    assert code == 200
    for below in ("", "/status"):
        if below and path.startswith(CLASSES):
            continue
        for method, body in (
            ("PATCH", {"metadata": {"labels": {"by": who}}}),
            ("PUT", found),
            ("DELETE", None),
            ("POST", found),
        ):
            if below and method in {"DELETE", "POST"}:
                continue
            code, said = callers[who].ask(method, f"{path}{below}?dryRun=All", body)
            if method == "POST" and code == 405:
                # For those who may create namespaces: by the collection.
                continue
            assert (code, said["reason"]) == (403, "Forbidden"), (method, below, said)


def test_ones_own_namespace_is_deleted_as_by_the_api_server(callers: dict[str, Caller]) -> None:
    for who in ("alice", "direct"):
        code, _ = callers[who].ask("DELETE", f"{NAMESPACES}/oil-2?dryRun=All")
        assert code == 200
        code, _ = callers[who].ask("DELETE", f"{NAMESPACES}/wind-1?dryRun=All")
        assert code == 403
    assert "oil-2" in (callers["alice"].names(NAMESPACES) or ())


# Subresources.


@pytest.mark.parametrize("node", ["n-oil", "n-wind"])
@pytest.mark.parametrize("who", ["alice", "robot", "bob"])
@pytest.mark.parametrize(
    "below", ["status", "proxy", "proxy/", "proxy/pods", "proxy/run/oil-1/x/y?cmd=id",
              "proxy/exec/oil-1/x/y?command=id&input=1", "metrics", "log"],
)  # fmt: skip
def test_who_is_shown_a_node_is_not_let_into_it(
    callers: dict[str, Caller], who: str, node: str, below: str
) -> None:
    """The kubelet of a node serves every tenant on it."""
    for method in ("GET", "POST", "PUT", "DELETE"):
        body = None if method in {"GET", "DELETE"} else {"metadata": {"name": node}}
        code, found = callers[who].ask(method, f"{NODES}/{node}/{below}", body)
        assert (code, found["reason"]) == (403, "Forbidden"), (method, found)
        assert "nodes/" in found["message"]


@pytest.fixture(scope="module")
def debuggable(world: World) -> Iterator[None]:
    """A pod of alice's, and the right to add a container for debugging to it."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "debug", "namespace": "oil-1"},
        "rules": [{"apiGroups": [""], "resources": ["pods/ephemeralcontainers"],
                   "verbs": ["get", "patch", "update"]}],
    }  # fmt: skip
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "debug", "namespace": "oil-1"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "debug"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    }
    pods = [
        {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "debugged", "namespace": namespace},
            "spec": {"nodeName": "n-oil",
                     "containers": [{"name": "c", "image": "example.com/none"}]},
        }
        for namespace in ("oil-1", "wind-1")
    ]  # fmt: skip
    text = "\n---\n".join(map(json.dumps, (role, binding, *pods)))
    world.plane.run("apply", "--server-side", "-f", "-", stdin=text)
    yield
    world.plane.run("delete", "-f", "-", "--force", "--grace-period=0", stdin=text, check=False)


def test_containers_for_debugging(callers: dict[str, Caller], debuggable: None) -> None:
    alice = callers["alice"]
    path = "pods/debugged/ephemeralcontainers"
    added = {"spec": {"ephemeralContainers": [{"name": "d", "image": "example.com/debug"}]}}
    harness.eventually(lambda: alice.ask("GET", f"{NAMESPACES}/oil-1/{path}")[0] == 200)
    for method, body in (("GET", None), ("PATCH", added)):
        code, found = alice.ask(method, f"{NAMESPACES}/wind-1/{path}", body)
        assert (code, found["reason"]) == (403, "Forbidden")
    code, found = alice.ask("PATCH", f"{NAMESPACES}/oil-1/{path}", added)
    assert code == 200, found
    assert [one["name"] for one in found["spec"]["ephemeralContainers"]] == ["d"]


# Lists of metadata alone.


def metadata_names(caller: Caller, path: str, form: str) -> list[str]:
    connection = caller.connection()
    try:
        accept = METADATA % form
        connection.request("GET", path, headers={"Accept": accept, **caller.headers})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        assert answer.headers["Content-Type"].startswith(f"application/{form}")
    finally:
        connection.close()
    if form == BINARY:
        assert b"PartialObjectMetadataList" in body[:100]
        return [protobuf.of_item(item).name for item in protobuf.parse_list(body).items]
    found = json.loads(body)
    assert (found["kind"], found["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert all(set(one) <= {"kind", "apiVersion", "metadata"} for one in found["items"])
    return [one["metadata"]["name"] for one in found["items"]]


@pytest.mark.parametrize("form", ["json", BINARY])
@pytest.mark.parametrize("path", LISTED)
def test_metadata_alone_is_narrowed_as_the_whole_is(
    callers: dict[str, Caller], path: str, form: str
) -> None:
    for who in ("alice", "admin"):
        assert metadata_names(callers[who], path, form) == callers[who].names(path)
    assert "wind-notes" in metadata_names(callers["bob"], CONFIG_MAPS, form)


@pytest.mark.parametrize("path", LISTED)
def test_watches_of_metadata_alone_are_narrowed(callers: dict[str, Caller], path: str) -> None:
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    alice = callers["alice"]
    expected = sorted(alice.names(path) or ())
    assert expected
    with alice.watching(f"{path}?watch=true&resourceVersion=0", accept) as watch:
        assert watch.code == 200
        found = [watch.next() for _ in expected]
    assert sorted(name for event in found if event for name in event[1:]) == expected


@pytest.mark.parametrize("accept", [METADATA % "json", METADATA % BINARY, TABLE])
def test_a_list_of_nothing_has_the_form_that_was_asked_for(
    callers: dict[str, Caller], accept: str
) -> None:
    """An owner may list no such kind in any namespace: what comes is empty, and no other thing."""
    there = f"{NAMESPACES}/oil-1/podtemplates"
    assert callers["direct"].ask("GET", there)[0] == 403
    code, found = callers["alice"].ask("GET", "/api/v1/podtemplates", Accept=accept)
    assert code == 200
    assert not found.get("items")
    assert not found.get("rows")
    kind = "Table" if accept == TABLE else "PartialObjectMetadataList"
    assert (found["kind"], found["apiVersion"]) == (kind, "meta.k8s.io/v1")


# Pages.


def pages_of(caller: Caller, path: str, changed: str = "") -> tuple[int, list[str]]:
    """List in pages of one; with a token in place of the first one's, only that page."""
    token, found = changed, list[str]()
    for _ in range(100):
        more = f"&continue={parse.quote(token)}" if token else ""
        code, listed = caller.ask("GET", f"{path}?limit=1{more}")
        if code != 200:
            return code, found
        assert len(listed["items"]) <= 1
        found += [one["metadata"]["name"] for one in listed["items"]]
        token = listed["metadata"].get("continue", "")
        if not token:
            return code, found
    raise AssertionError("no end")


def tampered(token: str) -> list[str]:
    """Return what somebody makes of a token to begin elsewhere."""
    found = [token[:-4], token[::-1], "e30", base64.b64encode(b"{}").decode()]
    padded = token + "=" * (-len(token) % 4)
    with_names = base64.urlsafe_b64decode(padded).decode()
    for ours in ("oil-1", "oil-2", "gas-1", "kube-root-ca.crt"):
        for theirs in ("kube-system", "wind-1", "wind-1/x", "../wind-1", "a", ""):
            raw = with_names.replace(ours, theirs).encode()
            found.append(base64.urlsafe_b64encode(raw).rstrip(b"=").decode())
    # The API server's own, for a place that is not the caller's.
    inner = base64.urlsafe_b64encode(
        b'{"v":"meta.k8s.io/v1","rv":0,"start":"wind-1/\\u0000"}'
    ).decode()
    found += [inner, inner.rstrip("=")]
    for namespace in ("wind-1", "kube-system", "oil-1", "a", "oil-1/../wind-1", "%2e%2e/wind-1"):
        found += [pages.Token(namespace, text, "1").written() for text in ("", inner, token)]
    return found


@pytest.mark.parametrize("path", [NAMESPACES, CONFIG_MAPS])
def test_pages_are_the_whole_and_a_changed_token_shows_nothing_else(
    callers: dict[str, Caller], path: str
) -> None:
    alice = callers["alice"]
    whole = alice.names(path) or []
    assert pages_of(alice, path) == (200, whole)
    first = alice.ask("GET", f"{path}?limit=1")[1]["metadata"]["continue"]
    seen = 0
    for token in [first, *tampered(first)]:
        for sign in ("", "&fieldSelector=metadata.name%21%3Dx", "&resourceVersion=0"):
            target = f"{path}?limit=500&continue={parse.quote(token)}{sign}"
            code, found = alice.ask("GET", target)
            assert code in {200, 400, 410}, found
            if code == 200:
                seen += 1
                assert {one["metadata"]["name"] for one in found["items"]} <= set(whole)
                where = {one["metadata"].get("namespace", "oil-") for one in found["items"]}
                assert all(one.startswith(("oil-", "gas-")) for one in where)
    assert seen


def test_somebody_elses_token_gives_what_is_ones_own(callers: dict[str, Caller]) -> None:
    alice, bob = callers["alice"], callers["bob"]
    for path in (NAMESPACES, CONFIG_MAPS):
        token = alice.ask("GET", f"{path}?limit=1")[1]["metadata"]["continue"]
        own = set(bob.names(path) or ())
        code, found = bob.ask("GET", f"{path}?limit=500&continue={parse.quote(token)}")
        assert code in {200, 400, 410}
        assert {one["metadata"]["name"] for one in found.get("items", ())} <= own


# What people type.


def test_a_node_is_described_with_ones_own_pods(world: World, debuggable: None) -> None:
    """All pods of the node were shown, whoever's they were, in 0.9.13; and nothing later."""
    alice = world.kubeconfig("alice", USERS)
    told = world.run(alice, "describe", "node", "n-oil").stdout
    assert "debugged" in told.partition("Non-terminated Pods:")[2]
    assert "wind" not in told
    target = "pods -A --field-selector spec.nodeName=n-oil -o name"
    assert world.run(alice, "get", *target.split()).stdout.split() == ["pod/debugged"]


@pytest.mark.parametrize(
    "form", ["json", "yaml", "wide", "name", "custom-columns=N:.metadata.name"]
)
@pytest.mark.parametrize(
    "what", ["configmaps -A", "namespaces", "nodes", "storageclasses", "all -A"]
)
def test_forms_of_kubectl(world: World, debuggable: None, form: str, what: str) -> None:
    path: Path = world.kubeconfig("alice", USERS)
    told = world.run(path, "get", *what.split(), "-o", form).stdout
    for theirs in ("wind", "kube-system", "capsule-system"):
        assert theirs not in told
    ours = {"configmaps -A": "oil-1-notes", "namespaces": "oil-1", "nodes": "n-oil",
            "storageclasses": "shared-1", "all -A": "debugged"}[what]  # fmt: skip
    assert ours in told
    if form == "json":
        found = json.loads(told)
        assert (found["kind"], found["apiVersion"]) == ("List", "v1")
        assert all(one["kind"] and one["apiVersion"] for one in found["items"])
