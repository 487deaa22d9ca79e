"""`tenantry run`, and `tenantry controller` and `tenantry webhook` for one role each."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from tenantry.api.capsule import constants
from tenantry.cli import capsule_flags, options

F = TypeVar("F", bound=Callable[..., Any])


def settings(function: F) -> F:
    """Add the options of a process that plays roles."""
    function = capsule_flags.flags(function)
    for option in reversed(
        (
            options.namespace,
            click.option(
                "--configuration-name", default=constants.CONFIGURATION_NAME, show_default=True,
                help="CapsuleConfiguration to use.",
            ),
            click.option(
                "--elect/--no-elect", default=True, show_default=True,
                help="Whether controllers wait for their Lease.",
            ),
            click.option(
                "--workers", type=click.IntRange(1, 64), default=8, show_default=True,
                help="Namespaces reconciled at a time.",
            ),
            options.probes,
            click.option(
                "--webhook", "webhook", default="127.0.0.1:9443", show_default=True,
                metavar="HOST:PORT", help="Where admission reviews are served.",
            ),
            click.option(
                "--webhook-url", default="", metavar="URL",
                help="Address at which the API server reaches the webhooks. "
                "Default: the Service in the platform's namespace.",
            ),
            click.option(
                "--webhook-client-ca", metavar="FILE",
                type=click.Path(exists=True, dir_okay=False, path_type=Path),
                help="Authorities of the certificate with which the API server must introduce "
                "itself to the webhooks. Default: anybody who reaches them is answered.",
            ),
            click.option(
                "--drain", type=click.FloatRange(0, 60), default=8.0, show_default=True,
                metavar="SECONDS", help="How long webhooks go on serving after a stop.",
            ),
            options.logging,
        )
    ):  # fmt: skip
        function = option(function)
    return options.kubeconfig(function)


def start(
    roles: list[str],
    *,
    kubeconfig: Path | None,
    context: str,
    probes: str,
    log_level: str,
    log_format: Any,
    zap_log_level: str | None,
    zap_encoder: str | None,
    **others: Any,
) -> None:
    """Play roles until stopped, then end the process with their exit code."""
    from tenantry.apps import roles as apps
    from tenantry.apps import settings as app_settings
    from tenantry.runtime import logs

    context_of = click.get_current_context()
    changed = capsule_flags.translated(
        others,
        explicit=lambda name: (
            context_of.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
        ),
    )
    level = capsule_flags.log_level(zap_log_level, log_level)
    form = {"json": "json", "console": "text", None: log_format}[zap_encoder]
    logs.configure(level=level, format=form)
    probe_host, probe_port = options.address("--probes", probes)
    chosen = app_settings.Settings(
        probe_host=probe_host, probe_port=probe_port, **{**others, **changed}
    )
    sys.exit(apps.run(roles, options.credentials(kubeconfig, context), chosen))


@click.command("run", cls=capsule_flags.Command)
@click.option(
    "--roles", default="controller,webhook", show_default=True, help="Roles, separated by commas."
)
@settings
def command(roles: str, **others: Any) -> None:
    """Play one or more roles in this process."""
    start([role.strip() for role in roles.split(",") if role.strip()], **others)
