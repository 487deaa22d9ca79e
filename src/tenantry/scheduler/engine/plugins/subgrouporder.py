"""Serve subgroups that lack their minimum first, then the relatively smallest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenantry.scheduler.engine import gangs, plugin, session


class SubgroupOrder:
    """Orders the children of a group."""

    name = "subgrouporder"

    def open(self, session: session.Session) -> None:
        """Register the key."""
        state = session.state
        session.points.member_key = lambda member: gangs.order(member, state)


def build(arguments: Mapping[str, Any]) -> plugin.Plugin:
    """Return the plugin; it takes no arguments."""
    del arguments
    return SubgroupOrder()
