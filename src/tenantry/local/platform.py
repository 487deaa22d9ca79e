"""A platform as its user sees it: up, status, down, destroy, kubeconfig."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tenantry.core import clock
from tenantry.core import errors as core_errors
from tenantry.local import (
    addresses,
    children,
    errors,
    nodes,
    plan,
    ports,
    progress,
    state,
    status,
    stopping,
    supervision,
)

#: Seconds from the supervisor's start until `up` no longer waits. Units give up before.
READY_TIMEOUT = 300.0
#: Seconds for which the supervisor may take to stop all; each unit has its own grace in it.
STOP_TIMEOUT = 90.0
#: Seconds to wait for another `up` that prepares the platform, which may have to build binaries.
SETUP_TIMEOUT = 3600.0
#: Seconds within which a supervisor detaches itself or, once killed, is gone.
QUICK_TIMEOUT = 60.0
_POLL = 0.05
#: How many sets of ports a start may lose to others, who start at the same moment.
_PORT_ATTEMPTS = 3
#: Free bytes below which etcd cannot be expected to work.
_FULL = 64 * 2**20
#: Lines of a failed unit's log that are shown.
_TAIL = 15


@dataclass(frozen=True, kw_only=True)
class Options:
    """What `up` was asked for; None = as it was, or the default of a new platform."""

    nodes: tuple[dict[str, Any], ...] | None = None
    api_servers: int | None = None
    #: Port of the first API server; 0 = any other than now.
    api_port: int | None = None
    #: Whether several API servers shall have an address each, and one port.
    own_addresses: bool = False
    #: Numbers, from 1, of API servers to start without the admission plugin PodNodeSelector.
    odd_servers: tuple[int, ...] = ()
    bin_dir: str = ""
    #: Whether binaries that are not there are to be got; else that is an error.
    make_binaries: bool = True
    components: tuple[str, ...] = plan.OPTIONAL
    manifests: tuple[str, ...] = ()
    roles: tuple[plan.Role, ...] = ()
    durable: bool = True


class Platform:
    """One platform of this user, which need not exist yet."""

    def __init__(self, name: str, *, environ: Mapping[str, str] | None = None) -> None:
        self.environ = os.environ if environ is None else environ
        self.home = state.state_home(self.environ)
        self.paths = state.layout(name, self.home)
        self.name = name

    @property
    def exists(self) -> bool:
        return self.paths.plan.exists()

    def require(self) -> plan.Plan:
        """Return the platform's plan; raises NoSuchPlatformError when it was never started."""
        described = plan.load(self.paths)
        if described is None:
            raise errors.NoSuchPlatformError(self.name, state.platforms(self.home))
        return described

    def status(self) -> status.Status:
        """Return how the platform is, and if it is not well, whether the disk is to blame."""
        self.require()
        found = status.load(self.paths)
        if found.phase == supervision.Overall.READY.value or found.reason:
            return found
        try:
            state.require_room(self.paths.root, _FULL)
        except errors.StorageError as err:
            return msgspec.structs.replace(found, reason=str(err))
        return found

    def kubeconfig(self, user: str, groups: Sequence[str], *, server: str = "") -> bytes:
        """Return a kubeconfig for any user, or the admin's for "".

        :param server: address of a gateway, instead of the API server's
        """
        from tenantry.local import credentials

        if not user:
            user, groups = credentials.ADMIN, [credentials.ADMIN_GROUP]
        return credentials.for_user(
            self.require(), self.paths, user=user, groups=groups, now=clock.wall(), server=server
        )

    def up(
        self, options: Options, report: progress.Progress, *, tied: bool = False
    ) -> subprocess.Popen[bytes] | None:
        """Bring the platform up and return when it is ready; at once when it is.

        :param tied: make the supervisor a child of this process, to be killed with it, and
            return it
        """
        state.prepare(self.paths)
        # One that runs is joined, whoever started it.
        if state.holder(self.paths.lock) is not None:
            self._refuse_changes(options)
            report.note(f'platform "{self.name}" runs already')
            self._await_ready(report)
            return None
        with stopping.stoppable(), state.locked(self.paths.setup_lock) as free:
            if not free:
                report.note("another `tenantry local up` prepares this platform; waiting for it")
                self._await_supervisor()
                self._await_ready(report)
                return None
            first = not self.exists
            for _ in range(_PORT_ATTEMPTS - 1):
                try:
                    return self._start(options, report, tied=tied)
                except errors.StartFailedError:
                    if not self._lost_ports():
                        raise
                report.note("a port was taken by somebody else meanwhile; once more with another")
                if first:
                    # Nobody was told the API server's port yet, so that may change too.
                    self.paths.plan.unlink()
            return self._start(options, report, tied=tied)

    def _start(
        self, options: Options, report: progress.Progress, *, tied: bool
    ) -> subprocess.Popen[bytes] | None:
        self._prepare(options, report)
        child: subprocess.Popen[bytes] | None = None
        try:
            child = self._start_supervisor(tied=tied)
            self._await_ready(report, child)
        except BaseException as err:
            # Ctrl-C also ends one that left a moment ago, before this process was told.
            if child is not None or isinstance(err, KeyboardInterrupt):
                self._stop(child)
            raise
        return child

    def _lost_ports(self) -> list[int]:
        """Return which of our ports others use, now that nothing of ours runs."""
        described = self.require()
        mine = [*described.api_ports, *described.ports.values()]
        return [port for port in mine if not ports.is_free(port)]

    def _stop(self, child: subprocess.Popen[bytes] | None) -> None:
        """Take back a supervisor that was just started."""
        if child is not None:
            child.kill()
            child.wait(QUICK_TIMEOUT)
            return
        state.await_release(self.paths.lock, STOP_TIMEOUT, ask=stopping.terminate)

    def down(self, report: progress.Progress) -> bool:
        """Stop the platform, or the `up` that prepares it; tell whether there was one."""
        self.require_directory()
        deadline = clock.monotonic() + STOP_TIMEOUT
        with report.step("stopping"):
            # First an `up` that is about to start a supervisor, or follows one: else it would see
            # that end, and meet the signal when it no longer expects any. For the same reason
            # each is asked only once.
            asked: list[int] = []
            while pids := self._holders():
                for pid in pids:
                    if pid not in asked:
                        asked.append(pid)
                        stopping.terminate(pid)
                if clock.monotonic() > deadline:
                    raise errors.LocalError(f"still running after {STOP_TIMEOUT:g} s: {pids}")
                time.sleep(_POLL)
            return bool(asked)

    def destroy(self, report: progress.Progress) -> None:
        """Stop the platform and remove everything it kept."""
        self.require_directory()
        self.down(report)
        with contextlib.suppress(errors.BrokenStateError):
            described = plan.load(self.paths)
            addresses.give_back(described.addresses if described is not None else ())
        try:
            shutil.rmtree(self.paths.root)
        except OSError as err:
            raise errors.StorageError.of(self.paths.root, err) from err

    def require_directory(self) -> None:
        """Refuse a platform of which there is no trace (a broken one has one)."""
        if not self.paths.root.is_dir():
            raise errors.NoSuchPlatformError(self.name, state.platforms(self.home))

    def _holders(self) -> list[int]:
        held = (state.holder(self.paths.setup_lock), state.holder(self.paths.lock))
        return [pid for pid in held if pid is not None]

    def _prepare(self, options: Options, report: progress.Progress) -> None:
        from tenantry.local import binaries, credentials, plane

        before = plan.load(self.paths)
        wanted = [plan.ETCD, plan.API_SERVER, plan.KUBECTL, *options.components]
        if plan.KWOK in options.components:
            wanted.append(plan.STAGES)
        environ = dict(self.environ)
        if options.bin_dir:
            environ[binaries.BIN_DIR] = options.bin_dir
        found = binaries.resolve(wanted, environ=environ, report=report, make=options.make_binaries)
        described = self._plan(options, before, found)
        if options.own_addresses and len(described.api_ports) > 1:
            described = addresses.assigned(described, report.note)
        with report.step("certificates"):
            credentials.ensure(described, self.paths, clock.wall())
            for path, content in plane.files(self.paths).items():
                state.write(path, content)
        plan.store(described, self.paths)
        # What an earlier supervisor said must not be taken for what this one says.
        self.paths.status.unlink(missing_ok=True)

    def _plan(
        self, options: Options, before: plan.Plan | None, found: Mapping[str, str]
    ) -> plan.Plan:
        servers = options.api_servers
        if servers is None:
            servers = len(before.api_ports) if before else 1
        if not 1 <= servers <= plan.MAXIMUM_API_SERVERS:
            raise core_errors.InvalidValueError(
                "api-servers", servers, f"1 to {plan.MAXIMUM_API_SERVERS}"
            )
        avoid = self._ports_of_others()
        if before and options.api_port is None:
            ports.let_go(before.api_ports[0])
        api_ports = ports.choose_api(
            servers,
            (before.api_ports[:1] if before.addresses else before.api_ports) if before else (),
            name=self.name,
            seed=str(self.paths.root),
            wanted=options.api_port,
            avoid=avoid,
        )
        default = nodes.generated(nodes.DEFAULT_COUNT, 0)
        return plan.Plan(
            name=self.name,
            binaries=found,
            api_ports=api_ports,
            ports=ports.choose(
                plan.listeners(options.components, options.roles),
                before.ports if before else {},
                seed=str(self.paths.root),
                avoid=avoid | set(api_ports),
            ),
            components=options.components,
            odd_servers=options.odd_servers,
            nodes=options.nodes
            if options.nodes is not None
            else (before.nodes if before else default),
            manifests=options.manifests,
            roles=options.roles,
            durable=options.durable,
        )

    def _ports_of_others(self) -> set[int]:
        taken: set[int] = set()
        for name in state.platforms(self.home):
            if name != self.name:
                with contextlib.suppress(core_errors.TenantryError):
                    other = plan.load(state.layout(name, self.home))
                    taken |= {*other.api_ports, *other.ports.values()} if other else set()
        return taken

    def _refuse_changes(self, options: Options) -> None:
        running = self.require()
        changed = [
            flag
            for flag, wanted, has in (
                ("--nodes", options.nodes, running.nodes),
                ("--api-servers", options.api_servers, len(running.api_ports)),
                ("--api-port", options.api_port, running.api_ports[0]),
            )
            if wanted is not None and wanted != has
        ]
        own = Path(options.bin_dir).absolute() if options.bin_dir else None
        for name, path in running.binaries.items():
            if own and (own / name).exists() and own / name != Path(path):
                changed.append("--bin-dir")
                break
        if changed:
            raise errors.LocalError(
                f'platform "{self.name}" runs; {", ".join(changed)} takes effect when it starts:'
                ' "tenantry local down" first'
            )

    def _start_supervisor(self, *, tied: bool) -> subprocess.Popen[bytes] | None:
        how = f"{state.DIE_WITH}{os.getpid()}" if tied else state.DETACH
        with self.paths.log("supervisor").open("ab") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", state.DAEMON, str(self.paths.root), how],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=dict(self.environ),
            )
        if tied:
            return child
        try:
            code = child.wait(QUICK_TIMEOUT)
        except BaseException:
            # Before it has the lock, `down` would not see it.
            child.kill()
            child.wait(QUICK_TIMEOUT)
            raise
        if code not in {0, state.ALREADY}:
            raise errors.StartFailedError(
                self.name,
                "its supervisor could not be started",
                children.tail(self.paths.log("supervisor"), _TAIL),
            )
        return None

    def _await_supervisor(self) -> None:
        deadline = clock.monotonic() + SETUP_TIMEOUT
        while (pid := state.holder(self.paths.setup_lock)) is not None:
            if state.holder(self.paths.lock) is not None:
                return
            if clock.monotonic() > deadline:
                raise errors.HeldError(self.paths.setup_lock, pid, SETUP_TIMEOUT)
            time.sleep(_POLL)
        if state.holder(self.paths.lock) is None:
            raise errors.StartFailedError(self.name, "the `up` that prepared it gave up")

    def _await_ready(
        self, report: progress.Progress, child: subprocess.Popen[bytes] | None = None
    ) -> None:
        """Follow the supervisor until all is ready, telling each unit that becomes so."""
        told: set[str] = set()
        deadline = clock.monotonic() + READY_TIMEOUT
        seen = False
        while clock.monotonic() < deadline:
            now = status.load(self.paths)
            seen = seen or state.holder(self.paths.lock) is not None
            for unit in now.units:
                if unit.phase == supervision.Phase.READY.value and unit.name not in told:
                    told.add(unit.name)
                    report.done(unit.name, unit.took or 0.0)
            phase = supervision.Overall(now.phase)
            if phase is supervision.Overall.READY:
                return
            if phase is supervision.Overall.FAILED:
                reason = now.reason
                try:
                    # It has said its last word, and is about to go.
                    state.await_release(self.paths.lock, STOP_TIMEOUT)
                except errors.HeldError as err:
                    reason = f"{reason}; {err}"
                unit_name = now.reason.partition(":")[0]
                tail = children.tail(self.paths.log(unit_name), _TAIL)
                raise errors.StartFailedError(
                    self.name, reason, f"{self.paths.log(unit_name)}:\n{tail}" if tail else ""
                )
            if phase is supervision.Overall.STOPPING:
                raise errors.StartFailedError(self.name, "it was stopped meanwhile")
            gone = child.poll() is not None if child else seen
            gone = gone and state.holder(self.paths.lock) is None
            # It may have said, before it ended, how it ended.
            if gone and status.load(self.paths).phase != supervision.Overall.FAILED.value:
                raise errors.StartFailedError(
                    self.name,
                    now.reason or "its supervisor ended",
                    children.tail(self.paths.log("supervisor"), _TAIL),
                )
            time.sleep(_POLL)
        raise errors.StartFailedError(self.name, f"not ready within {READY_TIMEOUT:g} s")


def kubectl(described: plan.Plan) -> Path:
    """Return the platform's own kubectl."""
    return Path(described.binaries[plan.KUBECTL])
