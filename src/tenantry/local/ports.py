"""Choosing ports, and remembering them.

Ports lie below the range from which the kernel takes the local ends of outgoing connections:
else a port that was free yesterday is some connection's today.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from tenantry.core import clock
from tenantry.core import errors as core_errors
from tenantry.local import errors

RANGE = range(20000, 30000)
#: Seconds within which a server that was killed lets go of its port.
RELEASE = 5.0
IsFree = Callable[[int], bool]


def is_free(port: int) -> bool:
    """Tell whether a server could listen on this port of the loopback address now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do; else a port is "taken" for a minute after its last connection.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def let_go(port: int, seconds: float = RELEASE) -> None:
    """Wait until nobody has a port whose user cannot be named, as one that is just being killed.

    A killed server's memory goes before its sockets do: for a while it has the port, but nothing
    else any more, not even a command line.
    """
    deadline = clock.monotonic() + seconds
    while not is_free(port) and not _user(port) and clock.monotonic() < deadline:
        time.sleep(0.02)


def candidates(seed: str, avoid: Collection[int]) -> Iterator[int]:
    """Yield all ports of the range in an order that depends on `seed` only."""
    order = list(RANGE)
    random.Random(seed).shuffle(order)  # noqa: S311 (spread, not secrecy)
    return (port for port in order if port not in avoid)


def choose(
    keys: Sequence[str],
    remembered: Mapping[str, int],
    *,
    seed: str,
    avoid: Collection[int],
    free: IsFree = is_free,
) -> dict[str, int]:
    """Give each key its remembered port while that is free, else another one."""
    chosen: dict[str, int] = {}
    used = set(avoid)
    for key in keys:
        port = remembered.get(key)
        if port is not None and port not in used and free(port):
            chosen[key] = port
            used.add(port)
    fresh = candidates(seed, used)
    for key in keys:
        if key not in chosen:
            chosen[key] = _next(fresh, free)
    return chosen


def choose_api(
    count: int,
    remembered: Sequence[int],
    *,
    name: str,
    seed: str,
    wanted: int | None,
    avoid: Collection[int],
    free: IsFree = is_free,
) -> tuple[int, ...]:
    """Choose the API servers' ports. The first never changes by itself: kubeconfigs name it.

    :param wanted: the first port as the user gave it; 0 = any other one, None = as remembered
    """
    first = remembered[0] if remembered else None
    if wanted:
        if not 0 < wanted < 65536:
            raise core_errors.InvalidValueError("api-port", wanted, "a port, 1 to 65535")
        first = wanted
    elif wanted == 0:
        first = None
    if first is not None and not free(first):
        raise errors.PortTakenError(first, name, _user(first))
    keys = [str(index) for index in range(count)]
    known = {str(index): port for index, port in enumerate(remembered)}
    if first is not None:
        known["0"] = first
    elif wanted == 0:
        known.pop("0", None)
    taken = {*avoid, *(remembered[:1] if wanted == 0 else ())}
    chosen = choose(keys, known, seed=seed, avoid=taken - {first}, free=free)
    return tuple(chosen[key] for key in keys)


def _next(fresh: Iterator[int], free: IsFree) -> int:
    for port in fresh:
        if free(port):
            return port
    raise errors.LocalError(f"no port from {RANGE.start} to {RANGE.stop - 1} is free")


def _user(port: int) -> str:
    """Name the process that listens on a port, as far as this user may see it and it still runs."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{fields[9]}]")
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cmdline").read_bytes() and any(
                str(fd.readlink()) in inodes for fd in (process / "fd").iterdir()
            ):
                return f"{process.name} ({(process / 'comm').read_text().strip()})"
        except OSError:
            continue
    return ""
