"""The examples of docs/scheduler.md and docs/scheduler-plugins.md work as they stand."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest

from tenantry.cli import main
from tenantry.scheduler.engine import config
from tenantry.scheduler.engine import plugin as plugins
from tenantry.scheduler.scenarios import world

GUIDE = pathlib.Path(__file__).parents[2] / "docs/scheduler.md"
PAGE = pathlib.Path(__file__).parents[2] / "docs/scheduler-plugins.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_sample_plugin() -> None:
    plugin, chosen, test = BLOCKS[:3]
    names: dict[str, Any] = {}
    for block in (plugin, chosen, test):
        exec(compile(block, str(PAGE), "exec"), names)
    names["test_quiet_nodes_stay_quiet"]()


def test_sample_action() -> None:
    names: dict[str, Any] = {}
    exec(compile(BLOCKS[3], str(PAGE), "exec"), names)
    made = world.World(config.Config(actions=("drain",)))
    made.node("a", labels={"example.com/drain": ""})
    made.node("b")
    made.queue("q", 8)
    made.job("here", "q", on="a")
    made.job("there", "q", on="b")
    assert [e.task.name for e in made.run().evictions] == ["here-0"]


def test_every_extension_point_is_described() -> None:
    text = PAGE.read_text(encoding="utf-8")
    missing = [name for name in plugins.Points.__dataclass_fields__ if f"`{name}`" not in text]
    assert missing == []


def test_guide(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What the guide shows is what comes out, timings apart."""
    text = GUIDE.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (snapshot,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    pathlib.Path("small.json").write_text(snapshot, encoding="utf-8")
    shown = re.findall(r"```console\n\$ tenantry (.*?)\n(.*?)```", text, re.DOTALL)
    assert len(shown) == 2
    for command, wanted in shown:
        assert main.run(command.split()) == 0
        lines = capsys.readouterr().out.splitlines()
        found = [line.rstrip() for line in lines if line and not line.startswith("Time:")]
        assert found == [line for line in wanted.splitlines() if line]
    (sample,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(sample, str(GUIDE), "exec"), {})
    told = capsys.readouterr().out
    assert told.startswith("['train-1']\nOverLimit ")
    assert "raise the gpu limit of queue speech" in told
