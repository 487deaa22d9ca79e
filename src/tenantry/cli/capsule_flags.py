"""The flags of Capsule's process, so that the arguments of an existing Deployment go on to work.

What they say is turned into our own settings; what there is nothing to set for is accepted. Values
are judged as Capsule judges them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from tenantry.cli import options
from tenantry.core import durations

F = TypeVar("F", bound=Callable[..., Any])

#: Where Capsule looks for the certificate of its webhooks unless told otherwise.
CERTIFICATES = Path("/tmp/k8s-webhook-server/serving-certs")  # noqa: S108 - Capsule's default
#: Families of flags of which nothing has a meaning here.
_FAMILIES = ("--tracing-", "--feature-gates", "--zap-time-", "--zap-stacktrace-")
_DURATION = re.compile(r"(?:(?:\d+(?:\.\d+)?|\.\d+)(?:ms|us|\u00b5s|ns|h|m|s))+")
_LEVELS = {"debug": "debug", "info": "info", "error": "error", "panic": "error"}
#: What a write may take of the time between the renew deadline and the end of a lease.
_WRITE = 0.8


class Command(click.Command):
    """A command that takes families of flags without knowing each of them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Leave out what has no meaning, then read the rest."""
        return super().parse_args(ctx, without_families(args))


def without_families(args: Sequence[str]) -> list[str]:
    """Return the arguments without the flags, and their values, that mean nothing here; pure."""
    kept, skipping = [], False
    for arg in args:
        if skipping and not arg.startswith("-"):
            skipping = False
            continue
        skipping = arg.startswith(_FAMILIES) and "=" not in arg
        if not arg.startswith(_FAMILIES):
            kept.append(arg)
    return kept


class Duration(click.ParamType[float]):
    """A duration as Go writes it; longer than nothing."""

    name = "DURATION"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return seconds."""
        if isinstance(value, float):
            return value
        if _DURATION.fullmatch(value) is None:
            self.fail(f"{value!r} is not a duration such as 15s, 1m30s or 500ms", param, ctx)
        seconds = durations.seconds(value)
        if not seconds > 0:
            self.fail(f"{value!r} must be longer than 0s", param, ctx)
        return seconds


class Boolean(click.ParamType[bool]):
    """A truth value as Go reads it."""

    name = "BOOLEAN"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        """Return it."""
        if isinstance(value, bool):
            return value
        if value in ("1", "t", "T", "true", "TRUE", "True"):
            return True
        if value in ("0", "f", "F", "false", "FALSE", "False"):
            return False
        return bool(self.fail(f"{value!r} is not true or false", param, ctx))


class Address(click.ParamType[tuple[str, int]]):
    """Where to listen, as Go writes it; `0` turns it off."""

    name = "[HOST]:PORT"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        """Return host ("" = all of them) and port, 0 for off."""
        if not isinstance(value, str):
            found: tuple[str, int] = value
            return found
        if value == "0":
            return "", 0
        host, colon, port = value.rpartition(":")
        if not colon or not port.isdecimal() or not 0 < int(port) < 65536:
            self.fail(f"{value!r} is not [HOST]:PORT, nor 0 for off", param, ctx)
        return host.strip("[]"), int(port)


_folder = click.Path(path_type=Path, file_okay=False, exists=True)


def _switch(name: str, **more: Any) -> Callable[[F], F]:
    return click.option(name, type=Boolean(), is_flag=False, flag_value="true", **more)


def _duration(name: str, default: str, about: str) -> Callable[[F], F]:
    return click.option(name, type=Duration(), default=default, show_default=True, help=about)


def flags(function: F) -> F:
    """Add the flags; `translated` reads them."""
    for option in reversed(
        (
            _switch(
                "--enable-leader-election",
                help="Capsule's word for --elect.",
            ),
            _duration(
                "--leader-election-lease-duration", "15s",
                "A Lease not renewed for this long may be taken by another process.",
            ),
            _duration(
                "--leader-election-renew-deadline", "10s",
                "A leader that could not renew its Lease for this long ends.",
            ),
            _duration(
                "--leader-election-retry-period", "2s",
                "Between two attempts to get or renew the Lease.",
            ),
            _duration(
                "--cache-sync-timeout", "2m", "How long caches may take to fill at start."
            ),
            click.option(
                "--metrics-addr",
                type=Address(),
                help="Where /metrics is served besides --probes; 0 = nowhere.  "
                "[default: :8080 where $SERVICE_ACCOUNT is set, as in Capsule's Deployment]",
            ),
            _switch("--metrics-secure", default="false", help="Serve TLS there; with a certificate of its own unless one is given."),
            click.option("--metrics-cert-path", type=_folder, help="Folder of its certificate."),
            click.option("--metrics-cert-name", default="tls.crt", show_default=True),
            click.option("--metrics-cert-key", default="tls.key", show_default=True),
            click.option(
                "--health-addr",
                type=Address(),
                help="Where /healthz and /readyz are served besides --probes; 0 = nowhere.  "
                "[default: :10080 where $SERVICE_ACCOUNT is set]",
            ),
            click.option(
                "--webhook-port",
                type=click.IntRange(1, 65535),
                help="Port of --webhook; on all addresses unless that says which.",
            ),
            click.option(
                "--webhook-cert-path",
                type=_folder,
                help="Folder with the webhooks' certificate, such as a Secret of cert-manager; "
                "read again when it changes.  [default: a Secret that Tenantry keeps]",
            ),
            click.option("--webhook-cert-name", help="Its certificate chain, PEM.  [tls.crt]"),
            click.option("--webhook-cert-key", help="Its private key, PEM.  [tls.key]"),
            click.option(
                "--service-account",
                envvar="SERVICE_ACCOUNT",
                default="",
                metavar="NAME",
                help="One more service account in the namespace that acts for the platform; "
                "$SERVICE_ACCOUNT.",
            ),
            click.option("--zap-log-level", hidden=True),
            click.option(
                "--zap-encoder", type=click.Choice(["json", "console"]), hidden=True
            ),
            nothing(_switch, "--zap-devel"),
            nothing(_switch, "--enable-http2"),
            nothing(_switch, "--enable-pprof"),
            nothing(_switch, "--enable-tracing"),
            nothing(click.option, "--client-connection-qps", type=float),
            nothing(click.option, "--client-connection-burst", type=int),
            click.version_option(package_name="tenantry"),
        )
    ):  # fmt: skip
        function = option(function)
    return function


def nothing(make: Callable[..., Callable[[F], F]], name: str, **more: Any) -> Callable[[F], F]:
    """Accept a flag of Capsule that has nothing to say here."""
    return make(name, expose_value=False, hidden=True, **more)


def translated(given: dict[str, Any], *, explicit: Callable[[str], bool]) -> dict[str, Any]:
    """Take Capsule's flags out of what was given, and return what of our settings they change.

    :param explicit: tells whether an option was given rather than left to its default
    """
    account = given.pop("service_account")
    webhook = given.pop("webhook")
    changed: dict[str, Any] = {
        "timing": _timing(given),
        "webhook_certificate": _certificate(given),
        "listeners": _listeners(given, deployed=bool(account)),
    }
    elect = given.pop("enable_leader_election")
    if elect is not None:
        if explicit("elect") and elect != given["elect"]:
            raise click.UsageError("--enable-leader-election contradicts --elect or --no-elect")
        changed["elect"] = elect
    if account:
        from tenantry.apps import settings

        known = settings.Settings().service_accounts
        changed["service_accounts"] = (*known, *({account} - {*known}))
    host, port = options.address("--webhook", webhook)
    wanted = given.pop("webhook_port")
    if wanted is not None or account:
        host = host if explicit("webhook") else ""
        port = wanted or port
    return {**changed, "webhook_host": host, "webhook_port": port}


def log_level(text: str | None, level: str) -> str:
    """Return our level for zap's, which is a name or how much more than info is wanted."""
    if text is None:
        return level
    if text.isdecimal() and int(text) > 0:
        return "debug"
    if text not in _LEVELS:
        raise click.BadParameter(
            f"{text!r} is not among {', '.join(_LEVELS)}, nor a number above 0",
            param_hint="--zap-log-level",
        )
    return _LEVELS[text]


def _timing(given: dict[str, Any]) -> Any:
    from tenantry.runtime import timing

    lease, renew, retry = (
        given.pop(f"leader_election_{part}")
        for part in ("lease_duration", "renew_deadline", "retry_period")
    )
    sync = given.pop("cache_sync_timeout")
    for shorter, longer, values in (
        ("renew-deadline", "lease-duration", (renew, lease)),
        ("retry-period", "renew-deadline", (retry, renew)),
    ):
        if not values[0] < values[1]:
            raise click.BadParameter(
                f"{values[0]:g}s must be shorter than --leader-election-{longer}, "
                f"which is {values[1]:g}s",
                param_hint=f"--leader-election-{shorter}",
            )
    # Defaults stay whatever the process brings, so that all of them can be shortened together.
    chosen: dict[str, float] = {}
    if (lease, renew, retry) != (15.0, 10.0, 2.0):
        usual = timing.Timing().write
        write = min(usual, _WRITE * (lease - renew))
        chosen = {"lease": lease, "renew_deadline": renew, "lease_retry": retry, "write": write}
    if sync != 120.0:
        chosen["sync"] = sync
    return timing.Timing(**chosen)


def _certificate(given: dict[str, Any]) -> tuple[Path, Path] | None:
    folder, name, key = (given.pop(f"webhook_cert_{part}") for part in ("path", "name", "key"))
    if folder is None:
        if not (name or key):
            return None
        folder = CERTIFICATES
    return _pair(folder, name or "tls.crt", key or "tls.key", "--webhook-cert")


def _pair(folder: Path, name: str, key: str, flag: str) -> tuple[Path, Path]:
    for part, file in (("name", name), ("key", key)):
        if not (folder / file).is_file():
            raise click.BadParameter(
                f"{file!r} is not a file in {folder}", param_hint=f"{flag}-{part}"
            )
    return folder / name, folder / key


def _listeners(given: dict[str, Any], *, deployed: bool) -> tuple[Any, ...]:
    # Where Capsule's Deployment has its probes and its Services, whatever its flags say.
    metrics = given.pop("metrics_addr") or (("", 8080) if deployed else ("", 0))
    health = given.pop("health_addr") or (("", 10080) if deployed else ("", 0))
    secure = given.pop("metrics_secure")
    folder, name, key = (given.pop(f"metrics_cert_{part}") for part in ("path", "name", "key"))
    files: tuple[Path, ...] | None = None
    if secure:
        files = () if folder is None else _pair(folder, name, key, "--metrics-cert")
    return tuple(
        (*address, tls) for address, tls in ((metrics, files), (health, None)) if address[1]
    )
