"""Become another program, which the kernel kills together with the process that started it.

    python -I -S launch.py PARENT DESCRIPTOR PROGRAM [ARGUMENT...]

A program of its own, because in a process with threads no Python may run between fork and exec.
Where PROGRAM cannot be executed, the error's number is written to DESCRIPTOR, a pipe; otherwise
that closes. Standard library only, and little of it: every unit's start waits for this.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the thread that made it ends.

    :param parent: the parent's process id as it knew it before the fork; if it is gone already,
        nobody would tell us
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def environment() -> dict[bytes, bytes]:
    """Return the environment as it was given: Python may have set LC_CTYPE in ours."""
    with os.fdopen(os.open("/proc/self/environ", os.O_RDONLY), "rb") as file:
        entries = file.read().split(b"\0")
    return dict(entry.split(b"=", 1) for entry in entries if b"=" in entry)


def main(args: Sequence[str]) -> int:
    parent, pipe, *argv = args
    descriptor = int(pipe)
    os.set_inheritable(descriptor, False)
    die_with_parent(int(parent))
    # Python ignores these, and what is ignored stays so.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], argv, environment())
    except OSError as err:
        os.write(descriptor, b"%d" % (err.errno or 0))
    return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
