"""What flags of Capsule Proxy and rules for everybody show, at a gateway with all of them set."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import harness, sockets
from .harness import USERS, Caller, World
from .test_impersonation import REVIEW, WHOAMI
from .test_modes import gateway

pytestmark = [pytest.mark.plane, pytest.mark.timeout(240)]

NAMESPACES = "/api/v1/namespaces"
GLOBAL = {
    "apiVersion": "capsule.clastix.io/v1beta1",
    "kind": "GlobalProxySettings",
    "metadata": {"name": "options"},
    "spec": {
        "rules": [
            {
                "subjects": [{"kind": "User", "name": "gus"}, {"kind": "Group", "name": "readers"}],
                "clusterResources": [
                    {"apiGroups": ["storage.k8s.io/*"], "resources": ["storageclasses"],
                     "selector": {"matchLabels": {"shown": "yes"}}},
                    {"apiGroups": [""], "resources": ["namespaces"],
                     "selector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}},
                    # An empty selector grants nothing.
                    {"apiGroups": [""], "resources": ["nodes"], "selector": {}},
                ],
            }
        ]
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def port(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    pki = world.plane.platform.paths.pki
    options = (
        f"--ssl-cert-path={pki / 'gateway.crt'}", f"--ssl-key-path={pki / 'gateway.key'}",
        "--enable-reflector=true", "--ignored-username=ignatius", "--ignored-user-group=operators",
        "--impersonation-group-regexp=^(projectcapsule|devs|system:)", "--disable-caching=false",
        "--ignored-impersonation-group=-old$", "--feature-gates=ProxyClusterScoped=true",
    )  # fmt: skip
    with gateway(world, tmp_path_factory.mktemp("options"), *options) as found:
        yield found


@pytest.fixture
def asking(world: World, port: int, tmp_path: Path) -> Iterator[dict[str, Caller]]:
    people = {
        "frida": ("frida", USERS),
        "gus": ("gus", USERS),
        "reader": ("rita", USERS, "readers"),
        "outsider": ("gus",),
        "ignatius": ("ignatius", USERS),
        "operator": ("alice", USERS, "operators"),
        "alice": ("alice", USERS),
        "admin": ("admin", "system:masters"),
    }
    found = {}
    for name, (who, *groups) in people.items():
        path = tmp_path / name
        text = world.kubeconfig(who, *groups).read_text()
        path.write_text(text.replace(world.server, f"https://127.0.0.1:{port}"))
        found[name] = Caller(path)
    yield found
    for caller in found.values():
        caller.close()


def test_a_role_binding_shows_its_namespace(world: World, asking: dict[str, Caller]) -> None:
    """The reflector; listed means got, and `-A` is what RBAC lets one list."""
    frida = asking["frida"]
    assert frida.names(NAMESPACES) == []
    binding = ("rolebinding", "frida", "-n", "wind-1")
    world.plane.run("create", *binding, "--clusterrole=view", "--user=frida")
    try:
        harness.eventually(lambda: frida.names(NAMESPACES) == ["wind-1"])
        assert frida.ask("GET", f"{NAMESPACES}/wind-1")[0] == 200
        assert frida.ask("GET", f"{NAMESPACES}/oil-1")[0] == 404
        assert set(frida.names("/api/v1/configmaps") or ()) == {"kube-root-ca.crt", "wind-notes"}
        assert frida.names("/api/v1/secrets") == []
        with frida.watching(f"{NAMESPACES}?watch=true") as watch:
            assert watch.next() == ("ADDED", "wind-1")
            world.plane.run("delete", *binding)
            watch.until(("ERROR", ""))
        assert frida.names(NAMESPACES) == []
    finally:
        world.plane.run("delete", *binding, "--ignore-not-found")


def test_rules_for_everybody(world: World, asking: dict[str, Caller]) -> None:
    classes = "/apis/storage.k8s.io/v1/storageclasses"
    gus, reader, outsider = asking["gus"], asking["reader"], asking["outsider"]
    assert gus.names(classes) is None
    world.plane.run("create", "-f", "-", stdin=json.dumps(GLOBAL))
    try:
        for caller in (gus, reader):
            harness.eventually(lambda caller=caller: caller.names(classes) == [])  # type: ignore[misc]
            assert caller.names(NAMESPACES) == ["default"]
            # Defect D11: what was listed by a rule could not be got.
            assert caller.ask("GET", f"{NAMESPACES}/default")[0] == 200
            assert caller.ask("GET", f"{NAMESPACES}/oil-1")[0] == 404
            assert not caller.names("/api/v1/nodes")
        world.plane.run("label", "storageclass", "wind-fast", "shown=yes")
        for caller in (gus, reader):
            assert caller.names(classes) == ["wind-fast"]
            assert caller.ask("GET", f"{classes}/wind-fast")[0] == 200
            assert caller.ask("GET", f"{classes}/oil-fast")[0] == 404
            for method in ("PATCH", "DELETE"):
                body = {"metadata": {"labels": {"a": "b"}}} if method == "PATCH" else None
                assert caller.ask(method, f"{classes}/wind-fast?dryRun=All", body)[0] == 403
        # Who is no Capsule user is left to RBAC, and nobody else is given anything.
        assert outsider.names(classes) is None
        assert outsider.names(NAMESPACES) is None
        assert "wind-fast" not in (asking["alice"].names(classes) or ())
        world.plane.run("wait", "globalproxysettings/options", "--for=condition=Ready",
                        "--timeout=20s")  # fmt: skip
    finally:
        world.plane.run("label", "storageclass", "wind-fast", "shown-", check=False)
        world.plane.run("delete", "globalproxysettings", "options")
    harness.eventually(lambda: gus.names(classes) is None)


@pytest.mark.parametrize("who", ["ignatius", "operator"])
def test_ignored_identities_are_only_themselves(asking: dict[str, Caller], who: str) -> None:
    assert asking["alice"].names("/api/v1/nodes") == ["n-oil"]
    for path in (NAMESPACES, "/api/v1/nodes", "/api/v1/configmaps"):
        assert asking[who].names(path) is None


def test_groups_that_are_not_heard_of_are_not_sent(
    world: World, asking: dict[str, Caller], port: int, tmp_path: Path
) -> None:
    """Defect D2: they were exempt from the review, and went on to the API server."""
    path = tmp_path / "token.yaml"
    text = world.robot.read_text()
    path.write_text(text.replace(world.server, f"https://127.0.0.1:{port}"))
    robot = Caller(path)
    may = ("clusterrolebinding", "options-robot")
    world.plane.run("create", *may, "--clusterrole=cluster-admin",
                    "--serviceaccount=oil-1:robot")  # fmt: skip
    unheard = {"Impersonate-User": "alice", "Impersonate-Group": "masters"}
    try:
        for caller in (asking["admin"], robot):
            harness.eventually(
                lambda caller=caller: (  # type: ignore[misc]
                    caller.ask("POST", WHOAMI, REVIEW, **unheard)[0] == 201
                )
            )
            for group, heard in (
                ("masters", False), ("devs-old", False), ("devs", True), (USERS, True),
            ):  # fmt: skip
                asked = {"Impersonate-User": "alice", "Impersonate-Group": group}
                code, found = caller.ask("POST", WHOAMI, REVIEW, **asked)
                assert code == 201, found
                assert (group in found["status"]["userInfo"]["groups"]) is heard
                code, listed = caller.ask("GET", NAMESPACES, None, **asked)
                assert (code == 200) is (group == USERS), listed
    finally:
        world.plane.run("delete", *may)
        robot.close()


def test_a_browsers_token_in_the_protocol_of_its_websocket(world: World) -> None:
    quoted = base64.b64encode(world.robot_token.encode()).decode().rstrip("=")
    words = f"base64url.bearer.authorization.k8s.io.{quoted}, base64.binary.k8s.io"
    bare = sockets.Socket(
        world.server, world.trusting, f"{NAMESPACES}?watch=true&resourceVersion=0",
        **{"Sec-WebSocket-Protocol": words},
    )  # fmt: skip
    with bare as socket:
        assert socket.code == 101
        names = set()
        for _, payload in socket.frames():
            names.add(json.loads(payload)["object"]["metadata"]["name"])
            if len(names) == 2:
                break
    assert all(name.startswith("oil-") for name in names)


def test_probes_have_their_paths(port: int) -> None:
    for path in ("/healthz", "/healthz/", "/readyz", "/readyz/"):
        with urllib.request.urlopen(f"http://127.0.0.1:{port + 1}{path}", timeout=10) as got:
            assert (got.status, got.read()) == (200, b"ok")


def setting(kind: str, subject: harness.Object) -> harness.Object:
    """Return an object of either kind that says something of one subject."""
    version = "capsule.clastix.io/v1beta1"
    if kind == "ProxySetting":
        metadata = {"name": "generations", "namespace": "oil-1"}
        return {"apiVersion": version, "kind": kind, "metadata": metadata,
                "spec": {"subjects": [subject]}}  # fmt: skip
    resources = subject["clusterResources"]
    rule = {"subjects": [{k: subject[k] for k in ("kind", "name")}], "clusterResources": resources}
    metadata = {"name": "generations"}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": {"rules": [rule]}}


def resource(**more: object) -> harness.Object:
    nodes = {"apiGroups": [""], "resources": ["nodes"], "selector": {"matchLabels": {"a": "b"}}}
    return {"kind": "User", "name": "gus", "clusterResources": [{**nodes, **more}]}


@pytest.mark.parametrize("kind", ["ProxySetting", "GlobalProxySettings"])
def test_both_generations_of_the_schema(world: World, kind: str) -> None:
    """What 0.9.13 took, what 0.14 takes, and what neither does (specs/capsule-proxy 6)."""

    def applied(subject: harness.Object) -> tuple[int, str, str]:
        text = json.dumps(setting(kind, subject))
        words = ("create", "--dry-run=server", "-o", "json", "-f", "-")
        done = world.plane.run(*words, stdin=text, check=False)
        return done.returncode, done.stdout, done.stderr

    def of_first(told: str) -> harness.Object:
        spec = json.loads(told)["spec"]
        holder = spec["subjects"][0] if kind == "ProxySetting" else spec["rules"][0]
        found: harness.Object = holder["clusterResources"][0]
        return found

    for operations in (["List", "Update", "Delete"], ["List", "Get"], ["Get"], ["Update"]):
        code, told, error = applied(resource(operations=operations))
        assert code == 0, error
        assert of_first(told)["operations"] == operations
    code, told, error = applied(resource())
    assert code == 0, error
    assert of_first(told)["operations"] == ["List", "Get"]
    for wrong in (
        resource(operations=["Create"]),
        resource(selector=None),
        {**resource(), "kind": "Robot"},
        {**resource(), "name": 5},
    ):
        code, _, error = applied(wrong)
        assert code != 0, wrong
        assert "spec." in error
    if kind == "ProxySetting":
        words = [{"kind": "Nodes", "operations": ["List", "Update", "Delete"]}]
        legacy = {"kind": "Group", "name": "g", "proxySettings": words}
        assert applied(legacy)[0] == 0
        assert applied({**legacy, "proxySettings": [{**words[0], "kind": "Secrets"}]})[0] != 0
