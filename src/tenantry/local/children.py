"""Child processes that never outlive their parent.

The kernel is asked to kill each child when this process dies, however it dies; a child is also
the leader of its own process group, so that what it started ends with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tenantry.local import launch

#: Seconds after which a program counts as one that cannot be started; it takes 0.03.
LAUNCH_TIMEOUT = 30.0
#: A log is started anew beyond this size when its unit starts, and cut while it runs.
LOG_LIMIT = 64 * 1024 * 1024


def start(
    argv: Sequence[str], *, env: Mapping[str, str], log: Path, cwd: Path | None = None
) -> subprocess.Popen[bytes]:
    """Start a program whose output goes to a file; to be called by the main thread.

    Raises OSError when it cannot be executed.
    """
    rotate(log)
    told, tell = os.pipe()
    try:
        launcher = (sys.executable, "-I", "-S", launch.__file__, str(os.getpid()), str(tell))
        with log.open("ab") as out:
            process = subprocess.Popen(
                [*launcher, *argv],
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=cwd or log.parent,
                process_group=0,
                pass_fds=(tell,),
            )
        os.close(tell)
        tell = -1
        number = _failure(told)
    finally:
        os.close(told)
        if tell != -1:
            os.close(tell)
    if number:
        process.kill()
        process.wait()
        raise OSError(number, os.strerror(number), argv[0])
    return process


def _failure(told: int) -> int:
    """Wait until the program runs; return the number of the error when it does not."""
    poll = select.poll()
    poll.register(told, select.POLLIN)
    if not poll.poll(LAUNCH_TIMEOUT * 1000):
        return errno.ETIMEDOUT
    return int(os.read(told, 16) or 0)


def watch(process: subprocess.Popen[bytes], ended: Callable[[str], None]) -> None:
    """Call `ended` from the running event loop, once, with the reason why the process ended."""
    loop = asyncio.get_running_loop()
    descriptor = os.pidfd_open(process.pid)

    def reap() -> None:
        loop.remove_reader(descriptor)
        os.close(descriptor)
        # Whatever it had started goes too.
        send(process, signal.SIGKILL, group_only=True)
        ended(reason(process.wait()))

    loop.add_reader(descriptor, reap)


def send(
    process: subprocess.Popen[bytes], number: signal.Signals, *, group_only: bool = False
) -> None:
    """Send a signal to a process and all it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
        return
    if not group_only:
        process.send_signal(number)


def reason(code: int) -> str:
    """Say how a process ended."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def rotate(log: Path) -> None:
    """Keep one old log when the current one has grown large."""
    with contextlib.suppress(OSError):
        if log.stat().st_size > LOG_LIMIT:
            log.rename(log.with_suffix(".log.1"))


def cut(log: Path) -> None:
    """Empty a large log whose unit still writes to it (it appends, so it goes on at the start)."""
    with contextlib.suppress(OSError):
        if log.stat().st_size > LOG_LIMIT:
            os.truncate(log, 0)


def tail(log: Path, lines: int, *, most: int = 64 * 1024) -> str:
    """Return the last lines of a log."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - most))
            content = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(content.splitlines()[-lines:])
