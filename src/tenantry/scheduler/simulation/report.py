"""Show what simulated cycles did, as JSON or as tables."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

from tenantry.scheduler.engine import decisions, humanise
from tenantry.scheduler.simulation import replay

Json = dict[str, Any]
_SHOWN = 20
_REASONS = 8


def as_json(played: Sequence[replay.Cycle]) -> Json:
    """Return everything that the cycles decided."""
    return {"cycles": [_cycle(one) for one in played]}


def _cycle(one: replay.Cycle) -> Json:
    made = one.decided
    return {
        "cycle": one.number,
        "time": one.time,
        "gpus": {"total": one.gpus[0] / 1000, "used": one.gpus[1] / 1000},
        "pendingPods": one.pending,
        "binds": [
            {"pod": _pod(bind.task), "node": bind.node, "gpuGroups": list(bind.groups)}
            for bind in made.binds
        ],
        "evictions": [
            {
                "pod": _pod(eviction.task),
                "node": eviction.node,
                "action": eviction.action,
                "for": "/".join(eviction.evictor) if eviction.evictor else None,
                "message": eviction.message,
            }
            for eviction in made.evictions
        ],
        "plans": [{"pod": _pod(plan.task), "node": plan.node} for plan in made.plans],
        "reasons": {
            "/".join(key): [
                {
                    "reason": reason.code,
                    "message": reason.message,
                    "remedy": reason.remedy,
                    "details": dict(reason.details),
                }
                for reason in found
            ]
            for key, found in sorted(made.reasons.items())
        },
        "shares": [
            {
                "queue": share.name,
                "parent": share.parent,
                "quota": _gpus(share.quota),
                "limit": _gpus(share.limit),
                "fairShare": _gpus(share.fair),
                "allocated": _gpus(share.allocated),
                "requested": _gpus(share.request),
            }
            for share in one.shares
        ],
        "timings": {timing.name: round(timing.seconds, 6) for timing in made.timings},
        "errors": list(made.errors),
    }


def as_text(played: Sequence[replay.Cycle]) -> str:
    """Return tables for people: decisions, shares, waiting jobs, timings."""
    lines: list[str] = []
    for one in played:
        lines += _text(one)
    return "\n".join(lines)


def _text(one: replay.Cycle) -> list[str]:
    made = one.decided
    lines = [
        f"Cycle {one.number}: {len(made.binds)} started, {len(made.evictions)} evicted, "
        f"{len(made.plans)} planned, {one.pending} pods pending; "
        f"{one.gpus[1] / 1000:g} of {one.gpus[0] / 1000:g} GPUs in use"
    ]
    rows = [
        [
            "  " * share.depth + share.name,
            *(_shown(v) for v in (share.quota, share.limit, share.fair, share.allocated)),
            _shown(share.request),
        ]
        for share in _tree(one.shares)
    ]
    lines += table(["QUEUE", "QUOTA", "LIMIT", "FAIR SHARE", "ALLOCATED", "REQUESTED"], rows)
    decided = [["start", _pod(b.task), b.node, ""] for b in made.binds]
    decided += [
        ["evict", _pod(e.task), e.node, "/".join(e.evictor) if e.evictor else e.action]
        for e in made.evictions
    ]
    decided += [["plan", _pod(p.task), p.node, ""] for p in made.plans]
    if decided:
        lines += ["", *table(["DECISION", "POD", "NODE", "FOR"], decided[:_SHOWN])]
        if len(decided) > _SHOWN:
            lines.append(f"... and {len(decided) - _SHOWN} more (-o json shows all)")
    if made.reasons:
        alike = sorted(waiting(made).items(), key=lambda entry: (-len(entry[1]), entry[0]))
        told = [
            [str(len(names)), f"{names[0]}{', ...' * (len(names) > 1)}", code, text]
            for (code, text, _), names in alike[:_REASONS]
        ]
        lines += ["", *table(["JOBS", "LIKE", "WAIT BECAUSE", "MESSAGE"], told)]
        if len(alike) > _REASONS:
            rest = sum(len(names) for _, names in alike[_REASONS:])
            lines.append(f"... and {rest} more for other reasons (-o json shows all)")
    timings = ", ".join(f"{t.name} {t.seconds * 1000:.1f} ms" for t in made.timings)
    return [*lines, "", f"Time: {timings}", *made.errors, ""]


def waiting(made: decisions.Decisions) -> dict[tuple[str, str, str], list[str]]:
    """Return the jobs that wait by code, message and remedy; those that wait alike are together."""
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for key, found in sorted(made.reasons.items()):
        first = found[0]
        pod = str(first.details.get("pod") or "")
        text = first.message.replace(f"pod {pod}", "the pod") if pod else first.message
        grouped.setdefault((first.code, text, first.remedy), []).append("/".join(key))
    return grouped


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Pad columns; the last one is left as it is."""
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    return [
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    ]


def _tree(shares: Sequence[replay.Share]) -> list[replay.Share]:
    """Put children under their parents."""
    below: dict[str, list[replay.Share]] = collections.defaultdict(list)
    for share in shares:
        below[share.parent].append(share)
    ordered: list[replay.Share] = []
    stack = below[""][::-1]
    while stack:
        share = stack.pop()
        ordered.append(share)
        stack += below[share.name][::-1]
    return ordered


def _pod(task: Any) -> str:
    return f"{task.namespace}/{task.name}"


def _gpus(amount: float) -> float:
    return amount if amount == -1 else amount / 1000


def _shown(amount: float) -> str:
    return humanise.amount("gpu", amount).removesuffix(" GPUs")
