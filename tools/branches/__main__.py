"""Say which share of its branches each package's tests take; exit 1 where it is too small.

python tools/branches REPORT LEAST   REPORT is coverage's JSON, LEAST a percentage

Counted are branches alone: coverage's own percentage mixes them with lines, which flatters.
"""

from __future__ import annotations

import collections
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def shares(report: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Return branches taken, and branches, of each package of tenantry."""
    found: dict[str, tuple[int, int]] = collections.defaultdict(lambda: (0, 0))
    for name, file in report["files"].items():
        parts = Path(name).parts
        package = parts[parts.index("tenantry") + 1]
        taken, there = found[package]
        summary = file["summary"]
        found[package] = taken + summary["covered_branches"], there + summary["num_branches"]
    return dict(found)


def main(report: str, least: str) -> int:
    """Print the shares; return the exit code."""
    too_few = []
    for package, (taken, there) in sorted(shares(json.loads(Path(report).read_text())).items()):
        percent = 100 * taken / there if there else 100.0
        print(f"{package:10} {percent:5.1f} % of {there} branches")
        if percent < float(least):
            too_few.append(package)
    if too_few:
        print(f"branches: under {least} %: {', '.join(too_few)}", file=sys.stderr)
    return int(bool(too_few))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
