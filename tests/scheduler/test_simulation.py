"""`tenantry scheduler simulate`."""

from __future__ import annotations

import html.parser
import json
import pathlib
from typing import Any

import pytest

from tenantry.cli import main

SNAPSHOTS = pathlib.Path(__file__).parents[1] / "fixtures/scheduler/snapshots"


def simulate(capsys: pytest.CaptureFixture[str], *arguments: str, case: str = "b") -> str:
    path = str(SNAPSHOTS / f"{case}.zip")
    code = main.run(
        ["scheduler", "simulate", "--snapshot", path, "--now", "2000000000", *arguments]
    )
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    text = simulate(capsys)
    assert "Cycle 1: 0 started, 100 evicted, 100 planned" in text
    assert "Cycle 2: 100 started, 0 evicted, 0 planned" in text
    assert "queue-b   2000        unlimited   100          100         100" in text


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    played: Any = json.loads(simulate(capsys, "-o", "json", "--cycles", "2"))
    assert [len(one["evictions"]) for one in played["cycles"]] == [100, 0]
    assert played["cycles"][0]["evictions"][0]["for"].startswith("ns/p-")
    assert set(played["cycles"][0]["timings"]) == {
        "snapshot",
        "allocate",
        "consolidation",
        "reclaim",
        "preempt",
        "stalegangeviction",
    }


def test_what_if_more_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    text = simulate(capsys, "--add-nodes", "13", "--cycles", "1")
    assert "Cycle 1: 100 started, 0 evicted" in text


def test_what_if_another_quota(capsys: pytest.CaptureFixture[str]) -> None:
    text = simulate(capsys, "--quota", "queue-b=0", "--quota", "queue-a=4000", "--cycles", "1")
    assert "Cycle 1: 0 started, 0 evicted" in text


@pytest.mark.parametrize(
    "arguments",
    [
        ("--quota", "nope=1"),
        ("--quota", "queue-b=lots"),
        ("--limit", "queue-b=-3"),
        ("--add-nodes", "2", "--like", "nope"),
        ("--drop-node", "nope"),
    ],
)
def test_mistakes_are_named(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    path = str(SNAPSHOTS / "c.zip")
    assert main.run(["scheduler", "simulate", "--snapshot", path, *arguments]) == 1
    assert "Invalid value" in capsys.readouterr().err


class Reader(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_page(capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    path = tmp_path / "page.html"
    simulate(capsys, "--html", str(path), "--cycles", "3")
    content = path.read_text(encoding="utf-8")
    reader = Reader()
    reader.feed(content)
    text = " ".join(" ".join(reader.text).split())
    for heading in ("Occupancy", "Queues", "Nodes at the end", "Shares at the end", "Time"):
        assert heading in text
    assert "100 pods were started and 100 evicted" in text
    assert reader.tags.count("polyline") == 3 + 2 * 2
    assert "<script" not in content
    assert "http" not in content
