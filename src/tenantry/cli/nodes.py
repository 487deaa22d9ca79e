"""`tenantry nodes ...`: nodes that belong to tenants."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from tenantry.cli import options, printers

T = TypeVar("T")

_WARNINGS, _ERRORS = 2, 3


@click.group("nodes")
def command() -> None:
    """Give nodes to tenants, and find what is wrong with that.

    Exit codes: 0 all is well, 1 the command failed, 2 there are warnings, 3 there are errors.
    """


def _run(kubeconfig: Path | None, context: str, work: Callable[[Any], Awaitable[T]]) -> T:
    from tenantry.kube import client

    credentials = options.credentials(kubeconfig, context)

    async def run() -> T:
        async with client.Client(credentials) as api:
            return await work(api)

    return asyncio.run(run())


@command.command("list")
@printers.option()
@options.kubeconfig
def list_(output: str, kubeconfig: Path | None, context: str) -> None:
    """List dedicated nodes: name, tab, taint; sorted."""
    from tenantry.apps import pooling

    found = _run(kubeconfig, context, pooling.read)
    items = [
        {
            "name": node.name,
            "taint": str(taint),
            "tenant": taint.value,
            "pool": node.labels.get("tenantry.io/node-pool", ""),
        }
        for node in sorted(found.nodes, key=lambda one: one.name)
        for taint in node.taints
        if taint.key in found.keys
    ]
    lines = found.lines()
    if output or lines:
        printers.show({"items": items}, output, lambda: "\n".join(lines))


@command.command("dedicate")
@click.argument("nodes", nargs=-1, required=True)
@click.option("--tenant", required=True, help="Whom the nodes are for.")
@click.option("--pool", default="", help="TenantNodePool to add them to.  [default: the tenant]")
@click.option(
    "--mode",
    type=click.Choice(["exclusive", "shared", "borrow"]),
    default=None,
    help="How strictly they are the tenant's.  [default: exclusive, or as the pool is]",
)
@click.option("--purpose", default="", help="What the pool is for, such as training.")
@click.option("--drain", is_flag=True, help="Evict pods of others, within their budgets.")
@click.option("--adopt", is_flag=True, help="Take over nodes that were tainted by hand.")
@click.option("--timeout", default=60.0, show_default=True, help="Seconds to wait; 0 = none.")
@printers.option()
@options.kubeconfig
def dedicate(
    *,
    nodes: tuple[str, ...],
    tenant: str,
    pool: str,
    mode: str | None,
    purpose: str,
    drain: bool,
    adopt: bool,
    timeout: float,
    output: str,
    kubeconfig: Path | None,
    context: str,
) -> int:
    """Give NODES to a tenant, and wait until they are its own.

    A node on which others run is refused, unless they are drained. Exit code 2 when a node is not
    dedicated in time.
    """
    from tenantry.apps import pooling

    async def work(api: Any) -> Any:
        spec = {"tenant": tenant, "mode": mode, "purpose": purpose, "drain": drain, "adopt": adopt}
        wanted = {key: value for key, value in spec.items() if value}
        made = await pooling.dedicate(api, pool or tenant, nodes, **wanted)
        return made, await pooling.settled(api, made.metadata.name, nodes, timeout)

    made, entries = _run(kubeconfig, context, work)
    plain = [_plain(one) for one in entries]
    rows = [(one.name, one.state, one.reason or "-", one.message or "-") for one in entries]
    printers.show(
        {"pool": made.metadata.name, "nodes": plain},
        output,
        lambda: printers.table(("NODE", "STATE", "REASON", "MESSAGE"), rows),
    )
    held = [one for one in entries if one.reason not in ("", "Preferred", "Borrowable")]
    return _WARNINGS if held or len(entries) < len(set(nodes)) else 0


@command.command("release")
@click.argument("nodes", nargs=-1, required=True)
@printers.option()
@options.kubeconfig
def release(nodes: tuple[str, ...], output: str, kubeconfig: Path | None, context: str) -> None:
    """Take NODES back: what was on them before is restored."""
    from tenantry.apps import pooling

    pools = _run(kubeconfig, context, lambda api: pooling.release(api, nodes))
    listed = list(dict.fromkeys(nodes))
    printers.show(
        {"nodes": listed, "pools": pools},
        output,
        lambda: f"released {', '.join(listed)} from {', '.join(pools)}",
    )


@command.command("audit")
@click.option("--all", "everything", is_flag=True, help="Show also what is well.")
@printers.option()
@options.kubeconfig
def audit(everything: bool, output: str, kubeconfig: Path | None, context: str) -> int:
    """Find the system's DaemonSets that dedicated nodes keep out, and pods that should not be there.

    Exit codes: 0 all is well, 2 warnings, 3 something critical.
    """
    from tenantry.apps import pooling

    found = _run(kubeconfig, context, lambda api: pooling.read(api, whole=True))
    sets = found.audit()
    pools = sorted(found.pools, key=lambda one: one.metadata.name)
    broken = [(p, one) for p in pools for one in p.status.violations]
    lacking = [(p, one) for p in pools for one in p.status.nodes if one.missing]
    annotated = found.annotated()
    value = {
        "daemonSets": [
            {**dataclasses.asdict(one), "severity": one.severity, "verdict": one.verdict}
            for one in sets
        ],
        "violations": [{"pool": p.metadata.name, **_plain(one)} for p, one in broken],
        "incomplete": [{"pool": p.metadata.name, **_plain(one)} for p, one in lacking],
        "annotatedNamespaces": annotated,
    }

    def text() -> str:
        shown = [one for one in sets if everything or one.severity != "ok"]
        rows = [
            (one.severity, f"{one.namespace}/{one.name}", one.importance, one.wanted,
             one.eligible, one.verdict, ",".join(one.blocked or one.not_ready)[:120])
            for one in shown
        ]  # fmt: skip
        header = ("SEVERITY", "DAEMONSET", "CLASS", "WANTED", "ELIGIBLE", "VERDICT", "NODES")
        lines = [printers.table(header, rows)] if rows else []
        for pool, one in broken:
            where = f"{one.namespace}/{one.pod} on {one.node}"
            lines.append(f"{one.kind} ({pool.metadata.name}): {where}")
        for pool, entry in lacking:
            lines.append(
                f"Isolated-but-incomplete ({pool.metadata.name}): {entry.name} {entry.score} %, "
                f"lacks {', '.join(entry.missing)}"
            )
        lines += [
            f"namespace {name} has a node selector, so pods of its DaemonSets wait elsewhere; "
            "make the annotation empty"
            for name in annotated
        ]
        return "\n".join(lines) or "nothing is wrong"

    printers.show(value, output, text)
    if broken or any(one.severity == "critical" for one in sets):
        return _ERRORS
    worse = lacking or annotated or any(one.severity != "ok" for one in sets)
    return _WARNINGS if worse else 0


@command.command("repair")
@click.argument("daemonsets", nargs=-1, metavar="[NAMESPACE/NAME]...")
@click.option("--apply", "applying", is_flag=True, help="Change them; else it is only shown.")
@click.option("--undo", is_flag=True, help="Take earlier repairs back.")
@click.option(
    "--allow",
    multiple=True,
    metavar="NAMESPACE[/NAME]",
    help="What may be changed, besides what pools allow; repeatable.",
)
@click.option("--patch-anyway", is_flag=True, help="Also those that somebody else writes.")
@printers.option()
@options.kubeconfig
def repair(
    *,
    daemonsets: tuple[str, ...],
    applying: bool,
    undo: bool,
    allow: tuple[str, ...],
    patch_anyway: bool,
    output: str,
    kubeconfig: Path | None,
    context: str,
) -> int:
    """Let DaemonSets onto dedicated nodes by a further toleration; those they have stay.

    Without --apply nothing is changed. What was repaired once stays so: the controller puts back
    what an upgrade takes away. Exit code 2 when something is left that is not repaired.
    """
    from tenantry.apps import pooling

    async def work(api: Any) -> Any:
        found = await pooling.read(api, whole=True)
        if undo:
            return await pooling.undo_repairs(api, found, daemonsets, dry_run=not applying)
        planned = found.repairs(allow=allow, anyway=patch_anyway, only=daemonsets)
        if applying:
            await pooling.apply_repairs(api, planned)
        return planned

    result = _run(kubeconfig, context, work)
    if undo:
        verb = "undone" if applying else "would be undone"
        text = "\n".join(f"{name}: {verb}" for name in result) or "nothing to undo"
        printers.show({"items": [{"name": name} for name in result]}, output, lambda: text)
        return 0
    rows = [(f"{one.namespace}/{one.name}", one.action, one.reason) for one in result]
    items = [dataclasses.asdict(one) for one in result]

    def table() -> str:
        if not rows:
            return "nothing to repair"
        lines = printers.table(("DAEMONSET", "ACTION", "WHY"), rows)
        return lines if applying else f"{lines}\nNothing was changed; use --apply."

    printers.show({"items": items, "applied": applying}, output, table)
    left = [one for one in result if one.action == "reported" or
            (one.action == "patch" and not applying)]  # fmt: skip
    return _WARNINGS if left else 0


@command.command("check-apiservers")
@click.option(
    "--since", default="", metavar="TIME",
    help="When the configuration was changed (RFC 3339): each server must be younger.",
)  # fmt: skip
@printers.option()
@options.kubeconfig
def check_apiservers(since: str, output: str, kubeconfig: Path | None, context: str) -> int:
    """Find the API server that does not do as the others: PodNodeSelector, plugins, health."""
    from tenantry.apps import apiservers
    from tenantry.core import clock, errors

    moment = None
    if since:
        try:
            moment = clock.parse_rfc3339(since)
        except ValueError:
            raise errors.InvalidValueError(
                "since", since, "a time such as 2026-01-31T12:00:00Z"
            ) from None
    credentials = options.credentials(kubeconfig, context)
    found = asyncio.run(apiservers.check(credentials, since=moment))
    items = [dataclasses.asdict(one) for one in found]
    text = "\n".join(f"{one.severity:<8} {one.server or 'cluster'}: {one.message}" for one in found)
    printers.show({"findings": items}, output, lambda: text or "all API servers do the same")
    kinds = {one.severity for one in found}
    if "error" in kinds:
        return _ERRORS
    return _WARNINGS if "warning" in kinds else 0


def _plain(value: Any) -> dict[str, Any]:
    import msgspec

    plain: dict[str, Any] = msgspec.to_builtins(value)
    return plain
