"""How results are shown: a table for people, the formats of `kubectl -o` for programs."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from tenantry.core import errors, yamls

F = TypeVar("F", bound=Callable[..., Any])
ACCEPTED = "json, yaml, name or jsonpath=TEMPLATE"


def option() -> Callable[[F], F]:
    """Add `-o/--output` to a command; its value reaches the function as `output`."""
    return click.option(
        "-o", "--output", default="", metavar="FORMAT", callback=_checked, help=f"{ACCEPTED}."
    )


def _checked(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    if value in {"", "json", "yaml", "name"} or value.startswith("jsonpath="):
        return value
    raise click.BadParameter(f"{value!r} is not one of {ACCEPTED}", ctx=ctx, param=parameter)


def show(value: Any, output: str, text: Callable[[], str]) -> None:
    """Print a result in the wanted format; `text` makes the form for people."""
    # As with kubectl, a template decides itself where lines end.
    ends_line = not output.startswith("jsonpath=")
    click.echo(formatted(value, output) if output else text(), nl=ends_line)


def formatted(value: Any, output: str) -> str:
    """Write a decoded JSON value in a format of `kubectl -o`."""
    if output == "json":
        return json.dumps(value, indent=2, ensure_ascii=False)
    if output == "yaml":
        return yamls.write(value).rstrip("\n")
    if output == "name":
        items = value.get("items", [value]) if isinstance(value, dict) else value
        names = [_name(item) for item in items]
        if not all(names):
            raise errors.InvalidValueError(
                "output", output, "json, yaml or jsonpath=TEMPLATE: what is shown has no name"
            )
        return "\n".join(names)
    if output.startswith("jsonpath="):
        from tenantry.core import jsonpath

        source = output.removeprefix("jsonpath=")
        if "{" not in source:
            # kubectl prints such a text as it is, which nobody can have meant.
            source = f"{{{source if source[:1] in {'.', '[', '$'} else f'.{source}'}}}"
        return jsonpath.template(source).render(value)
    raise errors.InvalidValueError("output", output, ACCEPTED)


def _name(item: Any) -> str:
    name = item.get("name") or item.get("metadata", {}).get("name", "")
    kind = str(item.get("kind", "")).lower()
    group = item.get("apiVersion", "").rpartition("/")[0]
    return f"{kind}{'.' + group if group else ''}/{name}" if kind else str(name)


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Align columns as kubectl does: three spaces between, nothing after the last."""
    lines = [[str(cell) for cell in row] for row in [header, *rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def age(seconds: float) -> str:
    """Write a duration as kubectl's AGE column does."""
    minute, hour, day, year = 60, 3600, 86400, 365 * 86400
    whole = int(seconds)
    if whole < 2 * minute:
        return f"{max(whole, 0)}s"
    if whole < 10 * minute:
        return _two(whole, (minute, "m"), (1, "s"))
    if whole < 3 * hour:
        return f"{whole // minute}m"
    if whole < 8 * hour:
        return _two(whole, (hour, "h"), (minute, "m"))
    if whole < 2 * day:
        return f"{whole // hour}h"
    if whole < 8 * day:
        return _two(whole, (day, "d"), (hour, "h"))
    if whole < 2 * year:
        return f"{whole // day}d"
    if whole < 8 * year:
        return _two(whole, (year, "y"), (day, "d"))
    return f"{whole // year}y"


def _two(whole: int, large: tuple[int, str], small: tuple[int, str]) -> str:
    rest = whole % large[0] // small[0]
    return f"{whole // large[0]}{large[1]}" + (f"{rest}{small[1]}" if rest else "")
