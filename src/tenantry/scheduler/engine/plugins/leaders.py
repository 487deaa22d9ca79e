"""Start the leading pod of a distributed job first: Kubeflow masters and Ray heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.scheduler.engine import plugin, session

#: Values of `specs.Task.leader`.
KUBEFLOW, RAY = 1, 2


class Leaders:
    """Puts leading pods before all others of their pod set."""

    name = "leaders"

    def open(self, session: session.Session) -> None:
        """Register the key once, whichever of its two names asks."""
        if self.name in session.notes:
            return
        session.notes[self.name] = True
        tasks = session.state.tasks

        def key(row: int) -> int:
            task = tasks[row]
            return task.leader or 3 if task is not None else 3

        session.points.task_keys.append(key)


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin; it takes no arguments."""
    del arguments
    return Leaders()
