"""One HTML page that tells a simulation: charts of shares and occupancy, and why jobs wait.

Self-contained: no script, no request. The charts are few and plain, so that the page needs no
charting library in a browser that may be offline.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

from tenantry.scheduler.simulation import replay

_COLOURS = ("#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2", "#be185d", "#65a30d")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 720, 240, 56, 28, 12
_MOST_QUEUES = 8
_MOST_CELLS = 2000

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; color: #1f2937;
  background: #fff; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
p { color: #4b5563; max-width: 46rem; }
table { border-collapse: collapse; font-size: .9rem; width: 100%; }
th, td { text-align: left; padding: .25rem .7rem; border-bottom: 1px solid #e5e7eb; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.key { display: inline-block; margin-right: 1.2rem; white-space: nowrap; }
.key i { display: inline-block; width: 1.1rem; height: .25rem; margin: 0 .4rem .2rem 0; }
.nodes { display: flex; flex-wrap: wrap; gap: 2px; } .nodes b { width: 12px; height: 12px; }
svg { max-width: 100%; height: auto; } text { font: 11px system-ui, sans-serif; fill: #6b7280; }
"""

Series = tuple[str, str, str, list[float]]


def render(played: Sequence[replay.Cycle], title: str) -> str:
    """Return the page."""
    last = played[-1]
    binds = sum(len(one.decided.binds) for one in played)
    evictions = sum(len(one.decided.evictions) for one in played)
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width'>",
        f"<title>{_e(title)}</title><style>{_STYLE}</style>",
        f"<h1>{_e(title)}</h1>",
        f"<p>{len(played)} scheduling cycles were played on a copy of the cluster. Pods that were "
        f"started run on, pods that were evicted came back and waited. In all "
        f"<strong>{binds}</strong> pods were started and <strong>{evictions}</strong> evicted; at "
        f"the end <strong>{last.gpus[1] / 1000:g}</strong> of "
        f"<strong>{last.gpus[0] / 1000:g}</strong> GPUs are in use and "
        f"<strong>{last.pending}</strong> pods wait.</p>",
        _occupancy(played),
        _queues(played),
        _nodes(last),
        _shares(last),
        _waiting(last),
        _evicted(played),
        _timings(played),
        "</html>",
    ]
    return "\n".join(parts)


def _occupancy(played: Sequence[replay.Cycle]) -> str:
    series: list[Series] = [
        ("GPUs in the cluster", "#9ca3af", "4 3", [one.gpus[0] / 1000 for one in played]),
        ("GPUs in use", _COLOURS[0], "", [one.gpus[1] / 1000 for one in played]),
        ("pending pods", _COLOURS[1], "", [float(one.pending) for one in played]),
    ]
    return (
        "<h2>Occupancy</h2><p>How much of the cluster is in use at the end of each cycle, and how "
        "many pods wait. GPUs that are only planned for a pod, because others must leave first, "
        "count as in use by those who leave.</p>" + _chart(series, played)
    )


def _queues(played: Sequence[replay.Cycle]) -> str:
    last = {share.name: share for share in played[-1].shares}
    parents = {share.parent for share in last.values()}
    leaves = [share for share in last.values() if share.name not in parents]
    leaves.sort(key=lambda share: (-max(share.request, share.allocated), share.name))
    series: list[Series] = []
    for index, leaf in enumerate(leaves[:_MOST_QUEUES]):
        colour = _COLOURS[index]
        of = [{share.name: share for share in one.shares}.get(leaf.name) for one in played]
        series.append(
            (leaf.name, colour, "", [s.allocated / 1000 if s is not None else 0.0 for s in of])
        )
        series.append(
            (
                f"{leaf.name}: fair share",
                colour,
                "3 3",
                [max(s.fair, 0) / 1000 if s is not None else 0.0 for s in of],
            )
        )
    note = ""
    if len(leaves) > _MOST_QUEUES:
        note = f"<p>The {_MOST_QUEUES} largest of {len(leaves)} queues are drawn.</p>"
    return (
        "<h2>Queues</h2><p>Solid: the GPUs that a queue holds or has planned. Dotted: its fair "
        "share, that is what it may claim back from others. A solid line above the dotted one of "
        "the same colour is borrowed; one below it, with pods waiting, is owed.</p>"
        + _chart(series, played)
        + note
    )


def _chart(series: Sequence[Series], played: Sequence[replay.Cycle]) -> str:
    top = max((max(values) for _, _, _, values in series), default=0.0) or 1.0
    count = len(played)
    inner_width, inner_height = _WIDTH - _LEFT - 12, _HEIGHT - _BOTTOM - _TOP

    def x(index: int) -> float:
        return _LEFT + (inner_width * index / (count - 1) if count > 1 else inner_width / 2)

    def y(value: float) -> float:
        return _TOP + inner_height * (1 - value / top)

    drawn = [f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' role=img>"]
    for step in range(5):
        value = top * step / 4
        drawn.append(
            f"<line x1={_LEFT} x2={_WIDTH - 12} y1={y(value):.1f} y2={y(value):.1f} "
            f"stroke=#e5e7eb /><text x={_LEFT - 6} y={y(value) + 4:.1f} "
            f"text-anchor=end>{value:.4g}</text>"
        )
    drawn += [
        f"<text x={x(i):.1f} y={_HEIGHT - 8} text-anchor=middle>{played[i].number}</text>"
        for i in range(0, count, max(count // 10, 1))
    ]
    for _, colour, dash, values in series:
        points = " ".join(f"{x(i):.1f},{y(value):.1f}" for i, value in enumerate(values))
        dashes = f" stroke-dasharray='{dash}'" if dash else ""
        drawn.append(
            f"<polyline points='{points}' fill=none stroke='{colour}' stroke-width=2{dashes} />"
        )
        if count == 1 or not dash:
            drawn += [
                f"<circle cx={x(i):.1f} cy={y(value):.1f} r=2.5 fill='{colour}' />"
                for i, value in enumerate(values)
            ]
    drawn.append("</svg>")
    keys = "".join(
        f"<span class=key><i style='background:{colour};opacity:{0.45 if dash else 1}'></i>"
        f"{_e(name)}</span>"
        for name, colour, dash, _ in series
    )
    return "".join(drawn) + f"<div>{keys}</div><p>The horizontal axis counts cycles.</p>"


def _nodes(last: replay.Cycle) -> str:
    cells = "".join(
        f"<b title='{_e(name)}: {used:.0%}' style='background:{_shade(used)}'></b>"
        for name, used in last.nodes[:_MOST_CELLS]
    )
    return (
        "<h2>Nodes at the end</h2><p>One square per node with GPUs, in order of names: the darker, "
        "the more of its GPUs are in use. Point at one for its name.</p>"
        f"<div class=nodes>{cells}</div>"
    )


def _shade(used: float) -> str:
    light = 95 - 55 * min(max(used, 0.0), 1.0)
    return f"hsl(217 75% {light:.0f}%)"


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
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for key, found in sorted(last.decided.reasons.items()):
        first = found[0]
        grouped.setdefault((first.code, first.message, first.remedy), []).append("/".join(key))
    rows = "".join(
        f"<tr><td>{_e(', '.join(names[:3]))}{f' and {len(names) - 3} more' * (len(names) > 3)}</td>"
        f"<td>{_e(code)}</td><td>{_e(message)}</td><td>{_e(remedy)}</td></tr>"
        for (code, message, remedy), names in list(grouped.items())[:50]
    )
    return (
        "<h2>Who waits, and why</h2><table><tr><th>Job</th><th>Reason</th><th>In words</th>"
        f"<th>What would help</th></tr>{rows}</table>"
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
