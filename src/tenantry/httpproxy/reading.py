"""Read into one buffer that all connections of an owner share.

A protocol that is handed `bytes` has them allocated at the most that could come, for every read.
With thousands of TLS connections that tears holes into the heap, which is then never given back.
An event loop asks for the buffer, fills it and says so without doing anything else in between.
"""

from __future__ import annotations

#: Measured: larger pieces cost a list of 20 MB more, not less.
_SIZE = 64 * 1024


class Buffer:
    """The place where bytes arrive."""

    __slots__ = ("view",)

    def __init__(self) -> None:
        self.view = memoryview(bytearray(_SIZE))
