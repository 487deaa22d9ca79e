"""The root command: which commands there are, and how errors look."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from tenantry.core import errors

#: Command -> its line in `tenantry --help`. The command `x` lives in `tenantry.cli.x`.
COMMANDS = {
    "completion": "Print a script that completes commands in a shell.",
    "controller": "Play the controller role in this process.",
    "crds": "Show or install the API kinds that Tenantry serves.",
    "doctor": "Look for what is wrong with an installation.",
    "gateway": "Serve the tenants' view of the cluster.",
    "local": "Run a whole platform on this machine.",
    "manifests": "Print what an existing cluster needs to run Tenantry.",
    "nodes": "Give nodes to tenants, and audit them.",
    "run": "Play one or more roles in this process.",
    "scheduler": "Ask the scheduling engine, without a cluster.",
    "tenancy": "Look after tenants, and come from Capsule.",
    "tour": "Play a walkthrough on a real cluster.",
    "uninstall": "Take Tenantry off a cluster, so that nothing stays locked.",
    "version": "Show the version of tenantry.",
    "webhook": "Play the webhook role in this process.",
}


class LazyGroup(click.Group):
    """A group that knows its commands' names, and imports one only to run it."""

    def __init__(self, *, modules: Mapping[str, str], package: str, **attributes: object) -> None:
        super().__init__(**attributes)  # type: ignore[arg-type]
        self.modules = dict(modules)
        self.package = package

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*self.modules, *super().list_commands(ctx)])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.modules:
            return super().get_command(ctx, cmd_name)
        module = importlib.import_module(f"{self.package}.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            lines = [(name, self.modules.get(name, "")) for name in self.list_commands(ctx)]
            formatter.write_dl(lines)


@click.group(
    cls=LazyGroup,
    modules=COMMANDS,
    package="tenantry.cli",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
def command() -> None:
    """Multi-tenancy for Kubernetes clusters that run AI workloads."""


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and end the process."""
    sys.exit(run(args))


def run(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        code = command.main(args=args, prog_name=_program(), standalone_mode=False)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.Abort:
        click.echo("Interrupted.", err=True)
        return 130
    except click.ClickException as err:
        err.show()
        return err.exit_code
    except errors.TenantryError as err:
        click.echo(described(err), err=True)
        return 1
    except BrokenPipeError:
        # The reader (`head`, a pager) has seen enough. Python would complain once more on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return code if isinstance(code, int) else 0


def described(err: errors.TenantryError) -> str:
    """Word an error as kubectl does: what the API server said is told apart from our own words."""
    from tenantry.kube import errors as kube_errors

    if isinstance(err, kube_errors.ApiError):
        return f"Error from server ({err.reason}): {err.message}"
    return f"Error: {err}"


def _program() -> str:
    # As a plug-in of kubectl the file is called kubectl-tenantry, but nobody types that.
    name = Path(sys.argv[0]).name
    return "kubectl tenantry" if name == "kubectl-tenantry" else "tenantry"
