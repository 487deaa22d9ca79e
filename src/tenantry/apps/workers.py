"""Several equal processes on one port, one per core: Python runs on one core each.

The first that ends ends all, with its exit code: whoever started this process starts it anew.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

#: Seconds between two looks at the workers.
_POLL = 0.2
_SET_PARENT_DEATH_SIGNAL = 1


def arguments(given: Sequence[str], number: int, *, probes: tuple[str, int]) -> list[str]:
    """Return a worker's arguments: those given, a port shared and probes of its own. Pure."""
    host, port = probes
    # The last of two options counts.
    found = [*given, "--workers=1", "--reuse-port", f"--probes={host}:{port + number}"]
    # One address is for one of them.
    return [*found, "--metrics-addr=0"] if number else found


def run(given: Sequence[str], count: int, *, probes: tuple[str, int], grace: float) -> int:
    """Run the workers until one ends or this process is stopped; return the exit code.

    :param given: the command line after `tenantry`
    :param grace: seconds that a worker may take to end
    """
    program = [sys.executable, "-m", "tenantry"]
    stopped = False

    def stop(_number: int, _frame: object) -> None:
        nonlocal stopped
        stopped = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    workers = [
        subprocess.Popen(
            [*program, *arguments(given, number, probes=probes)],
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - one call of prctl, no locks
        )
        for number in range(count)
    ]
    while not stopped and all(worker.poll() is None for worker in workers):
        time.sleep(_POLL)
    ended = next((code for worker in workers if (code := worker.poll()) is not None), 0)
    for worker in workers:
        with contextlib.suppress(ProcessLookupError):
            worker.terminate()
    deadline = time.monotonic() + grace
    for worker in workers:
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.wait(max(0.1, deadline - time.monotonic()))
    for worker in workers:
        if worker.poll() is None:
            worker.kill()
            worker.wait()
    if stopped:
        codes: list[int] = [abs(worker.returncode) for worker in workers]
        return max(codes)
    # A worker that was killed ended all, but not with an exit code.
    return ended if ended > 0 else 1


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
