"""`tenantry completion`: how a shell learns to complete."""

from __future__ import annotations

import click
from click import shell_completion

SHELLS = ("bash", "fish", "zsh")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a script that completes commands in SHELL.

    For bash, add to ~/.bashrc: source <(tenantry completion bash)
    """
    completer = shell_completion.get_completion_class(shell)
    if completer is None:
        raise click.UsageError(f"no completion for {shell}")
    script = completer(ctx.find_root().command, {}, "tenantry", "_TENANTRY_COMPLETE").source()
    click.echo(script)
