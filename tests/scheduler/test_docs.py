"""The examples of docs/scheduler-plugins.md work as they stand."""

from __future__ import annotations

import pathlib
import re
from typing import Any

from tenantry.scheduler.engine import config
from tenantry.scheduler.engine import plugin as plugins
from tenantry.scheduler.scenarios import world

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
