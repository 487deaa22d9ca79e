"""`tenantry doctor`: look for what is wrong with an installation, and say what to do about it."""

from __future__ import annotations

import asyncio
import dataclasses
import textwrap
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import click

from tenantry.api.capsule import constants
from tenantry.cli import crds, options, printers

#: Seconds of silence before it is said what is waited for.
PATIENCE = 1.0
MARKS = {"ok": "ok", "warning": "warning", "error": "ERROR"}


@click.command("doctor")
@click.option(
    "--namespace", default=constants.CONTROLLER_NAMESPACE, envvar="NAMESPACE", show_default=True,
    help="The platform's own namespace.",
)  # fmt: skip
@click.option(
    "--probe", "probes", multiple=True, metavar="URL",
    help="Address of a role's probes, such as http://127.0.0.1:8081; may be given several times.",
)  # fmt: skip
@click.option("--all", "everything", is_flag=True, help="Show also what is well.")
@printers.option()
@options.kubeconfig
def command(
    *,
    namespace: str,
    probes: tuple[str, ...],
    everything: bool,
    output: str,
    kubeconfig: Path | None,
    context: str,
) -> int:
    """Examine an installation.

    Exit codes: 0 all is well, 2 there are warnings, 3 there are errors.
    """
    from tenantry.apps import doctor

    credentials = options.credentials(kubeconfig, context)
    facts = asyncio.run(_patiently(_gather(credentials, namespace, probes), credentials.server))
    findings = doctor.examine(facts)
    severity = doctor.worst(findings)
    value = {"severity": severity, "findings": [dataclasses.asdict(each) for each in findings]}
    shown = [each for each in findings if everything or each.severity != "ok"]
    printers.show(value, output, lambda: _text(shown, findings))
    # Not standalone: what a command returns is the exit code.
    return doctor.EXIT_CODES[severity]


async def _patiently(gathering: Coroutine[Any, Any, Any], server: str) -> Any:
    """Say what is waited for when that takes a moment; on stderr, which nobody parses."""

    def say() -> None:
        click.echo(f"asking {server} ...", err=True)

    timer = asyncio.get_running_loop().call_later(PATIENCE, say)
    try:
        return await gathering
    finally:
        timer.cancel()


async def _gather(credentials: Any, namespace: str, probes: tuple[str, ...]) -> Any:
    from tenantry.apps import facts
    from tenantry.kube import client

    wanted = {
        crd["metadata"]["name"]: frozenset(
            version["name"] for version in crd["spec"]["versions"] if version.get("served")
        )
        for crd in crds.bundled("crds")
    }
    addresses = [each.rstrip("/") for each in probes]
    async with client.Client(credentials) as api:
        return await facts.gather(api, namespace, wanted, addresses)


def _text(shown: list[Any], findings: list[Any]) -> str:
    lines = []
    for each in shown:
        lines.append(f"{MARKS[each.severity]:<8} {each.check}: {each.subject} {each.message}")
        if each.remedy:
            lines += textwrap.wrap(
                each.remedy, 92, initial_indent="         -> ", subsequent_indent="            "
            )
    count = {mark: sum(each.severity == mark for each in findings) for mark in MARKS}
    lines.append(f"{count['error']} errors, {count['warning']} warnings, {count['ok']} well")
    return "\n".join(lines)
