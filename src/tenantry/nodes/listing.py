"""Dedicated nodes as seed 000 lists them: name, tab, taint; sorted as `sort` does; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tenantry.nodes import views


def lines(nodes: Iterable[views.NodeView], keys: Collection[str]) -> list[str]:
    """Return a line for each taint of a node that gives it to a tenant."""
    return sorted(
        f"{node.name}\t{taint}" for node in nodes for taint in node.taints if taint.key in keys
    )
