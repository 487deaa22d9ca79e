"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

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


def credentials(kubeconfig: Path | None, context: str) -> Any:
    """Return the client configuration that the options name."""
    from tenantry.kube import config

    if kubeconfig is None and not context:
        return config.detect()
    return config.load(kubeconfig, context)
