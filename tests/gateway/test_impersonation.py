"""Who may be whom: `--as` with groups, uid and extra, by the API server's own answer to the same."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from . import harness
from .harness import USERS, Caller, World

pytestmark = [pytest.mark.plane, pytest.mark.timeout(240)]

RBAC = "rbac.authorization.k8s.io"
WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
NAMESPACES = "/api/v1/namespaces"

ALICE = {"Impersonate-User": "alice", "Impersonate-Group": USERS}
#: What is asked for, and whether somebody may who may be alice in one group, with one uid and scope.
ASKED: list[tuple[dict[str, str], bool]] = [
    (ALICE, True),
    ({**ALICE, "Impersonate-Uid": "u-1"}, True),
    ({**ALICE, "Impersonate-Extra-Scopes": "read"}, True),
    ({**ALICE, "Impersonate-Uid": "u-1", "Impersonate-Extra-Scopes": "read"}, True),
    ({**ALICE, "Impersonate-Extra-Example.com%2fscopes": "read"}, True),
    ({**ALICE, "Impersonate-Uid": "u-2"}, False),
    ({**ALICE, "Impersonate-Extra-Scopes": "write"}, False),
    ({**ALICE, "Impersonate-Extra-Other": "read"}, False),
    ({**ALICE, "Impersonate-Group": "system:masters"}, False),
    ({**ALICE, "Impersonate-User": "bob"}, False),
    ({**ALICE, "Impersonate-User": "system:serviceaccount:oil-1:robot"}, False),
    ({"Impersonate-Group": USERS}, False),
    ({"Impersonate-Uid": "u-1"}, False),
    ({"Impersonate-Extra-Scopes": "read"}, False),
]


@pytest.fixture(scope="module")
def pairs(world: World) -> Iterator[dict[str, tuple[Caller, Caller]]]:
    """Callers with a certificate and with a token: at the gateway, and at the API server itself."""
    rules = [
        {"apiGroups": [""], "resources": ["users"], "resourceNames": ["alice"]},
        {"apiGroups": [""], "resources": ["groups"], "resourceNames": [USERS]},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["uids"], "resourceNames": ["u-1"]},
        {"apiGroups": ["authentication.k8s.io"], "resourceNames": ["read"],
         "resources": ["userextras/scopes", "userextras/example.com/scopes"]},
    ]  # fmt: skip
    objects = [
        {"apiVersion": "v1", "kind": "ServiceAccount",
         "metadata": {"name": "understudy", "namespace": "oil-1"}},
        {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": "understudy"},
         "rules": [{**rule, "verbs": ["impersonate"]} for rule in rules]},
        {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRoleBinding",
         "metadata": {"name": "understudy"},
         "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "understudy"},
         "subjects": [
             {"apiGroup": RBAC, "kind": "User", "name": "dan"},
             {"kind": "ServiceAccount", "name": "understudy", "namespace": "oil-1"},
         ]},
    ]  # fmt: skip
    text = "\n---\n".join(map(json.dumps, objects))
    world.plane.run("apply", "--server-side", "-f", "-", stdin=text)
    token = world.plane.run("create", "token", "understudy", "-n", "oil-1").stdout.strip()
    paths = {
        "certificate": world.kubeconfig("dan"),
        "token": world.with_token(token, "understudy"),
    }
    found = {}
    for name, path in paths.items():
        direct = world.folder / f"direct-{name}.yaml"
        direct.write_text(path.read_text().replace(world.server, world.plane.server))
        found[name] = (Caller(path), Caller(direct))
        first = found[name][1]
        harness.eventually(
            lambda first=first: first.ask("POST", WHOAMI, REVIEW, **ALICE)[0] == 201  # type: ignore[misc]
        )
    yield found
    for pair in found.values():
        for caller in pair:
            caller.close()
    world.plane.run("delete", "-f", "-", stdin=text)


@pytest.mark.parametrize(("asked", "allowed"), ASKED, ids=lambda v: str(v)[-60:])
@pytest.mark.parametrize("how", ["certificate", "token"])
def test_each_part_is_judged_and_arrives(
    pairs: dict[str, tuple[Caller, Caller]], how: str, asked: dict[str, str], allowed: bool
) -> None:
    """Defect D2: uid and extra were never judged, and groups only sometimes."""
    caller, direct = pairs[how]
    code, found = caller.ask("POST", WHOAMI, REVIEW, **asked)
    expected, same = direct.ask("POST", WHOAMI, REVIEW, **asked)
    assert (code == 201) is (expected == 201) is allowed, (found, same)
    for target in (NAMESPACES, "/api/v1/configmaps", f"{NAMESPACES}/oil-1/configmaps"):
        code, listed = caller.ask("GET", target, None, **asked)
        assert (code == 200) is allowed, listed
        if allowed:
            names = {one["metadata"].get("namespace") or one["metadata"]["name"]
                     for one in listed["items"]}  # fmt: skip
            assert "oil-1" in names
            assert all(name.startswith(("oil-", "gas-")) for name in names)
        else:
            assert code >= 400
            assert "items" not in listed
    if allowed:
        assert found["status"]["userInfo"] == same["status"]["userInfo"]


def test_kubectl_says_them_all(world: World) -> None:
    words = ("--as=alice", f"--as-group={USERS}", "--as-uid=u-9", "--as-user-extra=scopes=a",
             "--as-user-extra=scopes=b")  # fmt: skip
    admin = world.kubeconfig("admin", "system:masters")
    told = world.run(admin, "auth", "whoami", "-o", "json", *words).stdout
    found = json.loads(told)["status"]["userInfo"]
    assert (found["username"], found["uid"]) == ("alice", "u-9")
    assert found["extra"]["scopes"] == ["a", "b"]
    assert world.names(admin, "namespace", "oil-1", *words) == ["oil-1"]
    refused = world.run(admin, "get", "namespace", "wind-1", *words, check=False)
    assert "(NotFound)" in refused.stderr
    stranger = world.run(world.kubeconfig("alice", USERS), "get", "namespaces", *words, check=False)
    assert "cannot impersonate" in stranger.stderr
