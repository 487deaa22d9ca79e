"""`tenantry tour`: play a seed's walkthrough on a real cluster."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tenantry.cli import options
from tenantry.core import errors

if TYPE_CHECKING:
    from tenantry.cli.walkthroughs import play, steps

SEEDS = {"000": "seed_000", "000-nodes": "seed_000_nodes"}


@click.command("tour")
@click.argument("seed", type=click.Choice(sorted(SEEDS)), default="000")
@click.option("--name", default="", help="Local platform to play on.  [default: default]")
@click.option(
    "--nodes-file",
    is_flag=True,
    help="Print which nodes SEED is played on: a file for `tenantry local up --nodes`.",
)
@options.kubeconfig
def command(
    *, seed: str, name: str, nodes_file: bool, kubeconfig: Path | None, context: str
) -> None:
    """Play SEED's walkthrough: each command, its real output, and whether it is right.

    On a local platform (--name) everybody has a kubeconfig of their own; with --kubeconfig,
    --context or $KUBECONFIG the people of the walkthrough are impersonated by the user in it.
    Ends with 1 when a step is wrong. What it creates it removes when it is played again.
    """
    import importlib

    from tenantry.cli.walkthroughs import play

    elsewhere = kubeconfig is not None or bool(context)
    if name and elsewhere:
        raise click.UsageError("--name is a local platform, --kubeconfig and --context are not")

    module = importlib.import_module(f"tenantry.cli.walkthroughs.{SEEDS[seed]}")
    if nodes_file:
        click.echo(getattr(module, "NODES", "3"))
        return
    walkthrough: steps.Walkthrough = module.WALKTHROUGH
    with tempfile.TemporaryDirectory(prefix="tenantry-tour-") as folder:
        if elsewhere or (not name and os.environ.get("KUBECONFIG")):
            people = _impersonated(walkthrough, kubeconfig, context)
        else:
            people = _local(walkthrough, name or "default", Path(folder))
        wrong = play.Stage(people, click.echo).play(walkthrough)
    sys.exit(1 if wrong else 0)


def _local(walkthrough: steps.Walkthrough, name: str, folder: Path) -> dict[str, play.Player]:
    from tenantry.cli import local
    from tenantry.cli.walkthroughs import play, steps
    from tenantry.local import platform as platforms
    from tenantry.local import state

    platform = platforms.Platform(name)
    gateway = local.gateway_server(platform)
    kubectl = platform.require().binaries["kubectl"]
    people = {"admin": play.with_kubeconfig(kubectl, platform.paths.admin_kubeconfig)}
    for user, groups in walkthrough.users.items():
        path = folder / f"{user}.yaml"
        state.write(path, platform.kubeconfig(user, groups))
        people[user] = play.with_kubeconfig(kubectl, path)
        path = folder / f"{user}-gateway.yaml"
        state.write(path, platform.kubeconfig(user, groups, server=gateway))
        people[steps.at_gateway(user)] = play.with_kubeconfig(kubectl, path)
    return people


def _impersonated(
    walkthrough: steps.Walkthrough, kubeconfig: Path | None, context: str
) -> dict[str, play.Player]:
    from tenantry.cli.walkthroughs import play
    from tenantry.kube import config

    # What kubectl would say at each step is said once.
    config.load(kubeconfig, context or None)
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise errors.TenantryError("kubectl is not on PATH")
    base: list[str] = []
    if kubeconfig is not None:
        base += ["--kubeconfig", str(kubeconfig)]
    if context:
        base += ["--context", context]
    people = {"admin": play.Player(kubectl, tuple(base))}
    for user, groups in walkthrough.users.items():
        people[user] = play.impersonating(kubectl, base, user, groups)
    return people
