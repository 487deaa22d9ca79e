"""What can keep a platform on one machine from running, in words for the person at it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tenantry.core import errors


class LocalError(errors.TenantryError):
    """Raised when a platform cannot do what was asked."""


class NoSuchPlatformError(LocalError):
    """Raised when a command names a platform that was never started."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name = name
        there = f"there are: {', '.join(known)}" if known else "there is none yet"
        super().__init__(
            f'no platform "{name}" on this machine; {there}. "tenantry local up" makes one'
        )


class NotRunningError(LocalError):
    """Raised when a command needs a platform that runs."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f'platform "{name}" does not run; start it with "tenantry local up"')


class HeldError(LocalError):
    """Raised when somebody holds a lock for longer than their work can take."""

    def __init__(self, path: Path, pid: int | None, seconds: float) -> None:
        self.pid = pid
        who = f"process {pid}" if pid else "a process that does not say who it is"
        hint = f"; see what it does, or end it with: kill {pid}" if pid else ""
        super().__init__(f"{who} still holds {path} after {seconds:g} s{hint}")


class PortTakenError(LocalError):
    """Raised when a port that kubeconfigs depend on is used by somebody else."""

    def __init__(self, port: int, name: str, user: str) -> None:
        self.port = port
        holder = f"process {user}" if user else "another process"
        super().__init__(
            f'port {port}, where the API server of platform "{name}" is known to listen, is taken by'
            f" {holder}. Stop that process, or give the platform another port with"
            ' "tenantry local up --api-port PORT" (0 = choose one); kubeconfigs given out earlier'
            " then have to be written anew"
        )


class StartFailedError(LocalError):
    """Raised when a platform did not become ready."""

    def __init__(self, name: str, reason: str, log: str = "") -> None:
        self.reason = reason
        tail = f"\n{log}" if log else ""
        super().__init__(f'platform "{name}" did not start: {reason}{tail}')


class StorageError(LocalError):
    """Raised when a directory cannot be written: full, read-only, or somebody else's."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        super().__init__(f"cannot write {path}: {reason}")

    @classmethod
    def of(cls, path: Path, err: OSError) -> StorageError:
        return cls(path, os.strerror(err.errno) if err.errno else str(err))


class BrokenStateError(LocalError):
    """Raised when a file in a platform's directory cannot be understood."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        super().__init__(
            f"{path} cannot be read: {reason}. Restore it, or remove the platform with"
            ' "tenantry local destroy"'
        )


class NoBinariesError(LocalError):
    """Raised when no source gave a usable binary; says for each source why not."""

    def __init__(self, wanted: Sequence[str], reasons: Sequence[tuple[str, str]]) -> None:
        self.reasons = tuple(reasons)
        lines = "".join(f"\n  {source}: {reason}" for source, reason in reasons)
        super().__init__(f"no source has {', '.join(wanted)}:{lines}")
