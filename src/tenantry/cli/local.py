"""`tenantry local ...`: a platform on this machine."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tenantry.cli import printers
from tenantry.core import errors

if TYPE_CHECKING:
    from tenantry.local import platform as platforms
    from tenantry.local import status as statuses

#: The role at whose port tenants find the API.
GATEWAY = "gateway"

_name = click.option(
    "--name", default="default", show_default=True, help="Which platform; each has its own data."
)


@click.group("local")
def command() -> None:
    """Run a whole platform on this machine.

    A real Kubernetes control plane with Tenantry on it; nodes are simulated. It runs in the
    background, under a supervisor of its own, until `down`. What it keeps survives `down` and
    `up`, and goes with `destroy`.
    """


@command.command("up")
@_name
@click.option(
    "--nodes",
    metavar="COUNT|FILE",
    help="Simulated nodes: how many, or a file with Node objects.  [default: as before, or 3]",
)
@click.option(
    "--gpus-per-node",
    type=int,
    metavar="K",
    help="GPUs (nvidia.com/gpu) of each node; with a count of nodes.  [default: 0]",
)
@click.option(
    "--api-servers", type=int, metavar="N", help="How many API servers.  [default: as before, or 1]"
)
@click.option(
    "--without-pod-node-selector",
    "odd",
    type=click.IntRange(1),
    multiple=True,
    metavar="NUMBER",
    help="Start this API server (from 1) without PodNodeSelector, for trying out the check.",
)
@click.option(
    "--api-port",
    type=int,
    metavar="PORT",
    help="Port of the first API server; 0 = another than now.  [default: as before, or any]",
)
@click.option(
    "--bin-dir",
    type=click.Path(exists=True, file_okay=False),
    default=None,
    metavar="DIRECTORY",
    help="Binaries of your own (etcd, kube-apiserver, ...); also TENANTRY_BIN_DIR.",
)
def up(
    *,
    name: str,
    nodes: str | None,
    gpus_per_node: int | None,
    api_servers: int | None,
    odd: tuple[int, ...],
    api_port: int | None,
    bin_dir: str | None,
) -> None:
    """Start the platform, and return when it is ready."""
    from tenantry.core import clock
    from tenantry.local import nodes as simulated
    from tenantry.local import platform as platforms
    from tenantry.local import progress

    wanted = None
    if nodes is not None or gpus_per_node is not None:
        count = str(simulated.DEFAULT_COUNT) if nodes is None else nodes
        wanted = simulated.wanted(count, gpus_per_node or 0)
    started = clock.monotonic()
    platform = platforms.Platform(name)
    manifests, roles = tenantry_roles()
    options = platforms.Options(
        nodes=wanted,
        api_servers=api_servers,
        own_addresses=True,
        odd_servers=odd,
        api_port=api_port,
        bin_dir=bin_dir or "",
        manifests=manifests,
        roles=roles,
    )
    report = progress.Progress()
    platform.up(options, report)
    report.note(f"ready in {clock.monotonic() - started:.1f} s")
    click.echo(_first_steps(platform))


def tenantry_roles() -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Return what of Tenantry runs on a platform: manifests to apply, and roles."""
    import tenantry.deploy
    from tenantry.api.capsule import constants
    from tenantry.apps import settings
    from tenantry.local import plan

    folder = Path(tenantry.deploy.__path__[0])
    manifests = [*sorted(folder.glob("crds/*.yaml")), *sorted(folder.glob("rbac/*.yaml"))]
    program = (sys.executable, "-m", "tenantry")
    common = ("--kubeconfig", "{kubeconfig}", "--probes", "127.0.0.1:{health}")
    controller = plan.Role(
        name="controller",
        argv=(*program, "controller", *common),
        service_account=constants.CONTROLLER_SERVICE_ACCOUNT,
        # There is no other here: while it waits for the Lease of its predecessor, nobody works.
        ready="http://127.0.0.1:{health}/readyz?leading",
        ports=("health",),
    )
    webhook = plan.Role(
        name="webhook",
        argv=(
            *program,
            "webhook",
            *common,
            "--webhook=127.0.0.1:{webhook}",
            "--webhook-url=https://127.0.0.1:{webhook}",
            # Only API servers have a certificate of this authority.
            "--webhook-client-ca={root}/pki/front-proxy-ca.crt",
            # The API server goes down with it, so nobody needs it for long.
            "--drain=1",
        ),
        service_account=settings.WEBHOOK_SERVICE_ACCOUNT,
        ready="http://127.0.0.1:{health}/readyz",
        ports=("health", "webhook"),
        # It would go on answering until its clients know of another; here there is none.
        stop_grace=1.0,
    )
    gateway = plan.Role(
        name=GATEWAY,
        argv=(
            *program,
            "gateway",
            *common,
            "--bind=127.0.0.1",
            "--listening-port={proxy}",
            "--ssl-cert-path={root}/pki/gateway.crt",
            "--ssl-key-path={root}/pki/gateway.key",
            # Its clients find no other when it goes.
            "--linger=0",
            "--grace=2",
        ),
        service_account=settings.GATEWAY_SERVICE_ACCOUNT,
        ready="http://127.0.0.1:{health}/readyz",
        ports=("health", "proxy"),
    )
    return tuple(str(path) for path in manifests), (controller, webhook, gateway)


def gateway_server(platform: platforms.Platform) -> str:
    """Return the address of a platform's gateway.

    :raises TenantryError: when it was started without one
    """
    port = platform.require().ports.get(f"{GATEWAY}.proxy")
    if port is None:
        raise errors.TenantryError(f'platform "{platform.name}" has no gateway: start it anew')
    return f"https://127.0.0.1:{port}"


def _first_steps(platform: platforms.Platform) -> str:
    described = platform.require()
    suffix = "" if platform.name == "default" else f" --name {platform.name}"
    kubectl = shlex.quote(described.binaries["kubectl"])
    return f"""\
As admin:
  export KUBECONFIG={shlex.quote(str(platform.paths.admin_kubeconfig))}
  {kubectl} get namespaces
As somebody else, here alice:
  tenantry local kubeconfig{suffix} --as alice --group projectcapsule.dev --output alice.yaml
  {kubectl} --kubeconfig alice.yaml auth whoami
With --through-gateway she sees the namespaces, nodes and classes that are hers, and no others.
Stop it with: tenantry local down{suffix}"""


@command.command("down")
@_name
def down(name: str) -> None:
    """Stop the platform; its data stays."""
    from tenantry.local import platform as platforms
    from tenantry.local import progress

    stopped = platforms.Platform(name).down(progress.Progress())
    click.echo(f'platform "{name}" ' + ("is down" if stopped else "was not running"))


@command.command("destroy")
@_name
def destroy(name: str) -> None:
    """Stop the platform and remove all it kept."""
    from tenantry.local import platform as platforms
    from tenantry.local import progress

    platforms.Platform(name).destroy(progress.Progress())
    click.echo(f'platform "{name}" is gone')


@command.command("status")
@_name
@printers.option()
def status(name: str, output: str) -> None:
    """Show how the platform and each of its units is.

    The exit code is 0 when it is ready, 1 otherwise.
    """
    from tenantry.local import platform as platforms

    found = platforms.Platform(name).status()
    printers.show(_plain(found), output, lambda: _status_table(found))
    if found.phase != "ready":
        raise click.exceptions.Exit(1)


def _plain(found: statuses.Status) -> Any:
    import msgspec

    return msgspec.json.decode(msgspec.json.encode(found))


def _status_table(found: statuses.Status) -> str:
    from tenantry.core import clock

    head = f'platform "{found.name}": {found.phase}'
    if found.reason:
        head += f" ({found.reason})"
    if not found.units:
        return head
    now = clock.wall()
    rows = [
        (
            unit.name,
            unit.phase,
            "-" if unit.pid is None else unit.pid,
            unit.restarts,
            printers.age(now - unit.since),
            unit.reason,
        )
        for unit in found.units
    ]
    table = printers.table(("UNIT", "PHASE", "PID", "RESTARTS", "SINCE", "REASON"), rows)
    servers = ", ".join(found.servers)
    return f"{head}\nAPI: {servers}\nkubeconfig: {found.kubeconfig}\n\n{table}"


@command.command("kubeconfig")
@_name
@click.option("--as", "user", metavar="USER", help="Whom the kubeconfig is for.")
@click.option(
    "--group", "groups", multiple=True, metavar="GROUP", help="A group of that user; repeatable."
)
@click.option(
    "--through-gateway", is_flag=True, help="Point it at the gateway instead of the API server."
)
@click.option("--output", type=click.Path(path_type=Path), help="Write it to this file instead.")
def kubeconfig(
    *,
    name: str,
    user: str | None,
    groups: tuple[str, ...],
    through_gateway: bool,
    output: Path | None,
) -> None:
    """Print a kubeconfig: the admin's, or any user's.

    It holds a fresh client certificate of the platform's own authority. To Kubernetes that user is
    as real as any; what they may do, RBAC decides.
    """
    from tenantry.local import platform as platforms
    from tenantry.local import state

    # An empty name must not be taken for none: none is the administrator.
    if user == "":
        raise errors.InvalidValueError("as", user, "the name of a user; without it, the admin")
    if "" in groups:
        raise errors.InvalidValueError("group", "", "the name of a group")
    if groups and user is None:
        raise click.UsageError("--group needs --as: groups are given to a user")
    platform = platforms.Platform(name)
    server = gateway_server(platform) if through_gateway else ""
    content = platform.kubeconfig(user or "", groups, server=server)
    if output is None:
        click.echo(content.decode(), nl=False)
    else:
        state.hand_out(output, content)
        click.echo(f"wrote {output}", err=True)


@command.command("logs")
@_name
@click.argument("component", required=False)
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written from now on.")
@click.option(
    "--tail",
    type=click.IntRange(min=0),
    default=200,
    show_default=True,
    help="Lines of what is there.",
)
def logs(name: str, component: str | None, follow: bool, tail: int) -> None:
    """Print the log of COMPONENT, or list whose there are."""
    from tenantry.local import logs as reading
    from tenantry.local import platform as platforms

    platform = platforms.Platform(name)
    platform.require()
    if component is None:
        click.echo("\n".join(reading.names(platform.paths)))
        return
    for text in reading.read(platform.paths, component, lines=tail, follow=follow):
        sys.stdout.write(text)
        sys.stdout.flush()


@command.command("list")
@printers.option()
def list_(output: str) -> None:
    """List the platforms of this user."""
    from tenantry.local import platform as platforms
    from tenantry.local import state

    names = state.platforms(state.state_home(os.environ))
    found = [platforms.Platform(name).status() for name in names]
    items = {"items": [_plain(one) for one in found]}
    rows = [(one.name, one.phase, ", ".join(one.servers) or "-") for one in found]
    printers.show(items, output, lambda: printers.table(("NAME", "PHASE", "API"), rows))


@command.command("binaries")
@click.option("--bin-dir", default="", metavar="DIRECTORY", help="As with `up`.")
@printers.option()
def binaries(bin_dir: str, output: str) -> None:
    """Get the control plane's binaries, by download or build, and show where they are."""
    from tenantry.local import artefacts, progress
    from tenantry.local import binaries as getting

    environ = dict(os.environ)
    if bin_dir:
        environ[getting.BIN_DIR] = bin_dir
    found = getting.resolve(list(artefacts.ALL), environ=environ, report=progress.Progress())
    rows = [(name, artefacts.ALL[name].version, path) for name, path in found.items()]
    printers.show(found, output, lambda: printers.table(("NAME", "VERSION", "PATH"), rows))
