"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from tenantry.api.capsule import constants

F = TypeVar("F", bound=Callable[..., Any])


def kubeconfig(function: F) -> F:
    """Add `--kubeconfig` and `--context`; without them the usual places are looked at."""
    path = click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Kubeconfig to use. Default: $KUBECONFIG, the cluster this runs in, ~/.kube/config.",
    )
    context = click.option("--context", default="", help="Context in the kubeconfig.")
    return path(context(function))


def namespace(function: F) -> F:
    """Add `--namespace`."""
    return click.option(
        "--namespace",
        default=constants.CONTROLLER_NAMESPACE,
        envvar="NAMESPACE",
        show_default=True,
        help="The platform's own namespace.",
    )(function)


def probes(function: F) -> F:
    """Add `--probes`."""
    return click.option(
        "--probes",
        default="127.0.0.1:8081",
        show_default=True,
        metavar="HOST:PORT",
        help="Where /healthz, /readyz and /metrics are served.",
    )(function)


def logging(function: F) -> F:
    """Add `--log-level` and `--log-format`."""
    level = click.option(
        "--log-level",
        default="info",
        show_default=True,
        type=click.Choice(["debug", "info", "warning", "error"]),
        help="Least level.",
    )
    form = click.option(
        "--log-format",
        default="text",
        show_default=True,
        type=click.Choice(["text", "json"]),
        help="Form of a log line.",
    )
    return level(form(function))


def address(option: str, text: str) -> tuple[str, int]:
    """Read HOST:PORT."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise click.BadParameter(f"{text!r} is not HOST:PORT", param_hint=option)
    return host.strip("[]") or "127.0.0.1", int(port)


def credentials(kubeconfig: Path | None, context: str) -> Any:
    """Return the client configuration that the options name."""
    from tenantry.kube import config

    if kubeconfig is None and not context:
        return config.detect()
    return config.load(kubeconfig, context)
