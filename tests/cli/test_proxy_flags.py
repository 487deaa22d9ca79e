"""The arguments of a Capsule Proxy Deployment start the gateway (specs/capsule-proxy 1, 7)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click.testing
import pytest

from tenantry.apps import gateway
from tenantry.cli import main, options
from tenantry.runtime import logs

Start = Callable[..., tuple[click.testing.Result, gateway.Settings | None]]

#: Flags of both versions, as charts write them and as Go reads them.
DEAD = [
    "--allowed-paths=/api,/apis,/version", "--rolebindings-resync-period=10h",
    "--disable-caching=false", "--disable-caching", "--client-connection-qps=20",
    "--client-connection-burst=30", "--enable-leader-election=true", "--enable-leader-election",
    "--enable-pprof=false", "--webhook-port=9443", "--webhooks=Watchdog",
    "--capsule-user-group=capsule.clastix.io", "--feature-gates=ProxyClusterScoped=true",
    "--feature-gates=SkipImpersonationReview=true,ProxyAllNamespaced=true", "--zap-devel=true",
    "--zap-encoder=json", "--zap-time-encoding=iso8601", "--zap-stacktrace-level=error",
    "--oidc-username-claim=preferred_username",
]  # fmt: skip


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Start:
    """Run the command up to where it would serve; return what it would serve with."""
    seen: list[gateway.Settings] = []

    def served(_credentials: Any, chosen: gateway.Settings) -> int:
        seen.append(chosen)
        return 0

    monkeypatch.setattr(gateway, "run", served)
    monkeypatch.setattr(options, "credentials", lambda *_: None)
    monkeypatch.setattr(logs, "configure", lambda **_: None)
    monkeypatch.delenv("NAMESPACE", raising=False)

    def run(
        *args: str, plain: bool = True, **env: str
    ) -> tuple[click.testing.Result, gateway.Settings | None]:
        seen.clear()
        ssl = ("--enable-ssl=false",) if plain else ()
        done = click.testing.CliRunner(env=env).invoke(main.command, ["gateway", *ssl, *args])
        return done, seen[0] if seen else None

    return run


@pytest.mark.parametrize("flag", DEAD)
def test_what_there_is_nothing_to_set_for_is_accepted(start: Start, flag: str) -> None:
    expected = start()[1]
    done, found = start(flag)
    assert done.exit_code == 0, done.output
    if "oidc" not in flag:
        assert found == expected


def test_a_whole_deployment(start: Start, tmp_path: Path) -> None:
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).touch()
    done, found = start(
        *DEAD, "--listening-port=9443", "--capsule-configuration-name=other", "--zap-log-level=4",
        "--ignored-user-group=a", "--ignored-user-group=b", "--ignored-username=c",
        "--impersonation-group-regexp=^dev", "--ignored-impersonation-group=x$",
        "--ignored-impersonation-group=^y", "--enable-ssl=true", "--enable-reflector=true",
        f"--ssl-cert-path={tmp_path / 'tls.crt'}", f"--ssl-key-path={tmp_path / 'tls.key'}",
        "--auth-preferred-types=BearerToken,TLSCertificate", "--metrics-addr=127.0.0.1:9999",
        plain=False, NAMESPACE="capsule-system",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert found is not None
    assert (found.port, found.configuration_name, found.reflector) == (9443, "other", True)
    assert (found.ignored_groups, found.ignored_users) == (("a", "b"), ("c",))
    assert found.kinds == ("BearerToken", "TLSCertificate")
    assert (found.impersonated.only, found.impersonated.never) == ("^dev", ("x$", "^y"))
    assert found.metrics == ("127.0.0.1", 9999)


def test_ports_are_where_they_are_looked_for(start: Start) -> None:
    """The probes are at 8081 and the metrics at 8080, on every address, in its Deployment."""
    _, found = start(NAMESPACE="capsule-system")
    assert found is not None
    assert (found.probe_host, found.probe_port, found.metrics) == ("0.0.0.0", 8081, ("", 8080))
    _, found = start("--probes=127.0.0.1:1", "--metrics-addr=0", NAMESPACE="capsule-system")
    assert found is not None
    assert (found.probe_host, found.probe_port, found.metrics) == ("127.0.0.1", 1, None)
    _, found = start()
    assert found is not None
    assert (found.probe_host, found.metrics) == ("127.0.0.1", None)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--impersonation-group-regexp=("], "valid RE2 regular expression"),
        (["--ignored-impersonation-group=a", "--ignored-impersonation-group=[z"], "valid RE2"),
        (["--metrics-addr=8080"], "'8080' is not [HOST]:PORT"),
        (["--zap-log-level=loud"], "'loud' is not among"),
        (["--auth-preferred-types=Magic"], "'Magic' is not among"),
        (["--ssl-cert-path=/nonexistent"], "does not exist"),
        (["--no-such-flag"], "No such option"),
    ],
)
def test_what_cannot_be_meant_is_named(start: Start, args: list[str], says: str) -> None:
    done, found = start(*args)
    assert (done.exit_code, found) == (2, None)
    assert says in done.output
