"""Real control planes for tests: quick to start, in memory, dead with the process that made them.

`Planes` makes them; a `Plane` gives out kubeconfigs and runs kubectl. `tests/conftest.py` wraps
both as fixtures; other projects can do the same.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tenantry.kube import config
from tenantry.local import addresses, errors, plan, progress, state
from tenantry.local import platform as platforms

_PREFIX = "tenantry-test-"
#: A file system in memory; etcd's many small writes cost nothing there.
_MEMORY = Path("/dev/shm")  # noqa: S108 (the directory's name is unpredictable)
_ROOM = 2 * 2**30


class Plane:
    """A control plane that runs; see `Planes.start`."""

    def __init__(
        self, platform: platforms.Platform, supervisor: subprocess.Popen[bytes] | None, files: Path
    ) -> None:
        """Wrap a platform that is up.

        :param supervisor: who ends with it on `stop`; None = whoever started it stops it
        :param files: a folder for kubeconfigs
        """
        self.platform = platform
        self.plan = platform.require()
        self.supervisor = supervisor
        self._files = files
        self._given: dict[tuple[str, tuple[str, ...]], Path] = {}

    @property
    def server(self) -> str:
        return self.plan.server

    @property
    def admin(self) -> Path:
        """The kubeconfig of somebody who may do everything."""
        return self.platform.paths.admin_kubeconfig

    @property
    def kubectl(self) -> Path:
        return platforms.kubectl(self.plan)

    @property
    def env(self) -> dict[str, str]:
        """An environment in which `kubectl` is this plane's, and its user the admin."""
        path = f"{self.kubectl.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        return {**os.environ, "PATH": path, "KUBECONFIG": str(self.admin)}

    def kubeconfig(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Return the file with a client certificate for `user`, who is in `groups`."""
        key = (user, tuple(groups))
        if key not in self._given:
            path = self._files / f"user-{len(self._given)}.yaml"
            path.write_bytes(self.platform.kubeconfig(user, groups))
            self._given[key] = path
        return self._given[key]

    def config(self, user: str = "", groups: Sequence[str] = ()) -> config.Config:
        """Return a client's configuration for a user; "" is the admin."""
        return config.load(self.kubeconfig(user, groups) if user else self.admin)

    def run(
        self,
        *args: str,
        user: str = "",
        groups: Sequence[str] = (),
        stdin: str | None = None,
        check: bool = True,
        timeout: float = 60.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as a user; "" is the admin. With `check`, its failure is an AssertionError."""
        kubeconfig = self.kubeconfig(user, groups) if user else self.admin
        done = subprocess.run(
            [str(self.kubectl), f"--kubeconfig={kubeconfig}", *args],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"kubectl {' '.join(args)}:\n{done.stdout}{done.stderr}")
        return done

    def pid(self, unit: str) -> int | None:
        """Return the process id of a unit, such as "kube-apiserver", while it has one."""
        units = {found.name: found.pid for found in self.platform.status().units}
        return units[unit]

    def signal(self, unit: str, number: signal.Signals) -> None:
        """Send a signal to a unit; the supervisor starts it anew if that ends it."""
        pid = self.pid(unit)
        if pid is None:
            raise AssertionError(f"{unit} does not run")
        os.kill(pid, number)

    def stop(self) -> None:
        """End it at once; its data is in memory and nobody will ask for it."""
        if self.supervisor is None:
            raise errors.LocalError(f"{self.platform.name} is for whoever started it to stop")
        self.supervisor.kill()
        self.supervisor.wait()
        addresses.give_back(self.plan.addresses)
        # The kernel kills the others now; they may still write for an instant.
        for _ in range(50):
            shutil.rmtree(self.platform.home, ignore_errors=True)
            if not self.platform.home.exists():
                return
            time.sleep(0.02)


class Planes:
    """Starts control planes and stops all of them on `close`."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self.environ = dict(os.environ if environ is None else environ)
        self._counter = itertools.count(1)
        self._running: list[Plane] = []

    def start(
        self,
        *,
        components: Sequence[str] = (plan.CONTROLLER_MANAGER,),
        nodes: tuple[dict[str, Any], ...] = (),
        api_servers: int = 1,
        own_addresses: bool = False,
        odd_servers: Sequence[int] = (),
        manifests: Sequence[str] = (),
        roles: Sequence[plan.Role] = (),
    ) -> Plane:
        """Start one and return when it is ready.

        :param components: of `plan.OPTIONAL`; etcd and the API servers always run
        :param nodes: see `nodes.generated`; only with the component kwok
        """
        sweep()
        name = f"{_PREFIX}{os.getpid()}-"
        memory = _MEMORY if _usable(_MEMORY) else None
        home = Path(tempfile.mkdtemp(prefix=name, dir=memory))
        environ = {**self.environ, "TENANTRY_STATE_DIR": str(home)}
        platform = platforms.Platform(f"t{os.getpid()}-{next(self._counter)}", environ=environ)
        options = platforms.Options(
            nodes=nodes,
            api_servers=api_servers,
            own_addresses=own_addresses,
            odd_servers=tuple(odd_servers),
            components=tuple(components),
            manifests=tuple(manifests),
            roles=tuple(roles),
            durable=False,
            make_binaries=False,
        )
        try:
            supervisor = platform.up(options, progress.Silent(), tied=True)
        except errors.NoBinariesError as err:
            shutil.rmtree(home, ignore_errors=True)
            raise errors.LocalError(f"{err}\nGet them once with: tenantry local binaries") from err
        except BaseException:
            shutil.rmtree(home, ignore_errors=True)
            raise
        if supervisor is None:
            raise errors.LocalError(f"{platform.name} runs already")
        plane = Plane(platform, supervisor, home)
        self._running.append(plane)
        return plane

    def stop(self, plane: Plane) -> None:
        plane.stop()
        self._running.remove(plane)

    def close(self) -> None:
        while self._running:
            self.stop(self._running[-1])


def sweep() -> None:
    """Remove what killed predecessors left; their processes died with them."""
    for folder in {_MEMORY, Path(tempfile.gettempdir())}:
        for left in folder.glob(f"{_PREFIX}*"):
            match = re.fullmatch(rf"{_PREFIX}(\d+)-.*", left.name)
            if match and not Path(f"/proc/{match[1]}").exists():
                with contextlib.suppress(OSError):
                    shutil.rmtree(left)


def _usable(memory: Path) -> bool:
    try:
        state.require_room(memory, _ROOM)
    except (errors.StorageError, OSError):
        return False
    return os.access(memory, os.W_OK)
