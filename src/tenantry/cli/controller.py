"""`tenantry controller`."""

from __future__ import annotations

from typing import Any

import click

from tenantry.cli import run


@click.command("controller")
@run.settings
def command(**others: Any) -> None:
    """Play the controller role in this process."""
    run.start(["controller"], **others)
