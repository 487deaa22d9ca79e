from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable

import pytest

from tenantry.local import testing

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


def test_a_unit_that_is_killed_comes_back(new_plane: Callable[..., testing.Plane]) -> None:
    own = new_plane(components=())
    before = own.pid("kube-apiserver")
    own.signal("kube-apiserver", signal.SIGKILL)
    deadline = time.monotonic() + 30
    while own.platform.status().phase != "ready" or own.pid("kube-apiserver") == before:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    own.run("get", "namespaces")


def test_all_die_with_the_supervisor(new_plane: Callable[..., testing.Plane]) -> None:
    own = new_plane(components=())
    pids = [own.pid("etcd"), own.pid("kube-apiserver")]
    own.stop()
    deadline = time.monotonic() + 5
    for pid in pids:
        assert pid is not None
        while _alive(pid):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
