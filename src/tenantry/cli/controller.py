"""`tenantry controller`."""

from __future__ import annotations

from typing import Any

import click

from tenantry.cli import capsule_flags, run


@click.command("controller", cls=capsule_flags.Command)
@run.settings
def command(**others: Any) -> None:
    """Play the controller role in this process."""
    run.start(["controller"], **others)
