from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tenantry.apps import permissions
from tenantry.cli import local, main
from tenantry.core import clock, yamls
from tenantry.local import credentials, plan, state, status


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the commands a state directory of their own, and no roles of Tenantry to start."""
    monkeypatch.setenv("TENANTRY_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(local, "tenantry_roles", lambda: ((), ()))
    return tmp_path / "state"


class Shell:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys
        self.err = ""

    def __call__(self, *args: str, code: int = 0) -> str:
        """Run `tenantry local ...`, and return what it printed."""
        got = main.run(["local", *args])
        out, self.err = self.capsys.readouterr()
        assert got == code, f"{out}{self.err}"
        return out


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


@pytest.fixture
def stored(home: Path) -> state.Layout:
    """Return a platform that was up once."""
    paths = state.layout("one", home)
    state.prepare(paths, minimum_free=0)
    described = plan.Plan(name="one", binaries={}, api_ports=(20001,))
    plan.store(described, paths)
    credentials.ensure(described, paths, clock.wall())
    return paths


@pytest.mark.plane
def test_a_platform_from_up_to_destroy(shell: Shell, tmp_path: Path) -> None:
    try:
        out = shell("up", "--nodes", "2", "--gpus-per-node", "4")
        assert "kube-scheduler" in shell.err
        assert "ready in" in shell.err
        admin = out.splitlines()[1].removeprefix("  export KUBECONFIG=")
        kubectl = out.splitlines()[2].split()[0]

        units = json.loads(shell("status", "-o", "json"))["units"]
        assert {unit["phase"] for unit in units} == {"ready"}
        assert "kwok" in shell("status")
        assert shell("list", "-o", "jsonpath={.items[*].phase}") == "ready"

        shell("kubeconfig", "--as", "alice", "--group", "devs", "--output", str(tmp_path / "alice"))
        who = subprocess.run(
            [kubectl, f"--kubeconfig={tmp_path}/alice", "auth", "whoami"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "alice" in who.stdout
        assert "devs" in who.stdout
        gpus = subprocess.run(
            [
                kubectl,
                "get",
                "nodes",
                "-o",
                r"jsonpath={.items[*].status.allocatable.nvidia\.com/gpu}",
            ],
            env={**os.environ, "KUBECONFIG": admin},
            capture_output=True,
            text=True,
            check=True,
        )
        assert gpus.stdout == "4 4"

        assert "kube-apiserver" in shell("logs").splitlines()
        assert len(shell("logs", "etcd", "--tail", "5").splitlines()) == 5
        assert shell("up") == out
        assert shell("down") == 'platform "default" is down\n'
        assert shell("status", code=1).startswith('platform "default": stopped')
        assert shell("down") == 'platform "default" was not running\n'
    finally:
        shell("destroy")
    assert shell("list", "-o", "name") == "\n"


class TestKubeconfig:
    def test_of_the_admin(self, shell: Shell, stored: state.Layout) -> None:
        found = yaml.safe_load(shell("kubeconfig", "--name", "one"))
        assert found["users"][0]["name"] == "admin"
        assert found["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:20001"

    def test_into_a_file_that_nobody_else_reads(
        self, shell: Shell, stored: state.Layout, tmp_path: Path
    ) -> None:
        target = tmp_path / "alice.yaml"
        out = shell("kubeconfig", "--name", "one", "--as", "alice", "--output", str(target))
        assert not out
        assert target.stat().st_mode & 0o777 == 0o600
        assert yaml.safe_load(target.read_text())["current-context"] == "alice@tenantry-one"

    def test_into_nowhere(self, shell: Shell, stored: state.Layout, tmp_path: Path) -> None:
        shell("kubeconfig", "--name", "one", "--output", str(tmp_path / "no" / "file"), code=1)
        assert "Error: cannot write" in shell.err

    def test_groups_without_a_user(self, shell: Shell, stored: state.Layout) -> None:
        shell("kubeconfig", "--name", "one", "--group", "devs", code=2)
        assert "--group needs --as" in shell.err

    @pytest.mark.parametrize("args", [("--as", ""), ("--as", "alice", "--group", "")])
    def test_an_empty_name_is_not_the_admin(
        self, shell: Shell, stored: state.Layout, args: tuple[str, ...]
    ) -> None:
        assert not shell("kubeconfig", "--name", "one", *args, code=1)
        assert f'{args[-2].removeprefix("--")}: Invalid value: ""' in shell.err

    def test_a_user_that_no_certificate_can_hold(self, shell: Shell, stored: state.Layout) -> None:
        shell("kubeconfig", "--name", "one", "--as", "u" * 65, code=1)
        assert "1 to 64 characters" in shell.err

    def test_without_its_authority(self, shell: Shell, stored: state.Layout) -> None:
        (stored.pki / "ca.key").unlink()
        shell("kubeconfig", "--name", "one", code=1)
        assert "pki/ca.crt cannot be read" in shell.err


@pytest.mark.parametrize("command", ["status", "down", "destroy", "kubeconfig", "logs"])
def test_a_platform_that_never_was(shell: Shell, stored: state.Layout, command: str) -> None:
    assert not shell(command, "--name", "ghost", code=1)
    assert shell.err.startswith('Error: no platform "ghost" on this machine; there are: one.')


@pytest.mark.parametrize("name", ["", "A", "../etc", "a" * 64])
@pytest.mark.parametrize("command", ["up", "destroy"])
def test_a_name_that_cannot_be(shell: Shell, command: str, name: str) -> None:
    shell(command, "--name", name, code=1)
    assert "Error: name: Invalid value" in shell.err


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("--nodes", "5001"), "0 to 5000 nodes"),
        (("--nodes", "none.yaml"), "cannot read nodes from none.yaml"),
        (("--nodes", "2", "--gpus-per-node", "65"), "0 to 64"),
        (("--gpus-per-node", "-1"), "0 to 64"),
        (("--nodes", "-1"), "0 to 5000 nodes"),
        (("--api-servers", "99"), "1 to 9"),
        (("--api-servers", "0"), "1 to 9"),
        (("--api-port", "70000"), "1 to 65535"),
    ],
)
def test_what_up_refuses(
    shell: Shell, args: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tenantry.local.binaries.resolve", lambda wanted, **_: dict.fromkeys(wanted, "/bin/true")
    )
    shell("up", *args, code=1)
    assert told in shell.err


def test_binaries_from_nowhere(shell: Shell) -> None:
    shell("up", "--bin-dir", "/nowhere/at/all", code=2)
    assert "'/nowhere/at/all' does not exist" in shell.err


def test_a_corrupt_binary(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "etcd").write_bytes(b"half of it")
    shell("up", "--bin-dir", str(tmp_path), code=1)
    assert f"Error: {tmp_path}/etcd is not a program for Linux; put a good one there" in shell.err


def test_status_is_for_people_and_programs(shell: Shell, stored: state.Layout) -> None:
    unit = status.UnitStatus(
        name="etcd", kind="process", phase="backoff", restarts=2, reason="exited with code 1"
    )
    told = status.Status(name="one", phase="failed", reason="etcd: exited", units=(unit,))
    status.store(told, stored)
    text = shell("status", "--name", "one", code=1)
    assert text.splitlines()[0] == 'platform "one": failed (etcd: exited)'
    assert "exited with code 1" in text
    assert shell("status", "--name", "one", "-o", "jsonpath={.units[0].restarts}", code=1) == "2"


def test_logs_of_a_unit_that_does_not_exist(shell: Shell, stored: state.Layout) -> None:
    stored.log("etcd").write_text("started\n")
    assert shell("logs", "--name", "one") == "etcd\n"
    assert shell("logs", "etcd", "--name", "one") == "started\n"
    shell("logs", "nope", "--name", "one", code=1)
    assert "one of etcd" in shell.err


def test_binaries_are_shown(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tenantry.local.binaries.resolve", lambda wanted, **_: dict.fromkeys(wanted, "/bin/true")
    )
    lines = shell("binaries").splitlines()
    assert lines[0].split() == ["NAME", "VERSION", "PATH"]
    assert any(line.split() == ["kwok", "v0.8.0", "/bin/true"] for line in lines)


def test_tenantrys_own_roles_fit_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    manifests, roles = local.tenantry_roles()
    assert all(Path(path).exists() for path in manifests)
    paths = state.Layout(Path("/state/one"))
    ports = dict.fromkeys(plan.listeners((), roles), 20001)
    described = plan.Plan(name="one", binaries={}, api_ports=(20000,), ports=ports, roles=roles)
    for role in roles:
        for text in (*role.argv, role.ready, *role.env.values()):
            assert "{" not in plan.filled(text, role, described, paths)
        assert role.service_account in permissions.ROLES, "it would have no rights"
    given = [obj for path in manifests for obj in yamls.read(Path(path).read_text())]
    accounts = {
        (obj["metadata"]["namespace"], obj["metadata"]["name"])
        for obj in given
        if obj and obj["kind"] == "ServiceAccount"
    }
    assert {(role.namespace, role.service_account) for role in roles} <= accounts
