"""The event loops that tests of the client and the runtime run under."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop


def factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Choose uvloop, as production does; long runs take asyncio's own loop, too.

    Virtual time has a loop of its own, which is one of asyncio's.
    """
    virtual = item.get_closest_marker("looptime") is not None
    made: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {}
    if not virtual:
        made["uvloop"] = uvloop.new_event_loop
    if virtual or config.getoption("markexpr") != "not long":
        made["asyncio"] = asyncio.new_event_loop
    return made
