"""Prefer nodes where the task can start now to nodes that others are leaving."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.scheduler.engine import plugin, session

SCORE = 1000.0


class NodeAvailability:
    """Scores nodes with idle room."""

    name = "nodeavailability"

    def open(self, session: session.Session) -> None:
        """Register the score; the ranker itself knows where a task fits now."""
        session.ranker.now_score = SCORE


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin; it takes no arguments."""
    del arguments
    return NodeAvailability()
