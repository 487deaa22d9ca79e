"""Read into one buffer that all connections of an owner share.

A protocol that is handed `bytes` has them allocated at the most that could come, for every read.
With thousands of TLS connections that tears holes into the heap, which is then never given back.
An event loop asks for the buffer, fills it and says so without doing anything else in between.
"""

from __future__ import annotations

import contextlib
import ctypes

#: Measured: larger pieces cost a list of 20 MB more, not less.
_SIZE = 64 * 1024
_M_MMAP_THRESHOLD = -3


def keep_apart() -> None:
    """Have large buffers mapped by themselves; called once at process start.

    uvloop has one of 256 KiB for each TLS connection and touches little of it. Left alone, the C
    library learns from the first that is freed to cut the others from the heap, where all of it
    counts. Measured: 48 instead of 76 KiB per watch.
    """
    # Other C libraries than glibc have no such function.
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 128 * 1024)


class Buffer:
    """The place where bytes arrive."""

    __slots__ = ("view",)

    def __init__(self) -> None:
        self.view = memoryview(bytearray(_SIZE))
