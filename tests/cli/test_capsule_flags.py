"""The arguments of a Capsule Deployment start Tenantry (specs/capsule 6.1, 6.3)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click.testing
import pytest

from tenantry.apps import roles, settings
from tenantry.cli import capsule_flags, main, options
from tenantry.runtime import logs

#: As Capsule's chart writes them.
DEPLOYMENT = [
    "--enable-leader-election",
    "--leader-election-lease-duration=15s",
    "--leader-election-renew-deadline=10s",
    "--leader-election-retry-period=2s",
    "--workers=1",
    "--cache-sync-timeout=4m",
    "--client-connection-qps=20",
    "--client-connection-burst=30",
    "--metrics-addr=:8080",
    "--webhook-port=9443",
    "--enable-http2=false",
    "--enable-pprof=false",
    "--enable-tracing=false",
    "--tracing-otlp-endpoint=collector:4317",
    "--tracing-sample-ratio",
    "0.5",
    "--zap-log-level=4",
    "--zap-devel=true",
    "--zap-encoder=json",
    "--zap-time-encoding=iso8601",
    "--configuration-name=default",
]

Start = Callable[..., tuple[click.testing.Result, settings.Settings | None]]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Start:
    """Run a command up to where it would play its roles; return what it would play them with."""
    seen: list[settings.Settings] = []

    def played(_roles: Any, _credentials: Any, chosen: settings.Settings) -> int:
        seen.append(chosen)
        return 0

    monkeypatch.setattr(roles, "run", played)
    monkeypatch.setattr(options, "credentials", lambda *_: None)
    monkeypatch.setattr(logs, "configure", lambda **_: None)
    for name in ("NAMESPACE", "SERVICE_ACCOUNT"):
        monkeypatch.delenv(name, raising=False)

    def run(
        *args: str, role: str = "run", **env: str
    ) -> tuple[click.testing.Result, settings.Settings | None]:
        result = click.testing.CliRunner().invoke(main.command, [role, *args], env=env)
        return result, seen.pop() if seen else None

    return run


@pytest.mark.parametrize("role", ["run", "controller", "webhook"])
def test_an_existing_deployment_goes_on(start: Start, role: str) -> None:
    result, chosen = start(*DEPLOYMENT, role=role, NAMESPACE="policy", SERVICE_ACCOUNT="capsule")
    assert result.exit_code == 0, result.output
    assert chosen is not None
    assert (chosen.namespace, chosen.configuration_name, chosen.workers) == ("policy", "default", 1)
    assert chosen.elect
    assert chosen.timing.sync == 240.0
    # Its Services and probes find what they found.
    assert (chosen.webhook_host, chosen.webhook_port) == ("", 9443)
    assert chosen.listeners == (("", 8080, None), ("", 10080, None))


def test_without_them_nothing_is_open_to_others(start: Start) -> None:
    _, chosen = start()
    assert chosen is not None
    assert chosen == settings.Settings()


def cert(tmp_path: Path) -> Path:
    for name in ("tls.crt", "tls.key", "other.pem"):
        (tmp_path / name).write_text("x")
    return tmp_path


@pytest.mark.parametrize(
    ("args", "field", "value"),
    [
        (["--enable-leader-election=false"], "elect", False),
        (["--enable-leader-election=T"], "elect", True),
        (["--metrics-addr=127.0.0.1:1234"], "listeners", (("127.0.0.1", 1234, None),)),
        (["--metrics-addr=0"], "listeners", ()),
        (["--metrics-addr=:1", "--metrics-secure"], "listeners", (("", 1, ()),)),
        (["--health-addr=[::1]:10080"], "listeners", (("::1", 10080, None),)),
        (["--webhook-port=1234"], "webhook_port", 1234),
        (["--webhook-port=1234"], "webhook_host", ""),
        (["--webhook-port=1234", "--webhook=10.0.0.1:1"], "webhook_host", "10.0.0.1"),
        (["--webhook-port=1234", "--webhook=10.0.0.1:1"], "webhook_port", 1234),
        (["--configuration-name=other"], "configuration_name", "other"),
        (["--service-account=x"], "service_accounts", ("capsule", "tenantry-webhook", "x")),
    ],
)
def test_what_a_flag_says_is_done(start: Start, args: list[str], field: str, value: Any) -> None:
    result, chosen = start(*args)
    assert result.exit_code == 0, result.output
    assert getattr(chosen, field) == value


def test_leases_are_as_long_as_said(start: Start) -> None:
    _, chosen = start(
        "--leader-election-lease-duration=1m30s",
        "--leader-election-renew-deadline=89s",
        "--leader-election-retry-period=500ms",
    )
    assert chosen is not None
    timing = chosen.timing
    assert (timing.lease, timing.renew_deadline, timing.lease_retry) == (90.0, 89.0, 0.5)
    # A write of a leader that is about to lose its lease must not outlive it.
    assert timing.write < 1.0


def test_certificates_of_others_are_served(start: Start, tmp_path: Path) -> None:
    folder = cert(tmp_path)
    _, chosen = start(f"--webhook-cert-path={folder}")
    assert chosen is not None
    assert chosen.webhook_certificate == (folder / "tls.crt", folder / "tls.key")
    _, chosen = start(f"--webhook-cert-path={folder}", "--webhook-cert-name=other.pem")
    assert chosen is not None
    assert chosen.webhook_certificate == (folder / "other.pem", folder / "tls.key")
    _, chosen = start("--metrics-addr=:8443", "--metrics-secure", f"--metrics-cert-path={folder}")
    assert chosen is not None
    assert chosen.listeners == (("", 8443, (folder / "tls.crt", folder / "tls.key")),)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--enable-leader-election=maybe"], "'--enable-leader-election': 'maybe' is not true or"),
        (["--enable-leader-election", "--no-elect"], "contradicts"),
        (
            ["--leader-election-lease-duration=15"],
            "'--leader-election-lease-duration': '15' is not a duration such as 15s",
        ),
        (["--leader-election-retry-period=0s"], "'0s' must be longer than 0s"),
        (["--leader-election-retry-period=-1s"], "'-1s' is not a duration"),
        (
            ["--leader-election-renew-deadline=20s"],
            "--leader-election-renew-deadline: 20s must be shorter than "
            "--leader-election-lease-duration, which is 15s",
        ),
        (
            ["--leader-election-retry-period=10s"],
            "--leader-election-retry-period: 10s must be shorter than "
            "--leader-election-renew-deadline, which is 10s",
        ),
        (["--cache-sync-timeout=soon"], "'--cache-sync-timeout': 'soon' is not a duration"),
        (["--workers=0"], "'--workers': 0 is not in the range 1<=x<=64"),
        (["--metrics-addr=8080"], "'--metrics-addr': '8080' is not [HOST]:PORT, nor 0 for off"),
        (["--health-addr=:99999"], "':99999' is not [HOST]:PORT"),
        (["--webhook-port=70000"], "'--webhook-port': 70000 is not in the range"),
        (["--webhook-cert-path=/nowhere/at/all"], "'/nowhere/at/all' does not exist"),
        (["--webhook-cert-name=a.pem"], "--webhook-cert-name: 'a.pem' is not a file in"),
        (["--client-connection-qps=many"], "'--client-connection-qps': 'many' is not a valid"),
        (["--zap-log-level=loud"], "'loud' is not among debug, info, error, panic"),
        (["--zap-encoder=xml"], "'xml' is not one of 'json', 'console'"),
        (["--no-such-flag"], "--no-such-flag"),
    ],
)
def test_what_makes_no_sense_is_named(start: Start, args: list[str], said: str) -> None:
    result, chosen = start(*args)
    assert (result.exit_code, chosen) == (2, None)
    assert said in result.output


@pytest.mark.parametrize(
    ("text", "level"),
    [(None, "warning"), ("debug", "debug"), ("info", "info"), ("panic", "error"), ("4", "debug")],
)
def test_levels_of_zap(text: str | None, level: str) -> None:
    assert capsule_flags.log_level(text, "warning") == level


def test_families_without_meaning_take_their_values_with_them() -> None:
    args = ["--tracing-a", "1", "--workers=2", "--tracing-b=3", "--tracing-c", "--elect"]
    assert capsule_flags.without_families(args) == ["--workers=2", "--elect"]
