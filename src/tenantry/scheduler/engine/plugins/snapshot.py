"""Accept the name that KAI's configuration lists; snapshots are `simulate`'s business here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.scheduler.engine import plugin, session


class Snapshot:
    """Does nothing."""

    name = "snapshot"

    def open(self, session: session.Session) -> None:
        """Register nothing."""


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin; it takes no arguments."""
    del arguments
    return Snapshot()
