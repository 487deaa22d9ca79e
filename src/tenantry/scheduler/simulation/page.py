"""One HTML page that tells a simulation: what happened, who holds what, and why jobs wait.

Self-contained: one file, no script, no request, so that it can be mailed and opened anywhere.
"""

from __future__ import annotations

import collections
import html
from collections.abc import Sequence

from tenantry.scheduler.simulation import charts, replay, report

_MOST_QUEUES = 7
_MOST_SENTENCES = 20

_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.55 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif;
  margin: 2rem auto 4rem; max-width: 62rem; color: #1f2937; background: #fff; padding: 0 1.2rem; }
h1 { font-size: 1.7rem; margin-bottom: .3rem; }
h2 { font-size: 1.2rem; margin: 2.6rem 0 .3rem; }
p, li { color: #374151; max-width: 50rem; } p.note { color: #6b7280; font-size: .9rem; }
table { border-collapse: collapse; font-size: .9rem; width: 100%; margin-top: .6rem; }
th { color: #6b7280; font-weight: 600; vertical-align: bottom; }
th, td { text-align: left; padding: .3rem .7rem; border-bottom: 1px solid #e5e7eb; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.figures { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1.2rem 0; }
.figures div { border: 1px solid #e5e7eb; border-radius: .5rem; padding: .5rem 1.1rem; }
.figures b { display: block; font-size: 1.5rem; line-height: 1.3; }
.figures span { color: #6b7280; font-size: .85rem; }
svg { width: 100%; height: auto; display: block; }
"""


def render(played: Sequence[replay.Cycle], title: str, start: replay.Cycle | None = None) -> str:
    """Return the page.

    :param start: the cluster before the first cycle
    """
    shown = [*([start] if start is not None else []), *played]
    last = played[-1]
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width'>",
        f"<title>{_e(title)}</title><style>{_STYLE}</style>",
        f"<h1>{_e(title)}</h1>",
        "<p>A scheduler decides, cycle after cycle, which waiting pods start on which node, and "
        "which running pods must make room. This page shows what it would decide for a copy of "
        "this cluster. In the simulation a pod that is started runs on, and one that is evicted "
        "comes back and waits.</p>",
        _figures(played, last),
        _story(played),
        _holders(shown),
        _pods(played),
        _fairness(shown),
        _nodes(last),
        _shares(last),
        _waiting(last),
        _evicted(played),
        _timings(played),
        "</html>",
    ]
    return "\n".join(parts)


def _figures(played: Sequence[replay.Cycle], last: replay.Cycle) -> str:
    started = sum(len(one.decided.binds) for one in played)
    evicted = sum(len(one.decided.evictions) for one in played)
    boxes = (
        (str(len(played)), "cycles played"),
        (str(started), "pods started"),
        (str(evicted), "pods evicted"),
        (f"{last.gpus[1] / 1000:g} of {last.gpus[0] / 1000:g}", "GPUs in use at the end"),
        (str(last.pending), "pods waiting at the end"),
    )
    inner = "".join(f"<div><b>{number}</b><span>{text}</span></div>" for number, text in boxes)
    return f"<div class=figures>{inner}</div>"


def _story(played: Sequence[replay.Cycle]) -> str:
    sentences = [sentence for one in played for sentence in _sentences(one)]
    more = len(sentences) - _MOST_SENTENCES
    items = "".join(f"<li>{text}</li>" for text in sentences[:_MOST_SENTENCES])
    return (
        f"<h2>What happened</h2><ul>{items}</ul>"
        f"{f'<p class=note>And {more} more such lines.</p>' if more > 0 else ''}"
    )


def _sentences(one: replay.Cycle) -> list[str]:
    """Tell one cycle in words, evictions by action and queues."""
    where = f"<b>Cycle {one.number}:</b>"
    found = []
    moves = collections.Counter(
        (
            eviction.action,
            one.queues.get(eviction.task.job or ("", ""), ""),
            one.queues.get(eviction.evictor or ("", ""), ""),
        )
        for eviction in one.decided.evictions
    )
    for (action, loser, winner), number in sorted(moves.items()):
        pods = f"{number} {'pod' if number == 1 else 'pods'} of queue <b>{_e(loser)}</b>"
        verb = "was" if number == 1 else "were"
        why = {
            "reclaim": f"which holds more than its due, {verb} asked to leave: queue "
            f"<b>{_e(winner)}</b> reclaims its fair share.",
            "preempt": f"{verb} asked to leave in favour of more important jobs of that queue.",
            "consolidation": f"{verb} asked to move together, so that a larger job of queue "
            f"<b>{_e(winner)}</b> finds room.",
            "stalegangeviction": f"{verb} stopped, because too few pods of their group are left.",
        }.get(action, f"{verb} evicted by {_e(action)}.")
        comma = "," if action == "reclaim" else ""
        found.append(f"{where} {pods}{comma} {why}")
    started = collections.Counter(
        one.queues.get(bind.task.job or ("", ""), "") for bind in one.decided.binds
    )
    planned = len(one.decided.plans)
    texts = [f"{number} of queue <b>{_e(queue)}</b>" for queue, number in sorted(started.items())]
    if texts:
        found.append(f"{where} pods started: {', '.join(texts)}.")
    if planned:
        found.append(
            f"{where} {planned} {'pod has' if planned == 1 else 'pods have'} a place reserved and "
            f"{'starts' if planned == 1 else 'start'} as soon as the others have left."
        )
    if not found:
        waiting = f"; {one.pending} pods wait" if one.pending else ""
        found.append(f"{where} nothing had to be decided{waiting}.")
    return found


def _largest(shown: Sequence[replay.Cycle]) -> tuple[list[str], int]:
    """Return the leaf queues that matter most, and how many are left out."""
    parents = {share.parent for one in shown for share in one.shares}
    size: dict[str, float] = collections.defaultdict(float)
    for one in shown:
        for share in one.shares:
            if share.name not in parents:
                size[share.name] = max(size[share.name], share.allocated, share.request)
    names = sorted(size, key=lambda name: (-size[name], name))
    names = [name for name in names if size[name]] or names
    return sorted(names[:_MOST_QUEUES]), max(len(names) - _MOST_QUEUES, 0)


def _labels(shown: Sequence[replay.Cycle]) -> list[str]:
    return ["start" if one.number == 0 else f"cycle {one.number}" for one in shown]


def _course(shown: Sequence[replay.Cycle], queue: str, field: str) -> list[float]:
    by_name = [{share.name: share for share in one.shares} for one in shown]
    return [
        max(getattr(shares[queue], field), 0) / 1000 if queue in shares else 0.0
        for shares in by_name
    ]


def _holders(shown: Sequence[replay.Cycle]) -> str:
    queues, others = _largest(shown)
    series: list[charts.Series] = [
        (queue, _course(shown, queue, "allocated"), False) for queue in queues
    ]
    whole = [one.gpus[0] / 1000 for one in shown]
    held = [sum(values[i] for _, values, _ in series) for i in range(len(shown))]
    if others:
        roots = [sum(max(s.allocated, 0) for s in one.shares if not s.parent) for one in shown]
        rest = [max(root / 1000 - own, 0.0) for root, own in zip(roots, held, strict=True)]
        series.append((f"{others} other queues", rest, False))
        held = [own + more for own, more in zip(held, rest, strict=True)]
    idle = [max(a - b, 0.0) for a, b in zip(whole, held, strict=True)]
    series.append(("idle", idle, False))
    return (
        "<h2>Who holds the GPUs</h2><p>Each bar is the whole cluster after a cycle, divided into "
        "what each queue holds or has reserved. What must leave is not counted any more.</p>"
        + charts.stacked("holders", _labels(shown), series, unit="GPUs")
    )


def _pods(played: Sequence[replay.Cycle]) -> str:
    series: list[charts.Series] = [
        ("started", [len(one.decided.binds) for one in played], False),
        ("evicted", [len(one.decided.evictions) for one in played], False),
        ("place reserved", [len(one.decided.plans) for one in played], False),
        ("waiting without a place", [one.pending for one in played], False),
    ]
    return (
        "<h2>Pods in each cycle</h2><p>How many pods were started, evicted, or got a place "
        "reserved in each cycle, and how many still waited after it.</p>"
        + charts.bars("pods", _labels(played), series, unit="pods")
    )


def _fairness(shown: Sequence[replay.Cycle]) -> str:
    queues, others = _largest(shown)
    series: list[charts.Series] = []
    for queue in queues:
        series.append((queue, _course(shown, queue, "allocated"), False))
        series.append((f"{queue}: fair share", _course(shown, queue, "fair"), True))
    note = f"<p class=note>The largest queues; {others} more are not drawn.</p>" if others else ""
    return (
        "<h2>Fair shares</h2><p>Solid: the GPUs that a queue holds or has reserved. Dashed: its "
        "fair share, which it may take back from others. A solid line above the dashed one of the "
        "same colour is borrowed; one below it, with pods waiting, is owed.</p>"
        + charts.lines("shares", _labels(shown), series, unit="GPUs")
        + note
    )


def _nodes(last: replay.Cycle) -> str:
    if not last.nodes:
        return ""
    bounds = (0.0, 0.25, 0.5, 0.75, 0.999)
    names = ("none used", "up to 25 %", "up to 50 %", "up to 75 %", "up to 99 %", "all used")
    counts = [0] * len(names)
    for _, used in last.nodes:
        counts[sum(used > bound + 1e-9 for bound in bounds)] += 1
    return (
        "<h2>How full the nodes are</h2><p>The nodes with GPUs by the part of their GPUs that is "
        "in use at the end. Many nodes in the middle mean that large jobs find no room although "
        "GPUs are idle.</p>" + charts.bars("nodes", names, [("nodes", counts, False)], unit="nodes")
    )


def _shares(last: replay.Cycle) -> str:
    rows = "".join(
        f"<tr><td style='padding-left:{0.7 + share.depth * 1.4:.1f}rem'>{_e(share.name)}</td>"
        + "".join(
            f"<td class=n>{_amount(value)}</td>"
            for value in (share.quota, share.limit, share.fair, share.allocated, share.request)
        )
        + "</tr>"
        for share in last.shares
    )
    return (
        "<h2>Shares at the end</h2><p>GPUs. The quota is guaranteed, the limit a ceiling, the fair "
        "share what the queue is due while others ask for the rest.</p><table><tr><th>Queue</th>"
        "<th class=n>Quota</th><th class=n>Limit</th><th class=n>Fair share</th>"
        f"<th class=n>Allocated</th><th class=n>Requested</th></tr>{rows}</table>"
    )


def _waiting(last: replay.Cycle) -> str:
    if not last.decided.reasons:
        return "<h2>Who waits</h2><p>Nobody.</p>"
    grouped = report.waiting(last.decided)
    rows = "".join(
        f"<tr><td>{_e(', '.join(names[:3]))}{f' and {len(names) - 3} more' * (len(names) > 3)}</td>"
        f"<td>{_e(code)}</td><td>{_e(message)}</td><td>{_e(remedy)}</td></tr>"
        for (code, message, remedy), names in list(grouped.items())[:50]
    )
    rest = sum(len(names) for names in list(grouped.values())[50:])
    more = f"<p>And {rest} more jobs for other reasons.</p>" if rest else ""
    return (
        "<h2>Who waits, and why</h2><table><tr><th>Job</th><th>Reason</th><th>In words</th>"
        f"<th>What would help</th></tr>{rows}</table>{more}"
    )


def _evicted(played: Sequence[replay.Cycle]) -> str:
    rows = [
        f"<tr><td class=n>{one.number}</td><td>{_e(eviction.task.namespace)}/"
        f"{_e(eviction.task.name)}</td><td>{_e(eviction.node)}</td><td>{_e(eviction.action)}</td>"
        f"<td>{_e('/'.join(eviction.evictor) if eviction.evictor else '')}</td></tr>"
        for one in played
        for eviction in one.decided.evictions
    ]
    if not rows:
        return ""
    more = f"<p>The first 100 of {len(rows)}.</p>" if len(rows) > 100 else ""
    return (
        "<h2>Evictions</h2><table><tr><th class=n>Cycle</th><th>Pod</th><th>Node</th>"
        f"<th>Action</th><th>For</th></tr>{''.join(rows[:100])}</table>{more}"
    )


def _timings(played: Sequence[replay.Cycle]) -> str:
    names = [timing.name for timing in played[0].decided.timings]
    rows = "".join(
        f"<tr><td class=n>{one.number}</td>"
        + "".join(f"<td class=n>{t.seconds * 1000:.1f}</td>" for t in one.decided.timings)
        + "</tr>"
        for one in played
    )
    head = "".join(f"<th class=n>{_e(name)}</th>" for name in names)
    return (
        "<h2>Time</h2><p>Milliseconds that each part of a cycle took.</p><table><tr>"
        f"<th class=n>Cycle</th>{head}</tr>{rows}</table>"
    )


def _amount(value: float) -> str:
    return "&infin;" if value == -1 else f"{value / 1000:g}"


def _e(text: str) -> str:
    return html.escape(text, quote=True)
