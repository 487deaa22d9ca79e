"""Who the API server's audit log says it was, whatever way a request took."""

from __future__ import annotations

import json
from typing import Any

import pytest

from . import harness
from .harness import USERS, Caller, World

pytestmark = [pytest.mark.plane, pytest.mark.timeout(240)]

#: What the gateway may write as itself: questions, and the status of its own kinds.
OWN_WRITES = ("tokenreviews", "subjectaccessreviews", "proxysettings", "globalproxysettings")


def test_the_audit_log_names_the_true_user_of_every_write(world: World) -> None:
    """Passed on, impersonated, corrected, switched and spread: of each way, with each credential."""
    alice, audit = world.kubeconfig("alice", USERS), world.audit()
    core, there = "/api/v1/namespaces", "/api/v1/namespaces/oil-1"
    maps, reviews = f"{there}/configmaps", "/apis/authorization.k8s.io/v1"
    wanted: dict[tuple[str, str, str, str], set[str]] = {}
    for path, who in ((alice, "alice"), (world.robot, harness.ACCOUNT)):
        name = f"audited-{who.rpartition(':')[2]}"
        one, labels = f"{maps}/{name}", {"audited": name}
        body: harness.Object = {"metadata": {"name": name, "labels": labels}}
        value = {"metadata": {"labels": {"by": "me"}}}
        pointed: list[harness.Object] = [{"op": "add", "path": "/data", "value": {"a": "b"}}]
        applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        form = "application/%s-patch+"
        caller = Caller(path)
        asked: list[tuple[str, str, Any, dict[str, str], int]] = [
            ("POST", maps, body, {}, 201),
            ("PUT", one, body, {}, 200),
            ("PATCH", one, value, {}, 200),
            ("PATCH", one, value, {"Content-Type": form % "strategic-merge" + "json"}, 200),
            ("PATCH", one, pointed, {"Content-Type": form % "json" + "json"}, 200),
            ("PATCH", f"{one}?fieldManager=a", applied, {"Content-Type": form % "apply" + "yaml"},
             200),
            ("DELETE", f"{maps}?labelSelector=audited%3D{name}", None, {}, 200),
            ("DELETE", one, None, {}, 404),
            # Refused, or not there, which the API server says.
            ("DELETE", f"/api/v1/nodes/{name}", None, {}, 403),
            ("PATCH", f"{core}/{name}", value, {}, 404 if who == "alice" else 403),
            ("POST", f"{there}/pods/{name}/eviction", body, {}, 404),
            ("POST", f"{reviews}/selfsubjectaccessreviews",
             {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}}, {}, 201),
            ("POST", f"{reviews}/selfsubjectrulesreviews", {"spec": {"namespace": name}}, {}, 201),
            ("GET", f"/api/v1/secrets?fieldSelector=metadata.name%3D{name}", None, {}, 200),
        ]  # fmt: skip
        for method, target, content, headers, code in asked:
            told = caller.ask(method, target, content, **headers)
            assert told[0] == code, (method, target, told)
        for verb in ("exec?command=sh&container=c", "attach?container=c", "portforward"):
            with caller.socket(f"{there}/pods/{name}/{verb}", Upgrade="SPDY/3.1") as opened:
                assert opened.code == 404
        caller.close()
        for verb, plural, namespace, named in (
            ("create", "configmaps", "oil-1", name), ("update", "configmaps", "oil-1", name),
            ("patch", "configmaps", "oil-1", name), ("delete", "configmaps", "oil-1", name),
            ("delete", "nodes", "", name), ("patch", "namespaces", name, name),
            ("create", "pods/eviction", "oil-1", name), ("get", "pods/exec", "oil-1", name),
            ("get", "pods/attach", "oil-1", name), ("get", "pods/portforward", "oil-1", name),
            # A list of everything is one in each namespace, in the caller's name.
            ("list", "secrets", "oil-1", name), ("list", "secrets", "oil-2", name),
        ):  # fmt: skip
            wanted[verb, plural, namespace, named] = {who}
    both = {"alice", harness.ACCOUNT}
    for verb, plural, namespace in (
        ("deletecollection", "configmaps", "oil-1"),
        ("create", "selfsubjectaccessreviews", ""), ("create", "selfsubjectrulesreviews", ""),
    ):  # fmt: skip
        wanted[verb, plural, namespace, ""] = both
    found = audit.users
    harness.eventually(
        lambda: audit.read() and all(found.get(key, set()) >= who for key, who in wanted.items())
    )
    gateway = "system:serviceaccount:capsule-system:tenantry-gateway"
    for key, users in found.items():
        # A name is of this test; what has none others may do at the same time, but not for these.
        if key in wanted and key[3]:
            assert users == wanted[key], key
        if key[0] not in {"get", "list", "watch"} and gateway in users:
            assert key[1].partition("/")[0] in OWN_WRITES, key
    for key in wanted:
        assert gateway not in found[key], key
    # Nor before, whoever asked for whatever.
    for line in world.plane.platform.paths.log("audit").read_text().splitlines():
        if gateway not in line or '"verb":"list"' in line or '"verb":"watch"' in line:
            continue
        event = json.loads(line)
        user = event.get("impersonatedUser", event["user"])["username"]
        if user == gateway and event["verb"] != "get":
            assert event["objectRef"]["resource"] in OWN_WRITES, event
