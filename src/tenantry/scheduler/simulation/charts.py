"""Draw the charts of the page as SVG, with pygal: no script, no request, nothing by chance."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

#: Name of a series, its values, and whether it is drawn dashed in the colour of the one before.
Series = tuple[str, Sequence[float], bool]
COLOURS = ("#2563eb", "#ea580c", "#059669", "#7c3aed", "#db2777", "#0891b2", "#ca8a04", "#4b5563")
IDLE = "#d1d5db"
_FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
_WIDTH, _HEIGHT = 900, 320
#: With more cycles than this, bars become areas.
_MOST_BARS = 24
_NOISE = re.compile(r"<!--.*?-->|<script\b.*?</script>", re.DOTALL)


def stacked(name: str, labels: Sequence[str], series: Sequence[Series], *, unit: str) -> str:
    """Return what parts make up a whole, by cycle."""
    import pygal

    many = len(labels) > _MOST_BARS
    kind = pygal.StackedLine if many else pygal.StackedBar
    more = {"fill": True, "show_dots": False} if many else {}
    return _drawn(kind, name, labels, series, unit=unit, **more)


def bars(name: str, labels: Sequence[str], series: Sequence[Series], *, unit: str) -> str:
    """Return amounts side by side."""
    import pygal

    few = len(labels) * len(series) <= _MOST_BARS
    return _drawn(pygal.Bar, name, labels, series, unit=unit, print_values=few)


def lines(name: str, labels: Sequence[str], series: Sequence[Series], *, unit: str) -> str:
    """Return courses over cycles."""
    import pygal

    return _drawn(pygal.Line, name, labels, series, unit=unit, dots_size=4)


def _drawn(
    kind: Any,
    name: str,
    labels: Sequence[str],
    series: Sequence[Series],
    *,
    unit: str,
    **more: Any,
) -> str:
    from pygal import style

    chart = kind(
        _config(labels, series, unit, more),
        style=style.Style(
            background="transparent",
            plot_background="transparent",
            foreground="#4b5563",
            foreground_strong="#1f2937",
            foreground_subtle="#9ca3af",
            opacity=0.85,
            opacity_hover=1,
            colors=tuple(_colours(series)),
            font_family=_FONT,
            label_font_size=12,
            value_font_size=12,
            value_colors=("#1f2937",) * len(series),
            major_label_font_size=12,
            legend_font_size=13,
            title_font_size=13,
            guide_stroke_color="#e5e7eb",
            major_guide_stroke_color="#e5e7eb",
        ),
    )
    # Equal simulations make equal pages.
    chart.uuid = name
    for title, values, dashed in series:
        chart.add(
            title,
            [{"value": value, "formatter": _number} for value in values],
            stroke_style={"width": 3, "dasharray": "6, 6"} if dashed else {"width": 4},
            show_dots=not dashed,
        )
    return _NOISE.sub("", chart.render(is_unicode=True))


def _config(labels: Sequence[str], series: Sequence[Series], unit: str, more: Any) -> Any:
    import pygal

    return pygal.Config(
        js=[],
        disable_xml_declaration=True,
        explicit_size=False,
        width=_WIDTH,
        height=_HEIGHT + 44 * ((len(series) - 1) // 4),
        x_labels=list(labels),
        x_labels_major_count=12,
        show_minor_x_labels=len(labels) <= _MOST_BARS,
        truncate_label=-1,
        truncate_legend=-1,
        print_values_position="top",
        show_legend=len(series) > 1,
        legend_at_bottom=True,
        legend_at_bottom_columns=min(len(series), 4),
        legend_box_size=12,
        min_scale=3,
        max_scale=8,
        range=None,
        include_x_axis=True,
        show_y_guides=True,
        show_x_guides=False,
        y_title=unit,
        margin=8,
        # pygal leaves no room for a last row of the legend that is not full.
        margin_bottom=8 + 24 * bool(len(series) > 4 and len(series) % 4),
        spacing=12,
        value_formatter=_number,
        no_data_text="nothing to show",
        **more,
    )


def _number(value: float) -> str:
    return f"{value:,.6g}"


def _colours(series: Sequence[Series]) -> list[str]:
    """Give each series its colour; a dashed one has that of the series before it."""
    found: list[str] = []
    plain = 0
    for title, _, dashed in series:
        if dashed and found:
            found.append(found[-1])
        elif title == "idle":
            found.append(IDLE)
        else:
            found.append(COLOURS[plain % len(COLOURS)])
            plain += 1
    return found
