"""The flags of Capsule Proxy's process, so that the arguments of its Deployment go on to work.

What they say is turned into our own settings; what there is nothing to set for is accepted, in each way
in which Go reads flags.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from tenantry.cli import capsule_flags
from tenantry.core import errors, regex

F = TypeVar("F", bound=Callable[..., Any])

#: Those that mean nothing here, with whether they are switches.
_NOTHING = {
    "--allowed-paths": False,
    "--rolebindings-resync-period": False,
    "--disable-caching": True,
    "--client-connection-qps": False,
    "--client-connection-burst": False,
    "--enable-leader-election": True,
    "--enable-pprof": True,
    "--webhook-port": False,
    "--webhooks": False,
    "--capsule-user-group": False,
    "--zap-devel": True,
    "--zap-encoder": False,
}
#: Where Capsule Proxy always has its probes, and its metrics unless told otherwise.
_PROBES, _METRICS = "0.0.0.0:8081", ("", 8080)


def _expressions(
    _context: click.Context, option: click.Parameter, value: str | tuple[str, ...]
) -> Any:
    for text in (value,) if isinstance(value, str) else value:
        try:
            regex.compile(text, option.name or "")
        except errors.InvalidValueError as error:
            raise click.BadParameter(str(error)) from None
    return value


def flags(function: F) -> F:
    """Add the flags; `translated` reads them."""
    for name, switch in _NOTHING.items():
        more: dict[str, Any] = {"is_flag": False, "flag_value": "true"} if switch else {}
        function = capsule_flags.nothing(click.option, name, multiple=True, **more)(function)
    for option in reversed(
        (
            click.option(
                "--impersonation-group-regexp",
                "only_groups",
                default="",
                metavar="REGEXP",
                callback=_expressions,
                help="Groups that callers may ask to be in; others are as if they were not named.",
            ),
            click.option(
                "--ignored-impersonation-group",
                "never_groups",
                multiple=True,
                metavar="REGEXP",
                callback=_expressions,
                help="Groups that are as if callers had not named them.",
            ),
            click.option(
                "--metrics-addr",
                "metrics",
                type=capsule_flags.Address(),
                help="Where /metrics is served besides --probes; 0 = nowhere.  "
                "[default: :8080 where $NAMESPACE is set, as in Capsule Proxy's Deployment]",
            ),
            click.option("--zap-log-level", default=None, help="Capsule Proxy's --log-level."),
        )
    ):
        function = option(function)
    return function


def translated(given: dict[str, Any], context: click.Context) -> dict[str, Any]:
    """Return our settings for what was given, with the rest as it was."""
    from tenantry.gateway import identity

    found = dict(given)
    only, never = found.pop("only_groups"), found.pop("never_groups")
    found["impersonated"] = identity.Groups(only, never) if only or never else identity.ANY
    deployed = "NAMESPACE" in os.environ
    address = found.pop("metrics") or (_METRICS if deployed else ("", 0))
    found["metrics"] = address if address[1] else None
    if deployed and context.get_parameter_source("probes") is click.core.ParameterSource.DEFAULT:
        found["probes"] = _PROBES
    found["log_level"] = capsule_flags.log_level(found.pop("zap_log_level"), found["log_level"])
    return found
