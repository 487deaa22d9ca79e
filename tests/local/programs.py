"""Files that look like programs, for tests that never run them; and whether real ones run."""

from __future__ import annotations

import struct
import time
from pathlib import Path

from tenantry.local import artefacts


def elf(payload: bytes = b"payload", *, machine: int | None = None) -> bytes:
    """Return the smallest file that passes for a whole ELF program of this machine."""
    number = machine or {"amd64": 62, "arm64": 183}[artefacts.architecture()]
    body = payload.ljust(64, b"\0")
    header = bytearray(64)
    header[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<H", header, 18, number)
    struct.pack_into("<Q", header, 40, 64 + len(body))
    struct.pack_into("<HH", header, 58, 64, 1)
    return bytes(header) + body + b"\0" * 64


def runs(pid: int) -> bool:
    """Tell whether a process runs; one that waits for somebody to ask how it ended does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(") ")[2][0] not in "ZX"


def gone(*pids: int) -> None:
    """Wait until none of these processes runs."""
    deadline = time.monotonic() + 10
    while any(runs(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.02)
