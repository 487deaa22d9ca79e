"""Addresses of this machine for API servers that shall look like several machines.

The API server does not list loopback addresses in the EndpointSlice `kubernetes`. So addresses of
the block for benchmarks (RFC 2544) are put on the loopback interface, which needs the right to
configure the network; where somebody did that before, no right is needed.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import zlib
from collections.abc import Callable, Iterable

import msgspec

from tenantry.local import plan

#: What to say to somebody who may not.
REMEDY = "as root, add some: ip address add 198.18.0.1/32 dev lo (see the guide)"

_TIMEOUT = 10.0


def wanted(name: str, count: int) -> tuple[str, ...]:
    """Return the addresses of a platform, which depend on its name only; pure."""
    block = zlib.crc32(name.encode()) % 250
    return tuple(f"198.18.{block}.{number}" for number in range(1, count + 1))


def own(name: str, count: int) -> tuple[str, ...]:
    """Return as many addresses that servers can listen on; () where that cannot be had."""
    found = wanted(name, count)
    added: list[str] = []
    for address in found:
        if _usable(address):
            continue
        if not _added(address):
            give_back(added)
            return ()
        added.append(address)
    return found


def assigned(described: plan.Plan, note: Callable[[str], None]) -> plan.Plan:
    """Give each API server an address of its own, where this machine lets us."""
    count = len(described.api_ports)
    found = own(described.name, count)
    if not found:
        note(
            f"no {count} addresses for the API servers, so each has a port of its own and the "
            f"EndpointSlice kubernetes stays empty; {REMEDY}"
        )
        return described
    ports = described.api_ports[:1] * count
    return msgspec.structs.replace(described, addresses=found, api_ports=ports)


def give_back(found: Iterable[str]) -> None:
    """Take addresses off the loopback interface again, as far as we may."""
    tool = _tool()
    for address in found:
        if tool is not None:
            command = [tool, "address", "del", f"{address}/32", "dev", "lo"]
            subprocess.run(command, capture_output=True, timeout=_TIMEOUT, check=False)


def _tool() -> str | None:
    return shutil.which("ip") or shutil.which("ip", path="/usr/sbin:/sbin")


def _usable(address: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def _added(address: str) -> bool:
    tool = _tool()
    if tool is None:
        return False
    command = [tool, "address", "add", f"{address}/32", "dev", "lo"]
    done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT, check=False)
    return done.returncode == 0 and _usable(address)
