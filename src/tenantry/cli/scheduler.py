"""`tenantry scheduler`: what the scheduling engine can do without a cluster."""

from __future__ import annotations

import math
import time
from pathlib import Path

import click

from tenantry.cli import printers
from tenantry.core import errors


@click.group("scheduler")
def command() -> None:
    """Ask the scheduling engine, without a cluster."""


@command.command("simulate")
@click.option(
    "--snapshot",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A snapshot of ours, or an archive from KAI's /get-snapshot.",
)
@click.option("--cycles", default=5, show_default=True, type=click.IntRange(1, 10_000))
@click.option(
    "--period",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0, 86_400),
    help="Seconds between cycles.",
)
@click.option(
    "--now",
    "instant",
    type=click.FloatRange(0, 1e11),
    help="Time of the first cycle, in Unix seconds; otherwise the present.",
)
@click.option("--add-nodes", default=0, metavar="N", help="What if there were N more nodes?")
@click.option("--like", default="", metavar="NODE", help="The node to copy for --add-nodes.")
@click.option("--drop-node", multiple=True, metavar="NODE", help="What if this node were gone?")
@click.option(
    "--quota", multiple=True, metavar="QUEUE=GPUS", help="Another quota; QUEUE:cpu=64 for cores."
)
@click.option("--limit", multiple=True, metavar="QUEUE=GPUS", help="Another limit; -1 for none.")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Also write a page with charts.",
)
@printers.option()
def simulate(
    *,
    snapshot: Path,
    cycles: int,
    period: float,
    instant: float | None,
    add_nodes: int,
    like: str,
    drop_node: tuple[str, ...],
    quota: tuple[str, ...],
    limit: tuple[str, ...],
    html: Path | None,
    output: str,
) -> None:
    """Play scheduling cycles on a copy of a cluster, and show what was decided and why.

    Pods that are started run on; pods that are evicted come back and wait.
    """
    from tenantry.scheduler.simulation import page, replay, report, whatif
    from tenantry.scheduler.translate import archive

    now = time.time() if instant is None else instant
    for flag, number in (("--now", now), ("--period", period)):
        if not math.isfinite(number):
            raise errors.InvalidValueError(flag, number, "a finite number of seconds")
    read = archive.read(snapshot.read_bytes(), now=now)
    for text in read.skipped:
        click.echo(f"Skipped {text}", err=True)
    for (kind, name), why in sorted(read.seen.set_aside.items()):
        click.echo(f"Set aside {kind} {name}: {why}", err=True)
    if add_nodes:
        whatif.add_nodes(read.seen, add_nodes, like)
    for name in drop_node:
        whatif.drop_node(read.seen, name)
    for text in quota:
        whatif.set_bound(read.seen, text)
    for text in limit:
        whatif.set_bound(read.seen, text, limit=True)
    before = replay.start(read.seen, read.settings, now=now) if html is not None else None
    played = replay.run(read.seen, read.settings, cycles=cycles, now=now, period=period)
    printers.show(report.as_json(played), output, lambda: report.as_text(played))
    if html is not None:
        text = page.render(played, f"Simulation of {snapshot.name}", before)
        try:
            html.write_text(text, encoding="utf-8")
        except OSError as problem:
            raise errors.InvalidValueError(
                "--html", str(html), f"a file that can be written ({problem.strerror})"
            ) from problem
        click.echo(f"Wrote {html}", err=True)
