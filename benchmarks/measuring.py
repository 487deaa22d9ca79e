"""What a benchmark needs to know about processes, the machine and the API server's audit log."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import importlib.util
import json
import os
import platform
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

TICKS = os.sysconf("SC_CLK_TCK")
MIB = 1024.0


@dataclasses.dataclass(frozen=True)
class Usage:
    """What a process has used since it began."""

    cpu_seconds: float
    peak_mib: float


def usage(pid: int) -> Usage:
    """Read a process's CPU time, its children's not included, and its peak memory."""
    # The name may hold spaces and parentheses; what follows the last one does not.
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    status = Path(f"/proc/{pid}/status").read_text()
    (peak,) = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return Usage((int(stat[11]) + int(stat[12])) / TICKS, int(peak) / MIB)


def used(pids: Mapping[str, int], before: Mapping[str, Usage]) -> dict[str, dict[str, float]]:
    """Return what each process used since `before`, and its peak memory so far."""
    found = {name: usage(pid) for name, pid in pids.items()}
    return {
        name: {
            "cpu_seconds": round(now.cpu_seconds - before[name].cpu_seconds, 2),
            "peak_mib": round(now.peak_mib, 1),
        }
        for name, now in found.items()
    }


@dataclasses.dataclass(frozen=True)
class Busy:
    """How much CPU the whole machine has used since it began, and how long somebody waited for it."""

    cpu_seconds: float
    waited_seconds: float
    at: float


def busy() -> Busy:
    """Read what all processes together have used."""
    cpu = [int(value) for value in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    idle = cpu[3] + cpu[4]
    waited = 0
    pressure = Path("/proc/pressure/cpu")
    if pressure.exists():
        waited = int(pressure.read_text().split("\n", 1)[0].rpartition("total=")[2])
    return Busy((sum(cpu[:8]) - idle) / TICKS, waited / 1e6, time.monotonic())


def disturbed(before: Busy, ours: float) -> dict[str, float]:
    """Return how much others used the machine meanwhile.

    :param ours: CPU seconds of the processes that were measured
    """
    now = busy()
    seconds = now.at - before.at
    cores = os.cpu_count() or 1
    others = max(now.cpu_seconds - before.cpu_seconds - ours, 0.0)
    return {
        "cores_used_by_others": round(others / seconds, 2),
        "of_cores": cores,
        "share_of_time_waiting_for_cpu": round(
            (now.waited_seconds - before.waited_seconds) / seconds, 2
        ),
    }


def machine() -> dict[str, Any]:
    """Describe the machine and how busy it is."""
    model = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": model[0] if model else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "uvloop": importlib.util.find_spec("uvloop") is not None,
        "load_before": [round(value, 2) for value in os.getloadavg()],
        "date": dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": _commit(),
    }


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()


def audited(logs: Path) -> Iterator[dict[str, Any]]:
    """Yield the audit events in a platform's log directory, rotated files included."""
    for path in sorted(logs.glob("audit*.log")):
        with path.open() as lines:
            for line in lines:
                # The last line may be half written.
                if line.endswith("\n"):
                    yield json.loads(line)


def calls(events: Iterable[dict[str, Any]], since: str) -> dict[str, collections.Counter[str]]:
    """Count finished requests by user and by ``verb resource/subresource``.

    :param since: RFC 3339; requests received earlier do not count
    """
    found: dict[str, collections.Counter[str]] = {}
    for event in events:
        if event["requestReceivedTimestamp"] < since or event["stage"] != "ResponseComplete":
            continue
        target = event.get("objectRef") or {}
        resource = target.get("resource", event["requestURI"].partition("?")[0])
        if target.get("subresource"):
            resource += f"/{target['subresource']}"
        # One item of a list tells how many there are.
        verb = "count" if "limit=1&" in f"{event['requestURI']}&" else event["verb"]
        user = (event.get("impersonatedUser") or event["user"])["username"]
        found.setdefault(user, collections.Counter())[f"{verb} {resource}"] += 1
    return found


def now_rfc3339() -> str:
    """Return the time as the audit log writes it, for comparing as text."""
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
