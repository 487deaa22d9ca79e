"""Order tasks by their `task-priority` label: higher first, then those without one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.scheduler.engine import plugin, session


class TaskOrder:
    """Orders the tasks of a pod set."""

    name = "taskorder"

    def open(self, session: session.Session) -> None:
        """Register the key."""
        tasks = session.state.tasks

        def key(row: int) -> tuple[int, int]:
            task = tasks[row]
            if task is None or task.priority is None:
                return 1, 0
            return 0, -task.priority

        session.points.task_keys.append(key)


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin; it takes no arguments."""
    del arguments
    return TaskOrder()
