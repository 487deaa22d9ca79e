from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable

import pytest
from tests.local import programs

from tenantry.local import plan, testing

pytestmark = pytest.mark.plane


def test_the_shared_plane_knows_its_users(plane: testing.Plane) -> None:
    who = plane.run("auth", "whoami", "-o", "json", user="alice", groups=["projectcapsule.dev"])
    user = json.loads(who.stdout)["status"]["userInfo"]
    assert user["username"] == "alice"
    assert set(user["groups"]) == {"projectcapsule.dev", "system:authenticated"}


def test_somebody_without_rights_has_none(plane: testing.Plane) -> None:
    refused = plane.run("get", "namespaces", user="alice", check=False)
    assert refused.returncode == 1
    assert "Error from server (Forbidden)" in refused.stderr


ROLE = """
import http.server, os, pathlib, sys, yaml
kubeconfig = yaml.safe_load(pathlib.Path(os.environ["KUBECONFIG"]).read_text())
token = pathlib.Path(kubeconfig["users"][0]["user"]["tokenFile"]).read_text()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if token.count(".") == 2 else 500)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_whoever_is_killed_comes_back_and_all_die_with_the_supervisor(
    new_plane: Callable[..., testing.Plane],
) -> None:
    """At once, a role among them, which runs with a token of its own."""
    role = plan.Role(
        name="role",
        argv=(sys.executable, "-c", ROLE, "{health}"),
        service_account="role",
        ports=("health",),
        ready="http://127.0.0.1:{health}/readyz",
    )
    own = new_plane(components=(), roles=[role])
    own.run("-n", plan.SYSTEM_NAMESPACE, "get", "serviceaccount", "role")
    units = ("etcd", "kube-apiserver", "role")
    before = {name: own.pid(name) for name in units}
    for name in units:
        own.signal(name, signal.SIGKILL)

    def back() -> bool:
        pids = {name: own.pid(name) for name in units}
        return own.platform.status().phase == "ready" and not before.items() & pids.items()

    until(back, 30)
    own.run("get", "namespaces")

    after = [pid for name in units if (pid := own.pid(name))]
    assert len(after) == len(units)
    own.stop()
    programs.gone(*after)


def until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
