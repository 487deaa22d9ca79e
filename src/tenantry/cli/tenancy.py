"""`tenantry tenancy ...`: tenants over namespaces, and the way from Capsule."""

from __future__ import annotations

import asyncio
import dataclasses
import textwrap
from pathlib import Path
from typing import Any

import click

from tenantry.api.capsule import constants
from tenantry.cli import crds, options, printers


@click.group("tenancy")
def command() -> None:
    """Look after tenants, and come from Capsule."""


@command.command("check")
@options.namespace
@click.option(
    "--configuration-name", default=constants.CONFIGURATION_NAME, show_default=True,
    help="The CapsuleConfiguration in use.",
)  # fmt: skip
@printers.option()
@options.kubeconfig
def check(
    *, namespace: str, configuration_name: str, output: str, kubeconfig: Path | None, context: str
) -> int:
    """Tell what a switch from Capsule to Tenantry would change in a cluster.

    Nothing is written. What BLOCKS is to be dealt with before Tenantry starts; what CHANGES works
    differently afterwards; a note is good to know.

    Exit codes: 0 nothing blocks, 1 something does, or the check failed.
    """
    from tenantry.apps.switching import examining

    credentials = options.credentials(kubeconfig, context)
    found = examining.examine(asyncio.run(_gather(credentials, namespace, configuration_name)))
    value = {"findings": [dataclasses.asdict(one) for one in found]}
    printers.show(value, output, lambda: _text(found))
    return 1 if examining.blocks(found) else 0


async def _gather(credentials: Any, namespace: str, configuration_name: str) -> Any:
    from tenantry.apps.switching import reading
    from tenantry.kube import client

    async with client.Client(credentials) as api:
        return await reading.gather(
            api,
            crds.bundled("crds"),
            namespace=namespace,
            configuration_name=configuration_name,
        )


def _text(found: list[Any]) -> str:
    from tenantry.tenancy.checking import findings

    lines = []
    for one in found:
        mark = one.severity.upper() if one.severity == "blocks" else one.severity
        field = f" {one.field}" if one.field else ""
        lines.append(f"{mark:<8} {one.place}{field}")
        for before, text in (("now: ", one.now), ("then:", one.then)):
            lines += textwrap.wrap(
                text, 100, initial_indent=f"         {before} ", subsequent_indent=" " * 15,
                break_long_words=False, break_on_hyphens=False,
            )  # fmt: skip
        if one.remedy:
            # In one line: most are commands to copy.
            lines.append(f"         do:   {one.remedy}")
    count = {mark: sum(one.severity == mark for one in found) for mark in findings.SEVERITIES}
    lines.append(f"{count['blocks']} block, {count['changes']} change, {count['note']} notes")
    return "\n".join(lines)
