"""`tenantry scheduler simulate`."""

from __future__ import annotations

import dataclasses
import html.parser
import json
import pathlib
import re
from typing import Any

import pytest

from tenantry.cli import main
from tenantry.scheduler.scenarios import world
from tenantry.scheduler.simulation import charts, page, replay

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
    text = simulate(capsys, "--cycles", "2")
    assert "Cycle 1: 0 started, 100 evicted, 100 planned" in text
    assert "Cycle 2: 100 started, 0 evicted, 0 planned" in text
    assert "queue-b   2000        unlimited   100          100         100" in text
    # Jobs that wait alike are one line.
    (line,) = [line for line in text.splitlines() if "PodSchedulingErrors" in line]
    assert line.split()[:2] == ["100", "ns/r-03900,"]


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
        ("--quota", "queue-b=nan"),
        ("--add-nodes", "2", "--like", "nope"),
        ("--add-nodes", "-1"),
        ("--drop-node", "nope"),
    ],
)
def test_mistakes_are_named(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    path = str(SNAPSHOTS / "c.zip")
    assert main.run(["scheduler", "simulate", "--snapshot", path, *arguments]) == 1
    assert "Invalid value" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [("--period", "-1"), ("--now", "nan"), ("--now", "inf"), ("--cycles", "0")]
)
def test_times_are_bounded(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    path = str(SNAPSHOTS / "c.zip")
    assert main.run(["scheduler", "simulate", "--snapshot", path, *arguments]) != 0
    assert arguments[0] in capsys.readouterr().err


def test_page_that_cannot_be_written(
    capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    path, page_file = str(SNAPSHOTS / "c.zip"), str(tmp_path / "no/page.html")
    arguments = ["--cycles", "1", "--html", page_file]
    assert main.run(["scheduler", "simulate", "--snapshot", path, *arguments]) == 1
    assert "a file that can be written (No such file or directory)" in capsys.readouterr().err


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
    for heading in (
        "What happened",
        "Who holds the GPUs",
        "Pods in each cycle",
        "Fair shares",
        "How full the nodes are",
        "Shares at the end",
        "Who waits, and why",
        "Time",
    ):
        assert heading in text
    assert "Cycle 1: 100 pods of queue queue-a , which holds more than its due" in text
    assert "Cycle 2: pods started: 100 of queue queue-b ." in text
    assert "Cycle 3: nothing had to be decided; 100 pods wait." in text
    assert reader.tags.count("svg") >= 4
    # The start and three cycles, for each queue: what it holds is drawn as a line with dots.
    assert content.count('class="dots"') == 2 * 4
    # Self-contained: no script, nothing to fetch; the one address is a name space.
    assert "script" not in reader.tags
    assert set(re.findall(r"https?://[^\s\"'<>]+", content)) == {"http://www.w3.org/2000/svg"}
    assert len(content) < 200_000


def test_equal_simulations_make_equal_charts() -> None:
    def drawn() -> str:
        return charts.stacked("x", ["start", "cycle 1"], [("a", [1, 2], False)], unit="GPUs")

    assert drawn() == drawn()


def test_many_cycles_are_drawn_as_areas_and_many_queues_together() -> None:
    made = world.World()
    for index in range(20):
        made.node(f"n{index:02d}", gpus=1)
    for index in range(20):
        made.queue(f"q{index:02d}", 1)
        made.job(f"j{index:02d}", f"q{index:02d}", created=float(index))
    one = replay.run(made.seen, made.engine.config, cycles=1, now=world.NOW)[0]
    many = [dataclasses.replace(one, number=number) for number in range(1, 41)]
    text = page.render(many, "many")
    assert "13 other queues" in text
    assert "20 of queue" not in text
    assert 'class="series serie-0' in text
    assert "And " in text


def test_jobs_that_wait_alike_are_told_together() -> None:
    made = world.World()
    made.node("n", gpus=1)
    made.queue("q", 9)
    for index in range(4):
        made.job(f"j{index}", "q", created=float(index))
    played = replay.run(made.seen, made.engine.config, cycles=2, now=world.NOW)
    text = page.render(played, "waiting", replay.start(made.seen, made.engine.config, now=0.0))
    assert "ns/j1, ns/j2, ns/j3" in text
    assert "Resources were not found for the pod due to" in text


def test_names_are_escaped() -> None:
    made = world.World()
    made.node("n<b>", gpus=1)
    made.queue("<script>alert(1)</script>", 9)
    made.job("j", "<script>alert(1)</script>")
    made.job("k", "<script>alert(1)</script>", created=2.0)
    played = replay.run(made.seen, made.engine.config, cycles=1, now=world.NOW)
    reader = Reader()
    reader.feed(page.render(played, "<script>"))
    assert "script" not in reader.tags
