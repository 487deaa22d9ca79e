"""Where a platform keeps what it knows, and who may touch it.

Files appear whole or not at all, also after a power cut: they are written beside their place,
brought to the disk and renamed. Everything is for the owner's eyes only, for keys lie among it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tenantry.core import clock, names
from tenantry.core import errors as core_errors
from tenantry.local import errors

#: A fresh platform takes about 150 MiB, most of it etcd's preallocated log.
MINIMUM_FREE = 512 * 1024 * 1024
DEFAULT_NAME = "default"
#: How `platform` starts the supervisor, without importing what that needs.
DAEMON = "tenantry.local.daemon"
DETACH = "--detach"
DIE_WITH = "--die-with="
#: The supervisor's exit code when another one has the platform.
ALREADY = 75
_POLL = 0.05
#: How often a lock is looked at that somebody has and nobody signed; on a full disk nobody does.
_UNSIGNED_TRIES = 20


@dataclass(frozen=True)
class Layout:
    """The paths in one platform's directory."""

    root: Path

    @property
    def name(self) -> str:
        return self.root.name

    @property
    def plan(self) -> Path:
        return self.root / "plan.json"

    @property
    def status(self) -> Path:
        return self.root / "status.json"

    @property
    def lock(self) -> Path:
        """Held by the supervisor for as long as it lives."""
        return self.root / "supervisor.lock"

    @property
    def setup_lock(self) -> Path:
        """Held by `up` while it prepares what the supervisor will run."""
        return self.root / "up.lock"

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def kubeconfigs(self) -> Path:
        return self.root / "kubeconfigs"

    @property
    def admin_kubeconfig(self) -> Path:
        return self.kubeconfigs / "admin.yaml"

    @property
    def tokens(self) -> Path:
        return self.root / "tokens"

    @property
    def etcd(self) -> Path:
        return self.root / "etcd"

    @property
    def config(self) -> Path:
        return self.root / "config"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    def kubeconfig(self, user: str) -> Path:
        return self.kubeconfigs / f"{user}.yaml"

    def log(self, unit: str) -> Path:
        return self.logs / f"{unit}.log"

    def directories(self) -> tuple[Path, ...]:
        return (self.root, self.pki, self.kubeconfigs, self.tokens, self.config, self.logs)


def state_home(environ: Mapping[str, str]) -> Path:
    """Return the directory that holds the platforms of this user."""
    if given := environ.get("TENANTRY_STATE_DIR"):
        return Path(given).absolute()
    base = environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base).absolute() / "tenantry"


def cache_home(environ: Mapping[str, str]) -> Path:
    """Return the directory for what can be had again: binaries and tools."""
    if given := environ.get("TENANTRY_CACHE_DIR"):
        return Path(given).absolute()
    base = environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base).absolute() / "tenantry"


def layout(name: str, home: Path) -> Layout:
    """Return the paths of the platform `name`, which need not exist."""
    if not names.is_dns_label(name):
        raise core_errors.InvalidValueError(
            "name", name, "lower case letters, digits and inner hyphens, at most 63 characters"
        )
    return Layout(home / name)


def platforms(home: Path) -> list[str]:
    """Return the names of all platforms that were ever started and not destroyed."""
    try:
        return sorted(entry.parent.name for entry in home.glob("*/plan.json"))
    except OSError as err:
        raise errors.StorageError.of(home, err) from err


def prepare(paths: Layout, *, minimum_free: int = MINIMUM_FREE) -> None:
    """Make the platform's directories; refuse where there is no room for its data."""
    require_room(paths.root, minimum_free)
    for directory in paths.directories():
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as err:
            raise errors.StorageError.of(directory, err) from err


def require_room(directory: Path, minimum: int) -> None:
    """Refuse when less than `minimum` bytes are free; better now than in the middle of a write.

    :param directory: need not exist yet; its disk is then that of the nearest one above
    """
    there = next(path for path in (directory, *directory.parents) if path.exists())
    free = shutil.disk_usage(there).free
    if free < minimum:
        raise errors.StorageError(
            directory,
            f"the disk is almost full: {free // 2**20} MiB free, {minimum // 2**20} MiB needed",
        )


def write(path: Path, content: bytes, *, mode: int = 0o600, durable: bool = True) -> None:
    """Put `content` at `path`, whole or not at all.

    :param durable: False = it need not be there after a power cut
    """
    temporary = None
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(descriptor, mode)
            if durable:
                file.flush()
                os.fsync(descriptor)
        Path(temporary).rename(path)
        if durable:
            _sync(path.parent)
    except OSError as err:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise errors.StorageError.of(path, err) from err


def hand_out(path: Path, content: bytes) -> None:
    """Put `content` where a user wants it: links are followed, pipes and devices written to."""
    try:
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(path.stat().st_mode):
                path.write_bytes(content)
                return
        path = path.resolve()
    except OSError as err:
        raise errors.StorageError.of(path, err) from err
    write(path, content)


def _sync(directory: Path) -> None:
    """Bring a directory's entries to the disk: a new name is one of them."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read(path: Path) -> bytes | None:
    """Return a file's content, or None when it does not exist."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as err:
        raise errors.BrokenStateError(path, os.strerror(err.errno or 0)) from err


class Lock:
    """An exclusive lock on a file, which names its holder for others to read.

    The kernel lets go of it when the holder dies, however it dies.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def acquire(self) -> bool:
        """Take the lock unless somebody has it."""
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as err:
            raise errors.StorageError.of(self.path, err) from err
        # More than one try: `holder` has it for an instant when it looks.
        for _ in range(5):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as err:
                if err.errno not in {errno.EAGAIN, errno.EACCES}:
                    os.close(file)
                    raise errors.StorageError.of(self.path, err) from err
                time.sleep(0.02)
            else:
                self._file = file
                self.sign()
                return True
        os.close(file)
        return False

    def sign(self) -> None:
        """Write who holds the lock; again after a fork, which hands the lock to the child."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # a full disk does not unlock it
                os.ftruncate(self._file, 0)
                os.pwrite(self._file, b"%d\n" % os.getpid(), 0)

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


@contextlib.contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Hold a lock for a block; the value tells whether it was free."""
    lock = Lock(path)
    try:
        yield lock.acquire()
    finally:
        lock.release()


def holder(path: Path) -> int | None:
    """Return the process id of a lock's holder, or None when nobody holds it."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        for _ in range(_UNSIGNED_TRIES):
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                text = os.pread(file, 32, 0).strip()
            else:
                return None
            if text.isdigit():
                return int(text)
            # Whoever took it a moment ago is about to sign it.
            time.sleep(_POLL)
        return None
    finally:
        os.close(file)


def await_release(
    path: Path, seconds: float, *, ask: Callable[[int], None] = lambda _pid: None
) -> None:
    """Wait until nobody holds a lock.

    :param ask: called with the holder's process id, again and again
    :raises HeldError: when it is still held after that many seconds
    """
    deadline = clock.monotonic() + seconds
    while (pid := holder(path)) is not None:
        if clock.monotonic() > deadline:
            raise errors.HeldError(path, pid, seconds)
        ask(pid)
        time.sleep(_POLL)
