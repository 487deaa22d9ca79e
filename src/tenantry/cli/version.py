"""`tenantry version`."""

from __future__ import annotations

import platform
from importlib import metadata

import click

from tenantry.cli import printers


@click.command("version")
@printers.option()
def command(output: str) -> None:
    """Show the version of tenantry and of the Python it runs on."""
    facts = {"version": metadata.version("tenantry"), "python": platform.python_version()}
    printers.show(facts, output, lambda: f"tenantry {facts['version']} (Python {facts['python']})")
