"""Which borrowed nodes a tenant wants back; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tenantry.nodes import occupants


def called(
    nodes: Iterable[str],
    found: Mapping[str, occupants.Occupants],
    *,
    waiting: int,
    before: Iterable[str],
) -> set[str]:
    """Return the nodes that others must leave.

    One more node at a time is called while pods of the tenant wait, the one on which it disturbs
    the fewest; a node that was called stays so until the tenant has no pods on it and none wait.

    :param waiting: how many pods of the tenant find no node
    :param before: nodes that are called already
    """
    listed = sorted(nodes)
    kept = {node for node in before if node in listed and (waiting or found[node].own)}
    # As long as others still leave, it is not known whether more room is needed.
    if waiting and not any(found[node].foreign for node in kept):
        lent = [node for node in listed if node not in kept and found[node].foreign]
        if lent:
            kept.add(min(lent, key=lambda node: (len(found[node].foreign), node)))
    return kept
