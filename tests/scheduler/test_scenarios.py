"""The recorded scenarios: the set of known deviations is exactly this."""

from __future__ import annotations

import gzip
import json
import pathlib
from typing import Any

import pytest

from tenantry.scheduler.scenarios import compare, lines, runner

TABLE = pathlib.Path(__file__).parents[1] / "fixtures/scheduler/scenarios.jsonl.gz"
LINES: list[dict[str, Any]] = [
    json.loads(line) for line in gzip.decompress(TABLE.read_bytes()).splitlines()
]
CYCLES = [line for line in LINES if line["kind"] == "cycle"]
DECISIONS = [line for line in LINES if line["kind"] != "cycle"]

#: Ids that differ on purpose; each with its reason in docs/designs/scheduler-differences.md.
KNOWN: dict[str, str] = {}


@pytest.mark.parametrize("line", CYCLES, ids=lambda line: line["id"])
def test_cycle(line: dict[str, Any]) -> None:
    states, calls = runner.run(line)
    if line["id"] in KNOWN:
        assert compare.strict(line, states, calls), "no longer differs: take it off the list"
        return
    assert compare.strict(line, states, calls) == []
    assert compare.lenient(line, states) == []


@pytest.mark.parametrize("line", DECISIONS, ids=lambda line: line["id"])
def test_decision_line(line: dict[str, Any]) -> None:
    assert lines.differences(line) == []


def test_the_comparator_notices() -> None:
    line = next(line for line in CYCLES if line["expected"] and line["expected"].get("jobs"))
    states, calls = runner.run(line)
    broken = json.loads(json.dumps(states, default=str))
    job = next(iter(line["expected"]["jobs"]))
    pod = next(j for j in line["jobs"] if j["name"] == job)["tasks"][0]["pod"]
    broken[0]["tasks"][pod]["status"] = "Failed"
    assert compare.strict(line, broken, calls)
    assert compare.lenient(line, broken)
