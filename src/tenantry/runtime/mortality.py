"""Whether the holder of a Lease is surely dead, told from the name that it gave itself.

A name says on which machine, since which boot, in which space of process ids and as which process
its bearer runs. Only who is in the same space can look for it there; everybody else, and everybody
who finds a name that says less, does not know and waits for the Lease to expire.

A name is no secret and proves nothing about its bearer. Who may write a Lease can put any name into
it, and gains nothing: a dead one gives the Lease away, which an empty one does as well, and a living
one is waited for as always.
"""

from __future__ import annotations

import os
import re
import socket
import uuid
from pathlib import Path

#: What is between the parts of a name; host names cannot contain it.
_NAME = re.compile(
    r"(?P<space>[^_]{1,253}_[0-9a-f-]{36}_\d{1,20})_(?P<pid>[1-9]\d{0,9})-(?P<born>\d{1,20})_"
    r"[0-9a-f]{32}",
    re.ASCII,
)
_PROC = Path("/proc")


def name(proc: Path = _PROC) -> str:
    """Return a name for this process that no other has or will have."""
    here = _space(proc)
    if not here:
        return f"{socket.gethostname()}_{uuid.uuid4()}"
    return f"{here}_{os.getpid()}-{_born(proc, os.getpid())}_{uuid.uuid4().hex}"


def surely_dead(bearer: str, proc: Path = _PROC) -> bool:
    """Tell whether the process of this name is proven to run no longer."""
    found = _NAME.fullmatch(bearer)
    if found is None or found["space"] != _space(proc):
        return False
    try:
        born = _born(proc, int(found["pid"]))
    except OSError:
        return False  # there is something that we may not look at
    return born != found["born"]


def _space(proc: Path) -> str:
    """Name the machine, its boot and the space of process ids; "" when they cannot be told."""
    try:
        boot = (proc / "sys/kernel/random/boot_id").read_text().strip()
        space = (proc / "self/ns/pid").readlink().name
        # Another space may be mounted on /proc: then what we find there is of others.
        if (proc / "self").readlink().name != str(os.getpid()):
            return ""
    except OSError:
        return ""
    return f"{socket.gethostname()}_{boot}_{''.join(filter(str.isdigit, space))}"


def _born(proc: Path, pid: int) -> str:
    """Tell when a process began, in ticks since the boot; "" when none has this id, or it is dead.

    :raises OSError: when it cannot be known
    """
    try:
        text = (proc / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        try:
            os.kill(pid, 0)  # asks only; a /proc mounted with hidepid hides what lives
        except ProcessLookupError:
            return ""
        raise
    # The command may contain anything; after it come state, and as the twentieth the beginning.
    state, *rest = text.rpartition(")")[2].split()
    return "" if state in {"Z", "X", "x"} else rest[18]
