"""Run the scheduling scenarios and print the score, by kind and by feature.

    python benchmarks/scheduler_scenarios.py [FILE] [--json FILE] [--id ID ...]

*strict* applies every rule of the format; *lenient* asks for the same outcome: states of each
job, who was evicted, and nodes where they are named. FILE is a table as JSON lines, plain or
gzipped.
"""

from __future__ import annotations

import argparse
import collections
import gzip
import json
import pathlib
from typing import Any

from tenantry.scheduler.scenarios import compare, lines, runner

TABLE = pathlib.Path(__file__).parents[1] / "tests/fixtures/scheduler/scenarios.jsonl.gz"
Json = dict[str, Any]


def read(path: pathlib.Path) -> list[Json]:
    """Return the lines of a table."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return [json.loads(line) for line in data.splitlines() if line.strip()]


def judge(line: Json) -> tuple[list[str], list[str]]:
    """Return the strict and the lenient differences of one line."""
    if line["kind"] != "cycle":
        found = lines.differences(line)
        return found, found
    states, calls = runner.run(line)
    return compare.strict(line, states, calls), compare.lenient(line, states)


def main() -> None:
    """Run a table and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=pathlib.Path, default=TABLE)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--id", action="append", help="run only lines whose id starts with this")
    given = parser.parse_args()
    total: collections.Counter[str] = collections.Counter()
    strict: collections.Counter[str] = collections.Counter()
    lenient: collections.Counter[str] = collections.Counter()
    results: list[Json] = []
    for line in read(given.file):
        if given.id and not any(line["id"].startswith(wanted) for wanted in given.id):
            continue
        try:
            hard, soft = judge(line)
        except Exception as problem:
            hard = soft = [f"error: {problem!r}"]
        groups = [line["kind"] if line["kind"] != "cycle" else f"cycle/{line['source_action']}"]
        groups += [f"feature/{name}" for name in line.get("features", ())]
        groups.append("all cycles" if line["kind"] == "cycle" else "all decision lines")
        for group in groups:
            total[group] += 1
            strict[group] += not hard
            lenient[group] += not soft
        if hard:
            print(f"{line['id']} {'strict only' if not soft else 'both'}: {'; '.join(hard[:3])}")
        results.append({"id": line["id"], "strict": hard, "lenient": soft})
    print(f"{'':34}{'lines':>7}{'strict':>8}{'lenient':>8}")
    for group in sorted(total):
        print(f"{group:34}{total[group]:7}{strict[group]:8}{lenient[group]:8}")
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
