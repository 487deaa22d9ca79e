"""`tenantry gateway`: the tenants' API endpoint. Takes Capsule Proxy's flags."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from tenantry.api.capsule import constants
from tenantry.cli import capsule_flags, options, proxy_flags

_KINDS = ("TLSCertificate", "BearerToken", "XForwardedClientCert", "Anonymous")
#: Options about the claims of an issuer's tokens.
_OIDC = (
    "username_claim", "username_prefix", "groups_claim", "groups_prefix", "required", "algorithms"
)  # fmt: skip
_file = click.Path(path_type=Path, dir_okay=False, exists=True)


def _split(_context: click.Context, _option: click.Parameter, value: Any) -> tuple[str, ...]:
    """Accept a flag given several times, with lists, as pflag does."""
    given = [value] if isinstance(value, str) else value
    return tuple(part.strip() for text in given for part in text.split(",") if part.strip())


def _pairs(
    _context: click.Context, _option: click.Parameter, value: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    found = [text.partition("=") for text in value]
    for key, equals, _ in found:
        if not key or not equals:
            raise click.BadParameter(f"{key!r} is not KEY=VALUE")
    return tuple((key, text) for key, _, text in found)


@click.command("gateway", cls=capsule_flags.Command)
@options.kubeconfig
@options.namespace
@click.option(
    "--capsule-configuration-name",
    "configuration_name",
    default=constants.CONFIGURATION_NAME,
    show_default=True,
    help="CapsuleConfiguration to use.",
)
@click.option("--bind", "host", default="0.0.0.0", show_default=True, help="Address to listen on.")
@click.option(
    "--listening-port",
    "port",
    type=click.IntRange(1, 65535),
    default=9001,
    show_default=True,
    help="Port to listen on.",
)
@click.option(
    "--enable-ssl",
    type=bool,
    default=True,
    is_flag=False,
    flag_value=True,
    show_default=True,
    metavar="BOOLEAN",
    help="Serve TLS.",
)
@click.option(
    "--ssl-cert-path",
    "certificate",
    type=_file,
    help="Certificate chain, PEM; read again when it changes.",
)
@click.option("--ssl-key-path", "key", type=_file, help="Private key of it, PEM.")
@click.option(
    "--client-ca-path",
    "client_ca",
    type=_file,
    help="Whose client certificates are believed. Default: those of the API server's authority.",
)
@click.option(
    "--auth-preferred-types",
    "kinds",
    multiple=True,
    callback=_split,
    default=("TLSCertificate,BearerToken",),
    show_default=True,
    help=f"How callers are told, in this order: {', '.join(_KINDS)}.",
)
@click.option(
    "--xfcc-header-name",
    "xfcc_header",
    default="X-Forwarded-Client-Cert",
    show_default=True,
    help="Header in which a proxy in front names the certificate.",
)
@click.option(
    "--trusted-proxy-cidrs",
    "trusted",
    multiple=True,
    callback=_split,
    help="Networks of proxies in front; nobody else is served then.",
)
@click.option(
    "--service-account-key-file",
    "account_keys",
    type=_file,
    multiple=True,
    help="Public keys of the API server's service account tokens, PEM; tokens are then told "
    "without asking it.",
)
@click.option(
    "--service-account-issuer",
    "account_issuer",
    default="https://kubernetes.default.svc.cluster.local",
    show_default=True,
    help="Issuer in those tokens.",
)
@click.option(
    "--api-audiences",
    "account_audiences",
    multiple=True,
    callback=_split,
    help="Whom those tokens are for.  [default: the issuer]",
)
@click.option(
    "--oidc-issuer-url",
    "oidc_issuer",
    default="",
    metavar="URL",
    help="Issuer whose tokens are verified here; these flags must be as the API server's.",
)
@click.option("--oidc-client-id", "oidc_client", default="", help="Whom those tokens are for.")
@click.option(
    "--oidc-username-claim",
    "oidc_username_claim",
    default="sub",
    show_default=True,
    help="Claim that names the user.",
)
@click.option(
    "--oidc-username-prefix",
    "oidc_username_prefix",
    help="What is put before users; - = nothing.  [default: as the API server does]",
)
@click.option(
    "--oidc-groups-claim", "oidc_groups_claim", default="", help="Claim that names the groups."
)
@click.option(
    "--oidc-groups-prefix", "oidc_groups_prefix", default="", help="What is put before groups."
)
@click.option(
    "--oidc-required-claim",
    "oidc_required",
    multiple=True,
    callback=_pairs,
    metavar="KEY=VALUE",
    help="What a token must say besides.",
)
@click.option(
    "--oidc-signing-algs",
    "oidc_algorithms",
    multiple=True,
    callback=_split,
    default=("RS256",),
    show_default=True,
    help="How tokens may be signed.",
)
@click.option(
    "--oidc-ca-file", "oidc_ca", type=_file, help="Authorities of the issuer's own address, PEM."
)
@click.option(
    "--ignored-user-group",
    "ignored_groups",
    multiple=True,
    callback=_split,
    help="Groups for which nothing is filtered.",
)
@click.option(
    "--ignored-username",
    "ignored_users",
    multiple=True,
    callback=_split,
    help="Users for whom nothing is filtered.",
)
@click.option(
    "--enable-reflector",
    "reflector",
    type=bool,
    default=False,
    is_flag=False,
    flag_value=True,
    metavar="BOOLEAN",
    show_default=True,
    help="Also show namespaces in which a RoleBinding names the caller.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(0),
    default=400,
    show_default=True,
    help="Requests of one caller that may be under way; 0 = no limit.",
)
@click.option(
    "--fan-out",
    "fanout",
    type=click.IntRange(1, 10_000),
    default=250,
    show_default=True,
    help="Namespaces that one watch of all of a caller's namespaces may have.",
)
@click.option(
    "--access-log/--no-access-log",
    default=True,
    show_default=True,
    help="Write a line for each request.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Processes that share the port; one core each. Their probes are at consecutive ports.",
)
@click.option(
    "--reuse-port",
    "shared",
    is_flag=True,
    help="Let several gateways on this machine share the port.",
)
@options.probes
@click.option(
    "--linger",
    type=click.FloatRange(0, 60),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="How long connections are taken after a stop.",
)
@click.option(
    "--grace",
    type=click.FloatRange(0, 600),
    default=20.0,
    show_default=True,
    metavar="SECONDS",
    help="How long requests may go on then.",
)
@options.logging
@proxy_flags.flags
@click.pass_context
def command(
    click_context: click.Context,
    /,
    *,
    kubeconfig: Path | None,
    context: str,
    enable_ssl: bool,
    certificate: Path | None,
    key: Path | None,
    kinds: tuple[str, ...],
    workers: int,
    log_format: Any,
    **others: Any,
) -> None:
    """Serve the tenants' view of the cluster.

    Unmodified kubectl, pointed here, lists only what belongs to the caller's tenants. Everything
    else goes to the API server in the caller's own name. Flags of Capsule Proxy are accepted;
    those about its caches, limits and webhooks have no effect, since there is nothing to set.
    """
    from tenantry.apps import gateway
    from tenantry.apps import workers as processes
    from tenantry.runtime import logs

    unknown = [kind for kind in kinds if kind not in _KINDS]
    if unknown:
        raise click.BadParameter(
            f"{unknown[0]!r} is not among {', '.join(_KINDS)}", param_hint="--auth-preferred-types"
        )
    if enable_ssl and (certificate is None or key is None):
        raise click.UsageError(
            "--ssl-cert-path and --ssl-key-path are needed, or --enable-ssl=false"
        )
    if not enable_ssl and (certificate is not None or key is not None):
        raise click.UsageError("a certificate has no use with --enable-ssl=false")
    others = proxy_flags.translated(others, click_context)
    probe_host, probe_port = options.address("--probes", others.pop("probes"))
    log_level = others.pop("log_level")
    if workers > 1:
        grace = others["linger"] + others["grace"] + 10.0
        given = sys.argv[1:]
        sys.exit(processes.run(given, workers, probes=(probe_host, probe_port), grace=grace))
    logs.configure(level=log_level, format=log_format)
    named = {key: others.pop(f"oidc_{key}") for key in _OIDC}
    issuer, client = others.pop("oidc_issuer"), others.pop("oidc_client")
    chosen = gateway.Settings(
        oidc=gateway.issuer_of(issuer, client, **named),
        certificate=certificate,
        key=key,
        kinds=tuple(kind for kind in kinds if kind != "Anonymous"),
        probe_host=probe_host,
        probe_port=probe_port,
        **others,
    )
    # The engine's sockets are many; the soft limit is often 1,024.
    _raise_limit()
    sys.exit(gateway.run(options.credentials(kubeconfig, context), chosen))


def _raise_limit() -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
