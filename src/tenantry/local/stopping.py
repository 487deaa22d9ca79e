"""How `down` ends what somebody else has in hand: a signal, which an `up` takes in good order."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

from tenantry.local import errors


class Interrupted(BaseException):
    """Raised in the main thread when `down` stops an `up`; passes through every handler."""


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Turn SIGTERM, which `down` sends, into an orderly end of the block."""

    def stop(_number: int, _frame: object) -> None:
        raise Interrupted

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not the main thread, which signals do not reach anyway
        yield
        return
    try:
        yield
    except Interrupted:
        raise errors.LocalError("stopped by `tenantry local down`, or by another SIGTERM") from None
    finally:
        signal.signal(signal.SIGTERM, before)


def terminate(pid: int) -> None:
    """Ask a process to end, unless it has."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
