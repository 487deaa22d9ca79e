"""`tenantry webhook`."""

from __future__ import annotations

from typing import Any

import click

from tenantry.cli import capsule_flags, run


@click.command("webhook", cls=capsule_flags.Command)
@run.settings
def command(**others: Any) -> None:
    """Play the webhook role in this process."""
    run.start(["webhook"], **others)
